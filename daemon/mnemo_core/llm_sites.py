"""The call sites of language-model tasks, which settings and the log of calls name. SPEC 12.2"""

from typing import Literal

Site = Literal[
    "triage", "gate", "merge", "reconcile", "audit", "expand", "extract", "fact_extract", "resume_compress",
    "insert_merge", "distill", "naming", "summarize", "condense", "judge_importance", "rerank", "answer",
]  # fmt: skip
"""The call sites of SPEC 12.2. They are persisted with every call: none may ever be renamed."""


ModelKey = Literal[Site, "resume"]

"""The registered language-model tasks. A task that is not in this table is never asked."""

from mnemo_core.llm.audit import AUDIT
from mnemo_core.llm.condense import CONDENSE
from mnemo_core.llm.distill import DISTILL
from mnemo_core.llm.expand import EXPAND
from mnemo_core.llm.extract import EXTRACT
from mnemo_core.llm.fact_extract import FACT_EXTRACT
from mnemo_core.llm.gate import GATE
from mnemo_core.llm.importance import JUDGE_IMPORTANCE
from mnemo_core.llm.merge import INSERT_MERGE, MERGE
from mnemo_core.llm.naming import NAMING
from mnemo_core.llm.question_answer import ANSWER
from mnemo_core.llm.reconcile import RECONCILE
from mnemo_core.llm.rerank import RERANK
from mnemo_core.llm.resume_compress import RESUME_COMPRESS
from mnemo_core.llm.summarize import SUMMARIZE
from mnemo_core.llm.tasks import AnyTask
from mnemo_core.llm.triage import TRIAGE

TASKS: tuple[AnyTask, ...] = (
    ANSWER,
    AUDIT,
    CONDENSE,
    DISTILL,
    EXPAND,
    EXTRACT,
    FACT_EXTRACT,
    GATE,
    INSERT_MERGE,
    JUDGE_IMPORTANCE,
    MERGE,
    NAMING,
    RECONCILE,
    RERANK,
    RESUME_COMPRESS,
    SUMMARIZE,
    TRIAGE,
)

"""The registered language-model tasks. A task that is not in this table is never asked."""

from mnemo_core.llm.audit import AUDIT
from mnemo_core.llm.extraction import EXTRACT, FACT_EXTRACT
from mnemo_core.llm.merge import DISTILL, INSERT_MERGE, MERGE
from mnemo_core.llm.question_answer import ANSWER
from mnemo_core.llm.recall_tasks import EXPAND, RERANK
from mnemo_core.llm.reconcile import RECONCILE
from mnemo_core.llm.summarize import CONDENSE, NAMING, RESUME_COMPRESS, SUMMARIZE
from mnemo_core.llm.tasks import AnyTask
from mnemo_core.llm.triage import GATE, JUDGE_IMPORTANCE, TRIAGE

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

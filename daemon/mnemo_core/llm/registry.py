"""The registered language-model tasks. A task that is not in this table is never asked."""

from mnemo_core.llm.extraction import EXTRACT, FACT_EXTRACT
from mnemo_core.llm.judging.audit import AUDIT
from mnemo_core.llm.judging.reconcile import RECONCILE
from mnemo_core.llm.judging.triage import GATE, JUDGE_IMPORTANCE, TRIAGE
from mnemo_core.llm.questions.expand import EXPAND
from mnemo_core.llm.questions.question_answer import ANSWER
from mnemo_core.llm.questions.rerank import RERANK
from mnemo_core.llm.tasks import AnyTask
from mnemo_core.llm.writing.distill import DISTILL
from mnemo_core.llm.writing.merge import INSERT_MERGE, MERGE
from mnemo_core.llm.writing.naming import NAMING
from mnemo_core.llm.writing.summarize import CONDENSE, RESUME_COMPRESS, SUMMARIZE

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

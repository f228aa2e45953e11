"""The registered language-model tasks. A task that is not in this table is never asked."""

from mnemo_core.llm.expand import EXPAND
from mnemo_core.llm.naming import NAMING
from mnemo_core.llm.question_answer import ANSWER
from mnemo_core.llm.rerank import RERANK
from mnemo_core.llm.summarize import SUMMARIZE
from mnemo_core.llm.tasks import AnyTask

TASKS: tuple[AnyTask, ...] = (
    ANSWER,
    EXPAND,
    NAMING,
    RERANK,
    SUMMARIZE,
)

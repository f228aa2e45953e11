"""Replies to the messages of a session, from memories alone. SPEC 8"""

from collections.abc import Callable, Iterator, Sequence

from mnemo_core.ingest.classification import classify
from mnemo_core.llm.questions.question_answer import SOURCES_MAX, is_quotable
from mnemo_core.llm.tasks import EarlierQuestion
from mnemo_core.text.query_features import analyze_query
from mnemo_daemon.memories.memory_service import details_of
from mnemo_daemon.models.language.task_runner import TaskRunner
from mnemo_daemon.retrieval.question import Hit, RecallOutcome
from mnemo_daemon.retrieval.question_answering import AnsweredQuestion, answer_inputs, answer_question
from mnemo_daemon.sessions.tiered_recall import TieredOutcome
from mnemo_store.backend import Snapshot
from mnemo_store.records import Memory

SESSION_CHANNEL = "session"  # of a hit that only the tiers of the session found
NOTED = "Noted."  # the reply to a message that asks nothing


def with_tiered(snapshot: Snapshot, recalled: RecallOutcome, outcome: TieredOutcome) -> RecallOutcome:
    """The hits of an ordinary recall, and behind them what the tiers of the session add, as many as are read.

    What only the tiers found has no score: by their cosine nothing can be told about how likely it answers. Questions
    that a person asked answer nothing.
    """
    hits = {hit.details.memory.id: hit for hit in (*_hits_of(snapshot, outcome), *recalled.hits)}
    order = dict.fromkeys([*(hit.details.memory.id for hit in recalled.hits), *hits])
    sources = [hits[memory_id] for memory_id in order if not _is_question(hits[memory_id].details.memory)]
    return recalled._replace(hits=sources[:SOURCES_MAX])


def reply(
    message: str, question: str, sources: RecallOutcome, tasks: TaskRunner, until: float,
    is_cancelled: Callable[[], bool], earlier: Sequence[EarlierQuestion],
) -> AnsweredQuestion:  # fmt: skip
    """Answer a message from these sources; what asks nothing is noted, unless a source has all of its words.

    question: the message, made whole by the one before it. Waits for the language model as `answer_question` does.
    """
    if _asks_nothing(message):
        inputs = answer_inputs(question, sources.hits)
        if inputs is None or not is_quotable(inputs):
            return AnsweredQuestion([], "quotes", "the message asks nothing", NOTED)
    return answer_question(question, sources, tasks, until, is_cancelled, earlier)


def _asks_nothing(message: str) -> bool:
    return analyze_query(message).is_keywords and classify(message, role="user").category != "request"


def _is_question(memory: Memory) -> bool:
    is_of_person = memory.turn is not None and memory.turn.role == "user"
    return is_of_person and (memory.category == "request" or memory.content.rstrip().endswith(("?", "？")))


def _hits_of(snapshot: Snapshot, outcome: TieredOutcome) -> Iterator[Hit]:
    """The turns that were selected, or stand at the end of the ring and are near the message, best first."""
    shown = [each.item for each in outcome.ranking.ranked if each.dropped in ("", "in_ring")]
    for memory_id in dict.fromkeys(memory_id for item in shown for memory_id in item.memory_ids):
        if (memory := snapshot.memory(memory_id)) is not None:
            yield Hit(details_of(snapshot, memory), 0.0, 0.0, (SESSION_CHANNEL,))

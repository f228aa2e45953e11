"""Stores of 1 to 40 memories of the sets on which nothing is fitted, each asked one question. SPEC 7.5"""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from mnemo_daemon.models.embedders.embedding import EmbeddingService
from tests.support import recall_sets
from tests.support.samples import quick_folder, sample_memory
from tests.support.store_services import put, services_in

SIZES = (1, 1, 2, 3, 5, 8, 13, 20, 40)
ABSENT = 0.3  # of the stores, those without what answers
AT = 1_800_000_000_000  # ms: after everything was told


class ShownScores(NamedTuple):
    """The scores of an answer, best first, and which of them answer the question."""

    size: int
    scores: list[float]
    is_right: list[bool]


class _Set(NamedTuple):
    texts: dict[str, dict[str, Any]]  # the fields of each memory, by its id in the set
    questions: list[tuple[str, tuple[str, ...]]]  # with the ids of what answers


def asked(count: int, embedding: EmbeddingService, seed: int = 1) -> Iterator[ShownScores]:
    """So many stores, half of statements, half of turns; each is filled, asked, and thrown away."""
    chance = random.Random(seed)
    talks, beliefs = list(_talks()), list(_beliefs())
    for _ in range(count):
        own = chance.choice(beliefs if chance.random() < 0.5 else talks)
        text, answers = chance.choice(own.questions)
        size = chance.choice(SIZES)
        right = [] if chance.random() < ABSENT else list(answers)[:size]
        others = sorted(set(own.texts) - set(answers))
        kept = right + chance.sample(others, min(len(others), size - len(right)))
        memories = [sample_memory(number, user_id="local", **own.texts[name]) for number, name in enumerate(kept, 1)]
        with quick_folder() as scratch, services_in(scratch, embedding) as services:
            services.at = AT
            services.indexing.start()
            put(services, *memories)
            hits = services.recall(text, top_k=10).hits
        ids = {memory.id for memory in memories[: len(right)]}
        yield ShownScores(len(kept), [hit.score for hit in hits], [hit.details.memory.id in ids for hit in hits])


def _talks() -> Iterator[_Set]:
    for talk in recall_sets.conversations(recall_sets.UNSEEN):
        texts = {
            turn.id: {"content": turn.text, "speaker": turn.speaker, "session_id": f"s{turn.session}",
                      "event_at": int(turn.at.timestamp() * 1000)}
            for turn in talk.turns
        }  # fmt: skip
        yield _Set(texts, [(each.text, each.evidence) for each in talk.questions if each.evidence])


def _beliefs() -> Iterator[_Set]:
    for beliefs in recall_sets.belief_sets(recall_sets.UNSEEN):
        texts = {
            each.id: {"content": each.text, "kind": each.kind, "event_at": int(each.at.timestamp() * 1000)}
            for each in beliefs.beliefs
        }
        yield _Set(texts, [(each.text, each.answers) for each in beliefs.questions if each.answers])

"""From ranked candidates to the answer: in what order, how many, and what is shown of each. SPEC 7.5

Only the memories that are answered are read from the database.
"""

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from mnemo_core import ranking
from mnemo_core.chunking import estimate_tokens
from mnemo_core.ranking import Candidates
from mnemo_core.sentences import best_sentence
from mnemo_daemon.channels import Channels, Scene
from mnemo_daemon.embedding import EmbeddingService
from mnemo_daemon.indexing import Indexing
from mnemo_daemon.memories import Found, found
from mnemo_daemon.question import Best, Hit, Question
from mnemo_daemon.views import Views
from mnemo_store.reading import Snapshot
from mnemo_store.records import Memory, content_hash
from mnemo_store.store import Store


class Answering:
    """Chooses from the ranked candidates, and reads what is chosen."""

    def __init__(self, store: Store, views: Views, indexing: Indexing, embedding: EmbeddingService) -> None:
        self._store = store
        self._views = views
        self._indexing = indexing
        self._embedding = embedding

    def choose(
        self, question: Question, scene: Scene, channels: Channels, scores: NDArray[np.float32], rows: list[int]
    ) -> tuple[list[Hit], int]:
        """Decodes in order until top_k fit the budget; equal content once."""
        hits: dict[int, Hit] = {}

        def tokens(row: int) -> int:
            number = int(channels.numbers[row])
            return self._tokens(number if number < scene.base else None, hits[row].found.memory)

        with self._store.snapshot() as snapshot:
            distinct = _distinct(snapshot, scene, channels, scores, rows, hits)
            after_offset = itertools.islice(distinct, question.offset, None)
            chosen, total = ranking.choose(after_offset, tokens, question.token_budget, question.top_k)
        answers = [hits[row] for row in chosen]
        if question.highlight:
            answers = [hit._replace(best=self._best(hit.found, question.query)) for hit in answers]
        return answers, total

    def _tokens(self, number: int | None, memory: Memory) -> int:
        """Of a memory's content: counted once by the model's tokenizer, estimated while there is no model.

        What has no number is a version of another time, of which no count is kept.
        """
        columns = self._views.columns
        known = columns.tokens_of(number) if number is not None else 0
        if known:
            return known
        serving = self._indexing.serving()
        if serving is None:
            return estimate_tokens([memory.content])[0]
        counted = self._embedding.count_tokens(serving.embedder, memory.content)
        if number is not None:
            columns.set_tokens(number, counted, memory.modified_at)
        return counted

    def _best(self, answer: Found, query: str) -> Best:
        content = answer.memory.content
        marks = self._views.words.tokenizer.marks(content, query)
        start, end = best_sentence(content, marks)
        inside = [(max(a, start) - start, min(b, end) - start) for a, b in marks if a < end and b > start]
        line = 0
        if answer.note is not None:
            place = next((chunk for chunk in answer.note.chunks if chunk.memory == answer.memory.id), None)
            if place is not None:
                line = min(place.last_line, place.first_line + content[:start].count("\n"))
        return Best(content[start:end], inside, line)


def ordered(
    question: Question, scene: Scene, channels: Channels, scores: NDArray[np.float32], candidates: Candidates
) -> list[int]:
    order = ranking.order(scores, candidates)
    order = order[scores[order] >= np.float32(question.min_score)]
    order = order[scores[order] > 0]
    if question.sort == "recent":
        order = order[np.argsort(-candidates.event_at[order], kind="stable")]
    elif question.sort == "accessed":  # what was never recalled has 0, and comes last
        accessed = scene.column("last_accessed", channels.numbers[order])
        order = order[np.argsort(-accessed, kind="stable")]
    ordered: list[int] = order.tolist()
    return ordered


def _distinct(
    snapshot: Snapshot,
    scene: Scene,
    channels: Channels,
    scores: NDArray[np.float32],
    rows: Iterable[int],
    hits: dict[int, Hit],
) -> Iterator[int]:
    """The rows in order, each decoded into hits as it is asked for; of equal contents the first."""
    seen: set[bytes] = set()
    for row in rows:
        memory = scene.memory(snapshot, int(channels.numbers[row]))
        if memory is None or (digest := content_hash(memory.content)) in seen:
            continue
        seen.add(digest)
        names = (("words", channels.in_words[row]), ("vectors", channels.in_vectors[row]))
        channel_names = tuple(name for name, has_it in names if has_it)
        hits[row] = Hit(found(snapshot, memory), float(scores[row]), channel_names)
        yield row

"""From ranked candidates to the answer: in what order, how many, and what is shown of each. SPEC 7.5

Only the memories that the answer comes to are read from the database.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_core.decay import epoch_of
from mnemo_core.documents.chunking import estimate_tokens
from mnemo_core.ingest.memory_role import DIMENSIONS, ROLES, personal_odds
from mnemo_core.retrieval import abstention, excerpts, result_selection
from mnemo_core.retrieval.abstention import PromptCandidate, relevant_places
from mnemo_core.retrieval.excerpts import best_sentence, cut_to_lines, whole_words
from mnemo_core.retrieval.result_selection import (
    IMPERSONAL_SOURCES,
    SelectedMemory,
    SelectionRequest,
    Windows,
    is_preference,
)
from mnemo_core.retrieval.time_placement import CANCELLATION_WORDS, Cancellation, cancelled_by, read_cancellation
from mnemo_core.similarity.thresholds import DEFAULT_MODEL, SOURCE
from mnemo_core.text.statement_reading import WORDS_MAX
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.memories.memory_columns import PASSING, RoleReader, present_strengths
from mnemo_daemon.memories.memory_service import MemoryDetails, details_of
from mnemo_daemon.models.embedders.calibration import ModelThresholds
from mnemo_daemon.models.embedders.embedder import QueryTokens
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.retrieval.candidates.corpus import Corpus, is_among
from mnemo_daemon.retrieval.question import BestPassage, CutoffEvidence, Hit, RecallContext, ResultPage
from mnemo_store.backend import Snapshot
from mnemo_store.indexes.lexical import LexicalFields
from mnemo_store.record_texts import embedded_text, text_hash
from mnemo_store.records import KINDS, STATES, TRUSTS, Memory
from mnemo_store.store import Store

_SUPERSEDED = STATES.index("superseded")
_PROCEDURAL = KINDS.index("procedural")

CANCELLATIONS_MAX = 150  # latest statements with a word of a cancellation, which an agenda is compared with
CONTEXT_CANDIDATES_MAX = 60  # best candidates that a context is chosen from
OF_NAMED_DAYS_MAX = 4  # of these, for the days that a prompt names, whatever their scores
OF_NAMED_DAYS_ODDS = 0.5  # the least log-odds that such a prompt is about the person's own life
_PASSING = [ROLES.index(role) for role in PASSING]
_EVENT = ROLES.index("event")
FITTED = DEFAULT_MODEL, DIMENSIONS  # of the vectors that `personal_odds` has weights for
ROWS_CHARS = (768, 4096)  # of a text, cut into tokens again for its excerpt: those with rows stand at its beginning


class CandidateReader:
    """The `CandidateSource` of a corpus, of one moment of the store."""

    def __init__(
        self, snapshot: Snapshot, corpus: Corpus, numbers: NDArray[np.uint32], serving: ActiveIndex | None,
        count: Callable[[int | None, Memory], int],
    ) -> None:  # fmt: skip
        """numbers: of the candidates. count: the tokens of a memory, by its number; None for one of another time."""
        self._snapshot = snapshot
        self._corpus = corpus
        self._view = serving.view if serving is not None else None
        self._count = count
        self.instructions: frozenset[int] | None = None  # what stands ahead; None: every preference
        self._memories: dict[int, Memory | None] = {}
        self._relations: dict[int, tuple[list[int], list[int]]] = {}
        self._numbers = numbers
        self._superseded: list[int] = numbers[corpus.column("state", numbers) == _SUPERSEDED].tolist()

    def memory(self, number: int) -> Memory | None:
        if number not in self._memories:
            self._memories[number] = self._corpus.memory(self._snapshot, number)
        return self._memories[number]

    def tokens(self, number: int) -> int:
        memory = self.memory(number)
        return 0 if memory is None else self._count(self._corpus.index_number(number), memory)

    def windows(self, number: int) -> Windows | None:
        row = self._corpus.index_number(number)
        found = None if self._view is None or row is None else self._view.vectors_of(row)
        return None if found is None else found.astype(np.float32)

    def is_preference(self, number: int) -> bool:
        if self.instructions is not None:
            memory = self.memory(number) if number in self.instructions else None
            return memory is not None and memory.source not in IMPERSONAL_SOURCES
        if number in self._unlike_preferences:
            return False
        memory = self.memory(number)
        return memory is not None and is_preference(memory)

    def preferences(self) -> list[int]:
        """The preferences that may stand ahead of an answer: the candidates in their order, then others in scope by
        importance and strength."""
        corpus = self._corpus
        numbers = corpus.numbers
        if self.instructions is None:
            numbers = numbers[corpus.column("kind", numbers) == _PROCEDURAL]
        else:
            numbers = numbers[np.isin(numbers, list(self.instructions))]
        numbers = numbers[~np.isin(numbers, self._numbers)]
        impersonal = corpus.is_one_of(
            "source", numbers, lambda columns: [columns.code("source", name) for name in IMPERSONAL_SOURCES]
        )
        others = numbers[~impersonal]
        strength = present_strengths(lambda name: corpus.column(name, others), epoch_of(self._snapshot))
        worth = corpus.column("importance", others) * strength
        ids = corpus.column("id_low", others), corpus.column("id_high", others)
        order = np.lexsort((*ids, -corpus.column("event_at", others), -worth))
        return [*self._numbers.tolist(), *others[order].tolist()]

    @functools.cached_property
    def _unlike_preferences(self) -> frozenset[int]:
        """The candidates whose kind says that they are none."""
        kinds = self._corpus.column("kind", self._numbers)
        return frozenset(self._numbers[kinds != _PROCEDURAL].tolist())

    def newer(self, number: int) -> list[int]:
        return self._related(number)[0]

    def older(self, number: int) -> list[int]:
        return self._related(number)[1]

    def perhaps_newer(self, number: int) -> list[int]:
        memory = self.memory(number)
        edges = () if memory is None else self._snapshot.edges(memory.id)
        return [each for each in self._numbers_of(edge.source for edge in edges if edge.slot) if each != number]

    def replacements(self, memory: Memory) -> tuple[tuple[Memory, ...], bool]:
        """The memories in scope that say a newer value, and True; or those that perhaps do, and False."""
        edges = [each for each in self._snapshot.edges(memory.id) if each.target == memory.id]
        newer = [each.source for each in edges if each.relation == "updates"]
        newer += [memory.superseded_by] if memory.superseded_by else []
        numbers = self._numbers_of(newer)
        perhaps = [] if numbers else self._numbers_of(each.source for each in edges if each.slot)
        return tuple(filter(None, map(self.memory, numbers or perhaps))), bool(numbers)

    def _related(self, number: int) -> tuple[list[int], list[int]]:
        """The memories in scope that update or replaced it, and those that it updates or replaced."""
        memory, known = self.memory(number), self._relations.get(number)
        if known is not None or memory is None:
            return known or ([], [])
        older = [
            each for each in self._superseded
            if (other := self.memory(each)) is not None and other.superseded_by == memory.id
        ]  # fmt: skip
        updates = [each for each in self._snapshot.edges(memory.id) if each.relation == "updates"]
        older += self._numbers_of(each.target for each in updates if each.target != memory.id)
        newer = self._numbers_of([memory.superseded_by] if memory.superseded_by else [])
        newer += self._numbers_of(each.source for each in updates if each.target == memory.id)
        self._relations[number] = newer, older
        return newer, older

    def _numbers_of(self, ids: Iterable[str]) -> list[int]:
        """The numbers of the memories that are in scope."""
        numbers = (self._corpus.number(self._snapshot, memory_id) for memory_id in ids)
        return [number for number in numbers if number is not None and self._corpus.is_in_scope(number)]


class ResultBuilder:
    """Chooses from the ranked candidates, and reads what is chosen."""

    def __init__(
        self, store: Store, views: Views, indexing: VectorIndexer, embedding: EmbeddingService, roles: RoleReader
    ) -> None:
        self._calibrated = ModelThresholds(embedding)
        self._roles = roles
        self._store = store
        self._views = views
        self._indexing = indexing
        self._embedding = embedding

    def build(self, context: RecallContext) -> ResultPage:
        """Select the memories to return from the ranked candidates, and decode them."""
        question, found, serving = context.question, context.found, context.serving
        rows, evidence = context.rows, None
        in_order = context.timed is not None and len(context.timed.ordered) > 0
        is_unasked = bool(question.unasked) and question.as_of is None
        if question.is_cut or question.explain:
            evidence = self._evidence(context)
            if question.is_cut and not (is_unasked and evidence.basis == "learned"):  # these are judged one by one
                kept = kept_rows(context, evidence)
                rows = [row for row in rows if row in kept]
        wanted = SelectionRequest(
            question.top_k, question.offset, question.token_budget, question.preferences == "first",
            question.sort == "score" and not in_order, question.as_of, question.limits_others,
            by_event=context.timed is not None, copies=question.copies,
        )  # fmt: skip
        asked = found.query
        if asked is not None and serving is not None and question.excerpt_query not in ("", question.query):
            asked = self._embedding.encode_query_tokens(serving.embedder, question.excerpt_query)
        with self._store.snapshot() as snapshot:
            irrelevant = dict[int, str]()
            reader = CandidateReader(snapshot, context.corpus, found.numbers[context.rows], serving, self.tokens)
            if is_unasked and evidence is not None:
                ranked, rows = rows, self._relevant(context, evidence, rows, snapshot)
                if question.explain:
                    irrelevant = dict.fromkeys(found.numbers[sorted({*ranked} - {*rows})].tolist(), "not_relevant")
                corpus = context.corpus
                is_said = corpus.column("trust", corpus.numbers) == TRUSTS.index("user")
                numbers = corpus.numbers[is_said].astype(np.intp)
                roles = self._roles.of(self._views.attributes, numbers, snapshot)
                is_relevant = np.isin(numbers, found.numbers[rows]) & (roles == ROLES.index("rule"))
                reader.instructions = frozenset(numbers[is_relevant | (roles == ROLES.index("instruction"))].tolist())
            is_silent = question.unasked == "prompt" and not rows
            preferences = reader.preferences() if wanted.preferences_first and not is_silent else ()
            scores = context.scored.scores[context.rows].tolist()
            selected = result_selection.select(
                found.numbers[rows].tolist(), reader, wanted, context.request.thresholds, preferences,
                dict(zip(found.numbers[context.rows].tolist(), scores, strict=True)),
            )  # fmt: skip
            hits, tokens = list[Hit](), 0
            for each in selected.chosen:
                memory = reader.memory(each.number)
                if memory is None:
                    continue
                hit, size = _hit(context, each, details_of(snapshot, memory)), each.tokens
                if question.highlight:
                    token_rows = self._token_rows(snapshot, asked, memory, serving)
                    best = self._best(hit.details, question.excerpt_query or question.query, token_rows)
                    hit = hit._replace(best=best)
                if each.is_cut:
                    hit, size = self._excerpted(hit, question.query, each.tokens)
                if hit.details.memory.content:
                    hits.append(hit._replace(tokens=size))
                    tokens += size
            if question.for_agenda:
                hits = _with_replacements(hits, reader, snapshot, self._cancellations(context.corpus, reader))
            elif question.for_answer and question.as_of is None:
                hits = _with_newer_of_first(hits, reader, snapshot)
        abstained = question.is_cut and not rows
        return ResultPage(
            hits,
            tokens,
            selected.tokens_needed,
            abstained,
            {**selected.dropped, **irrelevant},
            evidence,
            selected.uncompared,
        )

    def _cancellations(self, corpus: Corpus, reader: CandidateReader) -> list[tuple[Memory, Cancellation]]:
        """The latest statements in scope that say that something does not take place, with what they say."""
        numbers = corpus.numbers[(corpus.numbers < corpus.base) & (corpus.column("words", corpus.numbers) <= WORDS_MAX)]
        numbers = numbers[self._views.lexical.numbers_with_any_term(CANCELLATION_WORDS, corpus.base)[numbers]]
        latest = np.argsort(-corpus.column("created_at", numbers), kind="stable")[:CANCELLATIONS_MAX]
        memories = filter(None, map(reader.memory, numbers[latest].tolist()))
        return [(memory, found) for memory in memories if (found := read_cancellation(memory.content))]

    def _relevant(
        self, context: RecallContext, evidence: CutoffEvidence, rows: list[int], snapshot: Snapshot
    ) -> list[int]:
        """Return the candidates that are relevant to a prompt."""
        if evidence.basis != "learned":
            return [row for row, _ in self._lasting(context, rows, snapshot)]
        judged = self.prompt_candidates(context, evidence, rows, snapshot)
        rows = [*judged]
        odds = self.personal_odds(context)
        places = relevant_places([*judged.values()], odds)
        of_days = _of_named_days(context, rows, snapshot.now) if odds >= OF_NAMED_DAYS_ODDS else []
        return sorted({*(rows[place] for place in places), *of_days}, key=rows.index)

    @staticmethod
    def personal_odds(context: RecallContext) -> float:
        """The log-odds that the prompt is about the person's own life or work."""
        serving, query = context.serving, context.found.query
        is_fitted = serving is not None and (serving.embedder.name, serving.embedder.dimensions) == FITTED
        return personal_odds(context.question.query, query.vector if is_fitted and query is not None else None)

    def prompt_candidates(
        self, context: RecallContext, evidence: CutoffEvidence, rows: list[int], snapshot: Snapshot
    ) -> dict[int, PromptCandidate]:
        """The candidates that may bear on a prompt, by their rows. What has no vector yet is not close to it."""
        closeness, coverage = evidence.features[:, [abstention.CLOSENESS, abstention.COVERAGE]].T
        closeness = np.where(np.isnan(context.candidates.sims[evidence.rows]), 0.0, closeness)
        place_of, scores = {row: place for place, row in enumerate(evidence.rows)}, context.scored.scores
        return {
            row: PromptCandidate(float(scores[row]), float(closeness[place]), float(coverage[place]), role == _EVENT)
            for row, role in self._lasting(context, rows, snapshot) if (place := place_of.get(row)) is not None
        }  # fmt: skip

    def _lasting(self, context: RecallContext, rows: list[int], snapshot: Snapshot) -> list[tuple[int, int]]:
        """The first of these candidates and their roles, without small talk, questions, logs and explanations."""
        rows = rows[:CONTEXT_CANDIDATES_MAX]
        numbers = context.found.numbers[rows].astype(np.intp)
        roles = self._roles.of(self._views.attributes, numbers, snapshot)
        return [(row, role) for row, role in zip(rows, roles.tolist(), strict=True) if role not in _PASSING]

    def _evidence(self, context: RecallContext) -> CutoffEvidence:
        """The evidence of where the list ends, in the order of the scores whatever order is requested."""
        scored, candidates, serving = context.scored, context.candidates, context.serving
        by_score = sorted(context.rows, key=lambda row: -float(scored.scores[row]))[: abstention.CANDIDATES_MAX]
        words = candidates.words if not context.expansion_terms else np.zeros_like(candidates.words)
        query = context.question.query
        scores = scored.scores if candidates.learned is None else candidates.learned
        inputs = abstention.CutoffInputs(
            scores[by_score], candidates.sims[by_score], words[by_score],
            float(self._views.lexical.score_texts(query, [LexicalFields(query)])[0]),
        )  # fmt: skip
        basis: abstention.Basis = "words"  # for a question also while most candidates have no vector yet
        is_asked = not context.question.unasked
        if serving is not None and not (is_asked and 2 * np.count_nonzero(np.isnan(inputs.sims)) > len(inputs.sims)):
            basis = "vectors" if candidates.learned is None else "learned"
        model = abstention.of_model(serving.embedder.name if serving is not None else "")[basis]
        limits = SOURCE if serving is None else self._calibrated.of(serving.embedder)  # whatever the profile's are
        features = abstention.features(inputs, limits, basis)
        strengths = abstention.strengths(features, model)
        return CutoffEvidence(
            by_score,
            basis,
            features,
            strengths,
            abstention.kept_candidates(features, model, basis, of_list=context.question.takes_list),
        )

    def _excerpted(self, hit: Hit, query: str, budget: int) -> tuple[Hit, int]:
        """The hit with the lines around its best sentence that fit the budget for content, and their tokens."""
        memory = hit.details.memory
        best = best_sentence(memory.content, self._highlights(memory, query)[1])
        serving = self._indexing.serving()
        start, end = cut_to_lines(memory.content, best, budget, lambda text: self._count(text, serving))
        content = memory.content[start:end].strip("\n")
        part = hit.details._replace(memory=msgspec.structs.replace(memory, content=content))
        return hit._replace(details=part, is_cut=True), self._count(content, serving)

    def tokens(self, number: int | None, memory: Memory) -> int:
        """Of a memory's content: counted once by the model's tokenizer, estimated while there is no model. A memory
        without a number is a version of another time, of which no count is kept."""
        columns = self._views.attributes
        known = columns.tokens_of(number) if number is not None else 0
        if known:
            return known
        serving = self._indexing.serving()
        counted = self._count(memory.content, serving)
        if number is not None and serving is not None:
            columns.set_tokens(number, counted, memory.modified_at)
        return counted

    def _count(self, text: str, serving: ActiveIndex | None) -> int:
        """The tokens of a text, by the model's tokenizer; estimated while there is no model."""
        if serving is None:
            return estimate_tokens([text])[0]
        return self._embedding.count_tokens(serving.embedder, text)

    def _token_rows(
        self, snapshot: Snapshot, asked: QueryTokens | None, memory: Memory, serving: ActiveIndex | None
    ) -> excerpts.TokenRows | None:
        """The token rows of the question and of the memory; None where one of them has none."""
        late = serving.embedder.late if serving is not None else None
        if serving is None or late is None or asked is None or not len(asked.rows):
            return None
        text = embedded_text(memory)
        rows, counts = late.read(snapshot, [text_hash(text)])
        starts: list[int] = []
        for chars in ROWS_CHARS if counts[0] > 0 else ():
            head = text[:chars].rpartition(" ")[0] if len(text) > chars else text  # no word is cut through
            starts = serving.embedder.token_starts(head)
            if len(starts) == len(rows) or head == text:
                break
        if not starts or len(starts) != len(rows):
            return None
        before = len(text) - len(memory.content)  # the title and headings in front of a passage of a note
        return excerpts.TokenRows(asked.rows, rows, [start - before for start in starts])

    def _best(self, answer: MemoryDetails, query: str, rows: excerpts.TokenRows | None) -> BestPassage:
        content = answer.memory.content
        marks, distinct = self._highlights(answer.memory, query)
        shown = excerpts.select_excerpt(content, query, distinct, rows)
        text, inside = excerpts.join(content, shown.sentences, whole_words(content, marks))
        line = 0
        if answer.note is not None:
            place = next((chunk for chunk in answer.note.chunks if chunk.memory == answer.memory.id), None)
            if place is not None:
                line = min(place.last_line, place.first_line + content[: shown.best[0]].count("\n"))
        return BestPassage(text, inside, line, content[slice(*shown.best)].replace("\n", " "))

    def _highlights(self, memory: Memory, query: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """The places of the query's words in the text, and among them those that distinguish its sentences.

        A note's title and headings name what all of its sentences are about: where the text has other words of the
        query, these distinguish its sentences.
        """
        tokenizer = self._views.lexical.tokenizer
        marks = tokenizer.highlight_spans(memory.content, query)
        if memory.note is None or not marks:
            return marks, marks
        rest, end = "", 0
        for start, after in tokenizer.highlight_spans(query, " ".join((memory.note.title, *memory.note.headings))):
            rest, end = f"{rest}{query[end:start]} ", after
        return marks, (end and tokenizer.highlight_spans(memory.content, rest + query[end:])) or marks


def _of_named_days(context: RecallContext, rows: list[int], now: int) -> list[int]:
    """The first candidates of a coming time within that of the prompt: "plan my Thursday"."""
    timed = context.timed
    if timed is None or not timed.time.has_interval:
        return []
    numbers = context.found.numbers[rows].tolist()
    places = ((row, number, *timed.place_of(number)) for row, number in zip(rows, numbers, strict=True))
    coming = (row for row, number, is_inside, about in places if is_inside and (about or timed.when(number)) >= now)
    return [*islice(coming, OF_NAMED_DAYS_MAX)]


def _with_replacements(
    hits: Sequence[Hit], reader: CandidateReader, snapshot: Snapshot, cancellations: list[tuple[Memory, Cancellation]]
) -> list[Hit]:
    """The hits with what replaces them, perhaps does, or says that they do not take place, and behind them what
    certainly does or says so and is no hit."""
    made, found, known = list[Hit](), dict[str, Hit](), {hit.details.memory.id: hit for hit in hits}
    read = [each for _, each in cancellations]
    for hit in hits:
        memory = hit.details.memory
        newer, is_replaced = reader.replacements(memory)
        by = (cancellations[place][0] for place in cancelled_by(memory.content, read))
        later = [each for each in by if each.created_at > memory.created_at]
        for each in (*later, *(newer if is_replaced else ())):
            found[each.id] = known.get(each.id) or Hit(details_of(snapshot, each), 0.0, 0.0, ("updates",))
        cancelling = tuple(found[each.id] for each in later)
        made.append(hit._replace(was=hit.was or is_replaced, newer=newer, cancelling=cancelling))
    return made + [hit for memory_id, hit in found.items() if memory_id not in known]


def _with_newer_of_first(hits: Sequence[Hit], reader: CandidateReader, snapshot: Snapshot) -> list[Hit]:
    """The hits, the first with what perhaps says a newer value, the latest of which is a hit too."""
    newer, is_replaced = reader.replacements(hits[0].details.memory) if hits else ((), False)
    if not newer or is_replaced:
        return [*hits]
    latest = max(newer, key=lambda memory: memory.created_at)
    made = [hits[0]._replace(newer=newer), *hits[1:]]
    if all(hit.details.memory.id != latest.id for hit in hits):
        made.append(Hit(details_of(snapshot, latest), 0.0, 0.0, ("updates",)))
    return made


def kept_rows(context: RecallContext, evidence: CutoffEvidence) -> frozenset[int]:
    """The rows that the end of the list leaves in, with those that have the tag that is all that the question says."""
    kept = evidence.kept_rows | _kept_in_time(context, evidence)
    if context.learned is None:
        return kept
    terms, first = context.learned.terms, np.flatnonzero(context.found.rounds == 0)
    return kept | frozenset(first[terms.values[:, terms.names.index("tagged")] >= 1].tolist())


def _kept_in_time(context: RecallContext, evidence: CutoffEvidence) -> frozenset[int]:
    """The rows that have an order in time, where their scores mean nothing."""
    timed = context.timed
    if timed is None or not len(timed.ordered):
        return frozenset()
    if timed.time.order:  # the one that was asked for, unless nothing answers
        return frozenset(context.rows[:1]) if evidence.kept.any() else frozenset()
    return frozenset(np.flatnonzero(is_among(np.sort(timed.ordered), context.found.numbers)).tolist())


def _hit(context: RecallContext, chosen: SelectedMemory, answer: MemoryDetails) -> Hit:
    found, scored = context.found, context.scored
    own, ranked_as = (np.flatnonzero(found.numbers == number) for number in (chosen.number, chosen.ranked_as))
    # Otherwise it is a newer value of a candidate, in its place, or a preference that stands first in every answer.
    names = found.channels_of(own[0]) if len(own) else ["updates"] if len(ranked_as) else ["preferences"]
    places = np.concatenate((own, ranked_as))  # a newer value has the score of the place that it takes
    score, relevance = (float(each[places].max(initial=0.0)) for each in (scored.scores, scored.relevance))
    is_inside, about = context.timed.place_of(chosen.number) if context.timed is not None else (None, None)
    return Hit(
        answer, score, relevance, tuple(names), was=chosen.is_earlier_value, preference=chosen.is_preference,
        others=context.grouped_counts.get(chosen.ranked_as, 0), is_inside=is_inside, about=about,
        perhaps_was=chosen.is_perhaps_earlier,
    )  # fmt: skip

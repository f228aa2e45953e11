"""The relation of a new text to earlier ones: a repetition, an update, or a neighbour. SPEC 5.5"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from mnemo_core.ingest import changes, deduplication
from mnemo_core.ingest.attributes import attribute_claims as claims_module
from mnemo_core.ingest.attributes.attribute_claims import extract_claims
from mnemo_core.ingest.deduplication import (
    RELATIONS_MAX,
    Neighbour,
    clear_text_cache,
    find_relations,
)
from mnemo_core.ingest.mutations import MemoryRelation
from mnemo_core.similarity import thresholds
from mnemo_core.similarity.thresholds import SOURCE, is_similar, of_model, text_jaccard
from mnemo_core.text.syntax.statements import extract_triple
from mnemo_core.text.text_cache import TextCache
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue
from mnemo_daemon.models.embedders.embedder import Embedder
from mnemo_daemon.models.embedders.embedding import load_embedder
from tests.support.examples import IS_SWEEP
from tests.support.samples import AT, sample_memory
from tests.support.statement_histories import DAY_MS, statement_histories
from tests.support.text_pairs import differing, rewordings

NEIGHBOURS = 16  # of the earlier statements of a life, those with the highest cosine are judged
RIGHT_MIN = {False: 0.97, True: 0.77}  # of the changes of the made lives; held out: measured 0.80
WRONG_MAX = 0.01  # of the `updates` edges; measured 0.000 on both halves
REPEATED_MIN = {False: 0.90, True: 0.65}  # of the rewordings; measured 0.95 and 0.70


@pytest.fixture(scope="module")
def embedder(minilm_folder: Path) -> Iterator[Embedder]:
    manifest = ModelCatalogue(minilm_folder).installed(DEFAULT_EMBEDDING)
    assert manifest is not None
    loaded = load_embedder(manifest)
    yield loaded
    loaded.close()


@pytest.fixture(scope="module", params=["auto", "float32"])
def embedder_of_each_form(minilm_folder: Path, request: pytest.FixtureRequest) -> Iterator[Embedder]:
    manifest = ModelCatalogue(minilm_folder).installed(DEFAULT_EMBEDDING)
    assert manifest is not None
    loaded = load_embedder(manifest, numerics=request.param)
    yield loaded
    loaded.close()


def vectors_of(embedder: Embedder, texts: set[str]) -> dict[str, NDArray[np.float32]]:
    ordered = sorted(texts)
    return {text: vector[0] for text, vector in zip(ordered, embedder.encode_batch(ordered), strict=True)}


def relation(new: str, old: str, sim: float | None = None, *, later_ms: int = DAY_MS, speakers: str = ",") -> str:
    """The relation of the edge from new to old; "" for none."""
    speaker, other = speakers.split(",")
    near = Neighbour(sample_memory(1, old, speaker=other), sim)
    ties = find_relations(new, speaker, AT + later_ms, [near], SOURCE)
    return ties[0].relation if ties else ""


def test_G7_words_overlap_by_their_share() -> None:
    # the, rome, train | is, late | to, early: three of seven.
    assert text_jaccard("The Rome train is late", "the train to Rome, early") == 3 / 7
    assert text_jaccard("", "") == 0.0


@pytest.mark.parametrize(
    ("sim", "expected"),
    [(0.66, True), (0.65, False), (0.64, False), (None, False)],
)
def test_G5_a_similar_text_has_a_cosine_over_the_threshold(sim: float | None, expected: bool) -> None:
    assert is_similar("The train was late", "Our bus broke down", sim, SOURCE) is expected


def test_G7_the_threshold_is_lower_where_words_overlap() -> None:
    strict = SOURCE._replace(near=0.9)
    one, other = "red green blue house river", "red green blue house train"  # four of six: 0.67
    assert is_similar(one, other, 0.86, strict)
    assert not is_similar(one, other, 0.85, strict)
    assert not is_similar(one, "red green blue table train letter", 0.86, strict)  # three of eight


def test_G7_without_a_vector_the_words_alone_must_agree() -> None:
    nine = "red green blue house river dog cat table letter"
    assert is_similar(nine, f"{nine} train", None, SOURCE)  # nine of ten: 0.9
    assert not is_similar("red green blue house", "red green blue house river", None, SOURCE)  # four of five: 0.8
    assert not is_similar("red green", "red green", None, SOURCE)  # two words are too few


def test_an_equal_statement_repeats_the_earlier_one() -> None:
    assert relation("Meeting at 3pm.", "The meeting is at 3 pm", 0.97) == "repeats"
    assert relation("Meeting at 3pm.", "The meeting is at 3 pm", 0.90) == "related"  # not the same by its vector
    assert relation("The meeting is at 4pm.", "The meeting is at 3 pm", 1.0) == "updates"
    assert relation("The train was late.", "The train was not late.", 1.0) == "related"


def test_without_vectors_the_words_must_be_nearly_the_same_to_repeat() -> None:
    assert relation("The old train was late", "the old TRAIN was late!") == "repeats"
    assert relation("Yes please", "yes, please") == "repeats"
    # Eight of nine words are shared, then three of four.
    assert (
        relation("I have moved to Berlin with my whole family", "I moved to Berlin with my whole family") == "repeats"
    )
    assert relation("The office is closed", "Office is closed") == ""
    assert relation("I moved to Bern", "I moved to Berlin") == "updates"


def test_a_dissimilar_text_has_no_edge() -> None:
    assert relation("The train was late.", "I like tea.", 0.2) == ""
    assert relation("The train was late.", "I like tea.") == ""


def test_the_first_person_of_two_speakers_is_two_persons() -> None:
    assert relation("I live in Rome.", "I live in Rome.", 1.0, speakers="Anna,Bob") == "related"
    assert relation("I live in Rome.", "I live in Rome.", 1.0, speakers="Anna,Anna") == "repeats"
    assert relation("I moved to Rome.", "I live in Oslo.", 0.7, speakers="Anna,Bob") == "related"
    assert relation("I moved to Rome.", "I live in Oslo.", 0.7, speakers="Anna,anna") == "updates"
    assert relation("I moved to Rome.", "Anna lives in Oslo.", 0.7, speakers="Anna,Bob") == "updates"
    assert relation("The train is late.", "The train is late.", 1.0, speakers="Anna,Bob") == "repeats"


def test_today_said_on_another_day_is_another_day() -> None:
    assert relation("Anna called today.", "Anna called today.", 1.0, later_ms=1000) == "repeats"
    assert relation("Anna called today.", "Anna called today.", 1.0) == "related"


def test_an_update_is_later() -> None:
    assert relation("Anna moved to Porto.", "Anna lives in Lisbon.", 0.6) == "updates"
    assert relation("Anna moved to Porto.", "Anna lives in Lisbon.", 0.6, later_ms=0) == ""
    assert relation("Anna moved to Porto.", "Anna lives in Lisbon.", 0.7, later_ms=-1) == "related"


def test_at_most_three_edges_the_best_first() -> None:
    texts = [
        "Rent is 900.",
        "Rent was raised to 940.",
        "My rent is 940 euros.",
        "I pay 940 in rent.",
        "The rent is 940.",
    ]
    sims = [0.9, 0.8, 0.7, 0.75, 0.6]
    near = [
        Neighbour(sample_memory(i, text, event_at=AT + i), sim)
        for i, (text, sim) in enumerate(zip(texts, sims, strict=True))
    ]
    ties = find_relations("My rent went up to 950.", "", AT + 9, near, SOURCE)
    assert len(ties) == RELATIONS_MAX
    assert [(tie.relation, tie.id) for tie in ties] == [("updates", near[i].memory.id) for i in (1, 3, 2)]
    assert ties[0] == MemoryRelation(near[1].memory.id, 1, "updates", 0.8, "amount: 940 → 950")
    assert find_relations("My rent went up to 950.", "", AT + 9, near[::-1], SOURCE) == ties


def test_an_update_replaces_the_latest_value() -> None:
    texts = ["Anna lives in Lisbon.", "Anna moved to Porto.", "Anna's home is in Porto."]
    near = [Neighbour(sample_memory(i, text, event_at=AT + i), 0.6) for i, text in enumerate(texts)]
    ties = find_relations("Anna moved to Oslo.", "", AT + 9, near, SOURCE)
    assert {tie.id for tie in ties} == {near[1].memory.id, near[2].memory.id}
    back = find_relations("Anna moved back to Lisbon.", "", AT + 9, near, SOURCE)
    assert {tie.id for tie in back} == {near[1].memory.id, near[2].memory.id}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Anna lives in Lisbon", "Anna moved to Porto"),
        ("My job is at Acme", "I started working at Globex"),
        ("The deadline is March 3", "The deadline was moved to March 10"),
        ("Rent is 900", "Rent went up to 950"),
        ("My favourite editor is Vim", "Emacs is my favorite editor now"),
        ("My phone number is 555-123-4567", "My new number is 555-987-6543"),
        ("We use Python 3.11", "We upgraded to Python 3.12"),
        ("The API runs on port 8080", "The API now runs on port 9090"),
        ("We use Postgres", "We switched to SQLite"),
        ("The report is due on March 3", "The report deadline moved to March 10"),
        ("My sister lives in Rome", "My sister Anna moved to Milan"),
        ("Coffee costs 3 euros", "The price of coffee went up to 3.50 euros"),
        ("I am 34 years old", "I just turned 35"),
        ("The server is down", "The server is up again"),
        ("I pay 900 euros in rent", "My landlord raised the rent to 950 euros"),
        ("My boss is Carla", "I now report to Tom"),
        ("The project is called Atlas", "The project was renamed to Borealis"),
        ("The wifi password is hunter2", "The wifi password changed to swordfish"),
        ("The standup is at 9:30", "The standup moved to 10"),
        ("I live in Lisbon and work at Acme", "I joined Globex"),
        ("Ich wohne in Berlin", "Ich bin nach Hamburg gezogen"),
        ("Die Miete beträgt 900 Euro", "Die Miete ist auf 950 Euro gestiegen"),
        ("J'habite à Paris", "J'ai déménagé à Lyon"),
        ("Anna habite à Paris", "Anna a déménagé à Lyon"),
        ("我住在北京", "我搬到了上海"),
        ("房租是900元", "房租涨到950元了"),
        ("東京に住んでいます", "大阪に引っ越しました"),
    ],
)
def test_another_value_of_the_same_attribute_is_an_update(old: str, new: str) -> None:
    assert any(a.is_about_same(b) for a in extract_claims(old) for b in extract_claims(new))
    assert relation(new, old, 0.5) == "updates"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Anna lives in Lisbon", "Bob moved to Porto"),
        ("Anna lives in Lisbon", "Anna visited Porto"),
        ("I live in Lisbon", "I might move to Porto"),
        ("I live in Lisbon", "I used to live in Porto"),
        ("I live in Lisbon", "Did I move to Porto?"),
        ("I live in Lisbon", "I moved to Vim"),
        ("I live in Lisbon", "I work in Porto"),
        ("I like tea", "I like coffee"),
        ("I have a cat", "I have a dog"),
        ("I speak French", "I speak German"),
        ("We use Postgres", "We use Redis"),
        ("We use Postgres", "We also use SQLite"),
        ("I work at Acme", "I also work at Globex"),
        ("I work at Acme", "I work at Globex too"),
        ("The server is down", "The server is not up"),
        ("The report deadline is March 3", "The visa deadline is March 10"),
        ("The Atlas standup is at 9", "The Borealis standup moved to 10"),
        ("My sister lives in Rome", "My brother moved to Milan"),
        ("My sister Anna lives in Rome", "My sister Maria moved to Milan"),
        ("My brother's shoe size is 43", "My sister's shoe size is 39"),
        ("My phone number is 555-123-4567", "My mother's phone number is 555-987-6543"),
        ("My rent is 900 euros", "My salary is 4,000 euros"),
        ("The budget is 900 euros", "The deadline is March 3"),
        ("My wife is tired", "My wife is happy"),
        ("The car is red", "The car is in the garage"),
        ("We use Python 3.11", "We use Node 18"),
        ("My rent is 900", "Anna moved, and the rent is 950"),
        ("The wifi password is hunter2", "The door code is 1234"),
    ],
)
def test_a_statement_compatible_with_the_other_is_no_update(old: str, new: str) -> None:
    assert relation(new, old, 0.9) == "related"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I work at Acme.", "Work is stressful."),
        ("I work at Acme.", "My job is hard."),
        ("I work at Acme.", "Helping people is my job."),
        ("My car is a Golf.", "My car is great."),
        ("My car is a Golf.", "The car is broken."),
        ("I live in Lisbon.", "My home is small."),
        ("I live in Lisbon.", "The city is amazing."),
        ("My name is Sam.", "My name is hard to spell."),
        ("My gym is FitX.", "The gym is closed."),
        ("My phone number is 555-123-4567.", "My phone is dead."),
        ("Our plan is Basic.", "Our plan is good."),
        ("My favourite game is Chess.", "My favourite game is amazing."),
        ("The restaurant is Luigi's.", "The restaurant is very nice."),
        ("My password is hunter2.", "My password is weak."),
        ("The status is green.", "The status is unclear."),
        ("My title is CTO.", "My role is changing."),
        ("My school is Lincoln High.", "School is hard."),
    ],
)
def test_a_description_does_not_replace_a_value(old: str, new: str) -> None:
    assert relation(new, old, 0.9) == "related"
    assert relation(old, new, 0.9) == "related"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Her name is Coco.", "Her name is Shadow."),
        ("Their dog lives in Rome.", "Their dog moved to Milan."),
        ("His rent is 900 euros.", "His rent went up to 950 euros."),
        ("Sein Name ist Kyle.", "Sein Name ist Rex."),
    ],
)
def test_an_unknown_owner_is_no_subject(old: str, new: str) -> None:
    assert relation(new, old, 0.9) == "related"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I live in Lisbon.", "I live in constant fear."),
        ("I live in Lisbon.", "I live on coffee."),
        ("I live in Lisbon.", "I was moved to tears."),
        ("I'm based in Lisbon.", "My hometown is Porto."),
        ("I work for Acme.", "I work for a living."),
        ("I work at Acme.", "I work with John on the report."),
        ("I work at Acme.", "I'm working with John."),
        ("I started at Acme.", "I started at the bottom."),
        ("I joined Acme.", "I joined LGBTQ support group."),
        ("I drive a Golf.", "I drive a lot."),
        ("My dog is called Max.", "My dog is called to dinner."),
        ("I live in Lisbon.", "Moved from Merlin to RoboVet."),
        ("My goal is to run a marathon.", "My goal is to learn Spanish."),
    ],
)
def test_a_turn_of_phrase_is_no_value(old: str, new: str) -> None:
    assert relation(new, old, 0.9) == "related"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("i work at acme", "i joined globex"),
        ("I live in Lisbon", "My city is Porto"),
        ("My car is a Golf", "My car is a Tesla"),
        ("My editor is vim", "my editor is emacs"),
        ("My favourite color is blue", "My favourite color is green"),
        ("The status is pending", "The status is blocked"),
        ("I'm working with Globex", "I joined Acme"),
        ("My gym is FitX", "My gym changed to ironworks"),
        ("I work for the BBC", "I now work for the Guardian"),
        ("I live in Lisbon", "Moved from Lisbon to Porto"),
        ("I live in Lisbon", "Moved to Porto"),
        ("I'm working with Globex", "I switched jobs and now work at Acme"),
    ],
)
def test_a_value_is_known_by_how_it_is_written(old: str, new: str) -> None:
    assert relation(new, old, 0.5) == "updates"


def test_a_passage_claims_nothing() -> None:
    assert extract_claims("Anna lives in Lisbon. " + "It was a long day. " * 60) == ()


def test_pairs_that_differ_never_repeat_each_other_at_any_cosine() -> None:
    for pair in differing():
        for sim in (1.0, 0.97, None):
            ties = find_relations(pair.other, "", AT + 1, [Neighbour(sample_memory(1, pair.one), sim)], SOURCE)
            assert "repeats" not in {tie.relation for tie in ties}, pair


@pytest.mark.parametrize("held_out", [False, True])
def test_rewordings_are_linked_as_repeats(embedder_of_each_form: Embedder, held_out: bool) -> None:
    embedder = embedder_of_each_form
    pairs = list(rewordings(held_out))
    vectors = vectors_of(embedder, {text for pair in pairs for text in pair[:2]})
    thresholds = of_model(DEFAULT_EMBEDDING, embedder.form)
    found = {
        pair
        for pair in pairs
        for tie in find_relations(
            pair.other,
            "",
            AT + 1,
            [Neighbour(sample_memory(1, pair.one), float(vectors[pair.one] @ vectors[pair.other]))],
            thresholds,
        )
        if tie.relation == "repeats"
    }
    print(f"rewordings linked as repeats, held out {held_out}: {len(found)} of {len(set(pairs))}")
    assert len(found) >= REPEATED_MIN[held_out] * len(set(pairs))


class RelationTally(NamedTuple):
    """The results for the made lives."""

    changes: int
    right: int  # changes with an edge to a statement of the value before
    edges: int  # of `updates`
    wrong: int  # of those, to another attribute, another person, or the same value
    repeated: int  # repeated facts
    linked: int  # of those, linked as `repeats` to a statement of the same value
    falsely_same: int  # `repeats` edges to anything else


def tally(embedder: Embedder, held_out: bool) -> RelationTally:
    reported = list(statement_histories(held_out=held_out))[:: 1 if IS_SWEEP else 2]
    vectors = vectors_of(embedder, {said.text for life in reported for said in life})
    thresholds = of_model(DEFAULT_EMBEDDING, embedder.form)
    counts = dict.fromkeys(RelationTally._fields, 0)
    for life in reported:
        stack = np.stack([vectors[said.text] for said in life])
        memories = [sample_memory(i, said.text, event_at=said.at, speaker=said.speaker) for i, said in enumerate(life)]
        index = {memory.id: i for i, memory in enumerate(memories)}
        for i, said in enumerate(life):
            sims = stack[:i] @ stack[i]
            nearest = np.argsort(-sims, kind="stable")[:NEIGHBOURS]
            near = [Neighbour(memories[j], float(sims[j])) for j in nearest]
            hits = [
                (tie.relation, life[index[tie.id]])
                for tie in find_relations(said.text, said.speaker, said.at, near, thresholds)
            ]
            updates = [old for kind, old in hits if kind == "updates"]
            repeats = [old for kind, old in hits if kind == "repeats"]
            counts["edges"] += len(updates)
            counts["wrong"] += sum(old.key != said.key or old.value in ("", said.value) for old in updates)
            counts["falsely_same"] += sum(old.key != said.key or old.value != said.value for old in repeats)
            if said.updates is not None:
                counts["changes"] += 1
                before = (said.key, life[said.updates].value)
                counts["right"] += any((old.key, old.value) == before for old in updates)
            if said.repeats is not None:
                counts["repeated"] += 1
                counts["linked"] += bool(repeats)
    return RelationTally(**counts)


@pytest.mark.parametrize("held_out", [False, True])
def test_changes_in_made_lives_get_the_right_updates_edge(embedder: Embedder, held_out: bool) -> None:
    found = tally(embedder, held_out)
    print(f"lives, held out {held_out}: {found}")
    assert found.changes > (2_000 if IS_SWEEP else 1_000)
    assert found.right >= RIGHT_MIN[held_out] * found.changes
    assert found.wrong <= WRONG_MAX * found.edges
    assert found.falsely_same == 0


def test_clearing_the_cache_empties_every_cache_of_analysed_texts() -> None:
    find_relations(
        "The boat lies in Lisbon.", "", 5, [Neighbour(sample_memory(1, content="The boat lies in Porto."), 0.9)], SOURCE
    )
    changes.pair_features("The boat lies in Porto.", "The boat lies in Lisbon.", 0.9)
    changes.word_row("b:lisbon")
    extract_triple("The boat lies in Lisbon.")
    caches: tuple[TextCache[Any], ...] = (
        thresholds.kept_words, deduplication._specifics, claims_module.read_claims, changes._statement, extract_triple
    )  # fmt: skip
    assert all(map(len, caches))
    assert changes.word_row.cache_info().currsize
    clear_text_cache()
    assert not any(map(len, caches))
    assert not changes.word_row.cache_info().currsize


@pytest.mark.parametrize(
    "cache",
    [
        thresholds.kept_words, deduplication._specifics, deduplication._untouched, claims_module.read_claims,
        changes._statement, extract_triple,
    ],
)  # fmt: skip
def test_the_cache_of_analysed_texts_is_bounded_by_their_characters(cache: TextCache[Any]) -> None:
    assert cache.characters_max <= 1 << 20


@pytest.mark.parametrize("length", [10, 300, 1024, 4000, 8192])
def test_texts_in_a_cache_have_at_most_its_characters_whatever_their_length(length: int) -> None:
    read: list[str] = []
    cache = TextCache(read.append, 1 << 17)
    texts = [f"{number:05}".ljust(length) for number in range(2000)]
    for text in (*texts, texts[-1]):
        cache(text)
    assert read == texts  # the last one was read once
    assert len(cache) * length <= 1 << 17
    cache("x" * 20_000)
    assert len(cache) * length <= 1 << 17
    cache.clear()
    assert len(cache) == 0


def test_slow_reasons_and_times_are_computed_only_on_request() -> None:
    asked: list[str] = []

    def when(text: str, at: int) -> Callable[[], int]:
        def told() -> int:
            asked.append(text)
            return at

        return told

    def near(number: int, text: str, sim: float, at: int) -> Neighbour:
        return Neighbour(sample_memory(number, text, event_at=0), sim, when(text, at))

    home, bus = "Anna lives in Lisbon.", "Our bus broke down."
    rows = [near(1, bus, 0.9, AT), near(2, home, 0.6, AT)]
    ties = find_relations("Anna moved to Porto.", "", AT + 1, rows, SOURCE, tells_why=False)
    assert [(tie.relation, tie.why) for tie in ties] == [("updates", "home: lisbon → porto"), ("related", "")]
    assert asked == [home]
    ties = find_relations("Anna moved to Porto.", "", AT, rows, SOURCE)  # said no later
    assert [(tie.relation, tie.why) for tie in ties] == [("related", "name differs: anna / our")]
    asked.clear()
    alike = [near(3, "The tram was late.", 0.9, AT), near(4, "The boat was late.", 0.9, AT + 5)]
    ties = find_relations("Our train is red.", "", AT + 9, [*alike, near(5, bus, 0.8, AT)], SOURCE, tells_why=False)
    assert [tie.id for tie in ties] == [sample_memory(number, "").id for number in (4, 3, 5)]  # the later of equals
    assert sorted(asked) == ["The boat was late.", "The tram was late."]

"""The fact graph by itself: triples of a text, entities, validity, conflicts and chains. SPEC 5.6, 10.3"""

import random
from collections.abc import Callable, Iterator, Sequence

import msgspec
import pytest

from mnemo_core.ingest.facts import (
    CHAINS_MAX,
    CONFLICTS_MAX,
    FAN_OUT_MAX,
    FactChain,
    FactState,
    GraphFact,
    conflicts_among,
    decided_facts,
    entity_key,
    entity_keys,
    find_chains,
    graph_fact,
    names_in,
    query_entities,
    resolve_facts,
    single_value_of,
)
from mnemo_core.ingest.triples import TEXT_CHARS_MAX, TRIPLES_MAX, stated_triples
from mnemo_core.ingest.write_plan import StatedFact
from mnemo_core.text.syntax.statements import Triple
from mnemo_daemon.knowledge.fact_service import sentence_of
from mnemo_daemon.memories.memory_service import stated_facts
from mnemo_store.records import TRUSTS, Fact
from tests.support.family_facts import DAY_MS, PEOPLE, DatedTriple, fact_of, family
from tests.support.samples import AT, sample_id

LATER = AT + 100 * DAY_MS


def facts_of(*said: tuple[str, str, str, int]) -> list[Fact]:
    """Facts with the day from which each holds; 0: not known."""
    return [fact_of(number, DatedTriple(Triple(subject, predicate, value), day),
                    **({} if day else {"valid_from": 0}))
            for number, (subject, predicate, value, day) in enumerate(said, start=1)]  # fmt: skip


def resolved(facts: Sequence[Fact], at: int = LATER, trusts: Sequence[int] = ()) -> list[FactState]:
    trusts = trusts or [0] * len(facts)
    return resolve_facts([graph_fact(*each) for each in zip(facts, trusts, strict=True)], at)


def open_objects(states: Sequence[FactState]) -> list[str]:
    return [state.fact.object for state in states if state.is_open]


# Triples of ordinary texts


@pytest.mark.parametrize(
    ("text", "triple"),
    [
        ("I prefer tabs over spaces.", ("I", "prefer", "tabs over spaces")),
        ("We decided to use PostgreSQL.", ("We", "choose", "PostgreSQL")),
        ("We chose LMDB over SQLite.", ("We", "chose", "LMDB over SQLite")),
        ("I'm working on the parser.", ("I", "work on", "the parser")),
        ("We are building a boat.", ("We", "build", "a boat")),
        ("We use Redis with Celery.", ("We", "use", "Redis with Celery")),
        (
            "Please answer in metric units and keep answers short.",
            ("I", "ask", "Please answer in metric units and keep answers short"),
        ),
        ("Please note that Rita is allergic to nuts.", ("Rita", "is allergic to", "nuts")),
        ("Nova reads src/app/config.toml.", ("Nova", "reads", "src/app/config.toml")),
        ("Nova keeps the limits in src/app/config.toml.", ("Nova", "keeps", "the limits in src/app/config.toml")),
    ],
)
def test_M26_plain_patterns_give_the_edges_of_the_graph(text: str, triple: tuple[str, str, str] | None) -> None:
    assert stated_triples(text) == (() if triple is None else (triple,))


def test_where_somebody_lives_and_what_they_work_as_are_two_facts() -> None:
    found = stated_triples("My name is Marta Oliveira, I live in Lisbon and work as a nurse at the Clinic Sol.")
    assert [*map(tuple, found)] == [
        ("I", "name", "Marta Oliveira"), ("I", "live in", "Lisbon"), ("I", "work as", "a nurse at the Clinic Sol"),
    ]  # fmt: skip


def test_M26_a_text_whose_facts_cannot_be_read_is_stored_without_any() -> None:
    def fail(content: str, speaker: str) -> Sequence[Triple]:
        raise ZeroDivisionError

    assert stated_facts("Anna works at Siemens.", "", fail) == ()
    assert stated_facts("Anna works at Siemens.", "") == (StatedFact("Anna", "works at", "Siemens"),)


@pytest.mark.parametrize(
    ("text", "triple"),
    [
        ("Tom is Anna's brother.", ("Anna", "brother", "Tom")),
        ("Eva is the mother of Anna.", ("Anna", "mother", "Eva")),
        ("Siemens is based in Munich.", ("Siemens", "is based in", "Munich")),
        ("Anna is a nurse.", ("Anna", "is", "a nurse")),
        ("The room was electric.", None),
        ("Horses have such grace.", None),
        ("Losing a pet is a hard thing.", None),
        ("Anna no longer works at Siemens.", None),
        ("Maybe we chose LMDB.", None),
        ("Does Anna work at Siemens?", None),
        ("Otto lives in Hamburg now.", ("Otto", "lives in", "Hamburg")),
        ("Anna now works at Siemens.", ("Anna", "works at", "Siemens")),
        ("The forecast API now listens on port 9090.", ("The forecast API", "listens on", "port 9090")),
        ("Apocalypse Now has two versions.", ("Apocalypse Now", "has", "two versions")),
        ("I moved to Potsdam last weekend!", ("I", "moved to", "Potsdam")),
        ("I like Apocalypse Now.", ("I", "like", "Apocalypse Now")),
        ("Anna works at home this week.", ("Anna", "works at", "home this week")),
        ("I am allergic to cashews.", ("I", "am allergic to", "cashews")),
        ("Tomasz is responsible for the data platform.", ("Tomasz", "is responsible for", "the data platform")),
        ("Standup is at half past nine.", ("Standup", "is at", "half past nine")),
        ("Car insurance: HUK, 430 a year", ("Car insurance", "is", "HUK, 430 a year")),
        ("Our Postgres listens on 5433 because 5432 is taken.", ("Our Postgres", "listens on", "5433")),
        ("Otto left, Samira leads the hydrology team now.", ("Samira", "leads", "the hydrology team")),
        ("Mein Bruder hat Zöliakie.", ("Mein Bruder", "hat", "Zöliakie")),
        ("Mein Bruder hat Zöliakie, ich zum Glück nicht.", ("Mein Bruder", "hat", "Zöliakie")),
        ("The nightly export runs at 03:15, no longer at 02:30.", ("The nightly export", "runs at", "03:15")),
        ("Ich spiele Bratsche im Kreisorchester.", ("Ich", "spiele", "Bratsche im Kreisorchester")),
        ("Le club compte 22 membres.", ("Le club", "compte", "22 membres")),
        ("Decision: we log cores in LithoLog.", ("We", "log", "cores in LithoLog")),
        ("Decision: letters are kept for ten years.", ("Letters", "are kept for", "ten years")),
        ("Ravi's got a nut allergy.", ("Ravi", "has", "a nut allergy")),
        ("I'm colour-blind", ("I", "am", "colour-blind")),
        ("Since the merger Ana reports to Lou instead of Kim.", ("Ana", "reports to", "Lou")),
        ("Bug reports live in Linear.", ("Bug reports", "live in", "Linear")),
        ("The workshop rent is 840 euros a month.", ("The workshop rent", "is", "840 euros a month")),
        ("Every invoice needs two signatures.", ("Every invoice", "needs", "two signatures")),
        ("The spare key is taped under the bench.", ("The spare key", "is taped under", "the bench")),
        (
            "Pfandflaschen verfallen bei uns nach drei Jahren.",
            ("Pfandflaschen", "verfallen bei", "uns nach drei Jahren"),
        ),
        ("Name every branch after its ticket.", ("I", "ask", "Name every branch after its ticket")),
        ("Bitte antworte immer auf Deutsch.", ("I", "ask", "Bitte antworte immer auf Deutsch")),
        ("Never book me before ten.", None),
        ("Otto: I will come tomorrow", None),
        ("10:30: meeting with Ben", None),
        (": nothing", None),
        ("Er wohnt in Kiel.", None),
        ("Jetzt sind es 16 Völker.", None),
        ("We have three children: Ella, Finn and Maia.", None),
        ("If it rains, Otto works from home.", None),
        ("The weather is great.", None),
        ("Zimmer AG has picked up the ultrasound device today.", None),
        ("Tim can only start on 1 March.", None),
        ("Nadia has a new number: 076 555 12 12.", None),
        ("Die Chorprobe fällt aus, neues Datum folgt.", None),
        ("Correction: the shoe size of Jonas is 34.", ("The shoe size of Jonas", "is", "34")),
    ],
)
def test_a_triple_of_the_graph_is_of_something_named_and_says_what_it_is(
    text: str, triple: tuple[str, str, str] | None
) -> None:
    assert stated_triples(text) == (() if triple is None else (triple,))


def test_each_clause_of_a_note_with_one_subject_is_a_triple() -> None:
    assert stated_triples("Momo, our dog, is nine and gets half a tablet; she has a chip.") == (
        ("Momo", "is", "our dog"), ("Momo", "is", "nine"), ("Momo", "gets", "half a tablet"), ("Momo", "has", "a chip"),
    )  # fmt: skip


def test_the_speaker_is_the_subject_of_what_is_said_in_the_first_person() -> None:
    assert stated_triples("I moved to Porto. My sister works at Bosch. I like tea.", "Tim") == (
        ("Tim", "moved to", "Porto"), ("Tim's sister", "works at", "Bosch"), ("Tim", "likes", "tea"),
    )  # fmt: skip


def test_a_long_text_states_nothing_and_a_short_one_a_bounded_number_of_triples() -> None:
    sentences = [f"Anna likes tea number {number}." for number in range(TRIPLES_MAX + 5)]
    assert len(stated_triples(" ".join(sentences))) == TRIPLES_MAX
    assert stated_triples(sentences[0] + " " * TEXT_CHARS_MAX + sentences[1]) == ()


# Entities


@pytest.mark.parametrize(
    ("phrase", "key"),
    [
        ("Anna", "anna"), ("the Anna's", "anna"), ("Anna’s dog", "anna dog"), ("The  Red Lion!", "red lion"),
        ("me", "i"), ("I", "i"), ("the", "the"), ("…", ""), ("James' car", "james car"), ("ANNA", "anna"),
    ],
)  # fmt: skip
def test_an_entity_has_one_key_however_it_is_written(phrase: str, key: str) -> None:
    assert entity_key(phrase) == key


def test_names_within_a_phrase_are_entities_too() -> None:
    assert entity_keys("My sister Anna Berg") == ("my sister anna berg", "anna berg")
    assert entity_keys("Siemens in Munich in May") == ("siemens in munich in may", "siemens", "munich")
    assert names_in("Tom and Anna's dog Rex") == ["Tom", "Anna's", "Rex"]
    assert names_in("the limits in src/app/config.toml") == ["src/app/config.toml"]


def test_a_query_names_the_longest_entities_that_are_known() -> None:
    known = {"anna", "anna berg", "porto", "tea", "red lion"}.__contains__
    assert query_entities("Where does Anna Berg's sister drink tea in Porto?", known) == ["anna berg", "porto"]
    assert query_entities("who is at the red lion", known) == ["red lion"]
    assert query_entities("tea", known) == ["tea"]
    assert query_entities("What is it?", {"what", "is", "it"}.__contains__) == []


# Validity


def test_G45_a_new_object_of_a_single_valued_predicate_ends_the_one_before_it() -> None:
    facts = facts_of(("Anna", "works at", "Bosch", 1), ("Anna", "work at", "Siemens", 5), ("anna", "employer", "ZF", 7))
    first, second, third = resolved(facts)
    assert (first.valid_to, first.superseded_by) == (AT + 5 * DAY_MS, facts[1].id)
    assert (second.valid_to, second.superseded_by) == (AT + 7 * DAY_MS, facts[2].id)
    assert (third.valid_to, third.superseded_by, third.is_open) == (0, "", True)


def test_G45_as_of_an_earlier_day_the_fact_of_that_day_is_open() -> None:
    facts = facts_of(("Anna", "live in", "Lisbon", 1), ("Anna", "move to", "Porto", 5))
    assert open_objects(resolved(facts, AT + 4 * DAY_MS)) == ["Lisbon"]
    assert open_objects(resolved(facts, AT + 5 * DAY_MS)) == ["Porto"]
    assert resolved(facts, AT) == []


def test_facts_of_a_predicate_with_several_values_stand_side_by_side() -> None:
    states = resolved(facts_of(("Anna", "like", "tea", 1), ("Anna", "like", "coffee", 2), ("Tom", "like", "tea", 3)))
    assert open_objects(states) == ["tea", "coffee", "tea"]
    assert conflicts_among(states) == []


def test_the_same_value_said_again_ends_nothing() -> None:
    facts = facts_of(("Anna", "live in", "Porto", 1), ("Anna", "move to", "Porto in May", 5))
    assert open_objects(resolved(facts)) == ["Porto", "Porto in May"]
    assert conflicts_among(resolved(facts)) == []


@pytest.mark.parametrize("days", [(3, 3), (0, 3), (0, 0)])
def test_facts_whose_order_is_not_known_are_a_conflict_and_none_ends_the_other(days: tuple[int, int]) -> None:
    facts = facts_of(("Anna", "live in", "Porto", days[0]), ("Anna", "live in", "Lisbon", days[1]))
    states = resolved(facts)
    assert open_objects(states) == ["Porto", "Lisbon"]
    (conflict,) = conflicts_among(states)
    assert (conflict.subject, conflict.predicate, conflict.facts) == ("Anna", "live in", tuple(facts))
    assert [state.conflicts_with for state in states] == [(facts[1].id,), (facts[0].id,)]


def test_what_its_memory_has_ended_contradicts_nothing() -> None:
    porto, lisbon = facts_of(("Anna", "live in", "Porto", 3), ("Anna", "live in", "Lisbon", 3))
    replaced = graph_fact(porto)._replace(replaced_at=AT + 4 * DAY_MS)
    states = resolve_facts([replaced, graph_fact(lisbon)], AT + 5 * DAY_MS)
    assert open_objects(states) == ["Lisbon"]
    assert conflicts_among(states) == []


def test_a_later_fact_ends_both_sides_of_a_conflict() -> None:
    facts = facts_of(("Anna", "live in", "Porto", 3), ("Anna", "live in", "Lisbon", 3), ("Anna", "live in", "Rome", 4))
    assert open_objects(resolved(facts)) == ["Rome"]


def test_what_is_trusted_less_does_not_end_a_fact_but_contradicts_it() -> None:
    facts = facts_of(("Anna", "email", "anna@a.org", 1), ("Anna", "email", "anna@b.org", 2))
    person, agent = TRUSTS.index("user"), TRUSTS.index("agent")
    states = resolved(facts, trusts=(person, agent))
    assert open_objects(states) == ["anna@a.org", "anna@b.org"]
    assert len(conflicts_among(states)) == 1
    assert open_objects(resolved(facts, trusts=(agent, person))) == ["anna@b.org"]


def test_the_facts_that_contradict_one_are_bounded_and_each_is_in_the_conflict() -> None:
    facts = [fact_of(number, DatedTriple(Triple("Ada", "lives in", f"Stadt{number}"), 1)) for number in range(40)]
    states = resolve_facts(map(graph_fact, facts), AT * 2)
    assert {len(state.conflicts_with) for state in states} == {CONFLICTS_MAX}
    assert [each.facts for each in conflicts_among(states)] == [tuple(facts)]


def test_an_end_that_was_given_holds() -> None:
    (fact,) = facts_of(("Anna", "like", "tea", 1))
    ended = fact_of(1, DatedTriple(Triple("Anna", "like", "tea"), 1), valid_to=AT + 2 * DAY_MS)
    assert [state.is_open for state in resolved([ended], AT + 2 * DAY_MS - 1)] == [True]
    assert [state.is_open for state in resolved([ended], AT + 2 * DAY_MS)] == [False]
    assert resolved([fact])[0].is_open


def test_single_valued_predicates_are_known_by_every_name() -> None:
    names = {single_value_of(each) for each in ("lives in", "moved to", "move to", "Live in", "home")}
    assert names == {"home"}
    assert single_value_of("favorite color") == single_value_of("favourite color") == "favourite color"
    assert single_value_of("likes") is None


@pytest.mark.parametrize("seed", range(5))
def test_the_order_in_which_dated_facts_are_given_does_not_change_which_are_open(seed: int) -> None:
    facts = [fact_of(number, said) for number, said in enumerate(family(seed))]
    shuffled = random.Random(seed).sample(facts, len(facts))
    assert resolved(shuffled) == resolved(facts)
    without = [fact for fact in facts if fact.id != facts[-1].id]
    assert set(open_objects(resolved(without))) | {facts[-1].object} >= set(open_objects(resolved(facts)))


# Chains


def looked_up(facts: Sequence[Fact]) -> Callable[[str], list[GraphFact]]:
    """A look-up of facts by the entities that they name."""
    by_entity: dict[str, list[GraphFact]] = {}
    for each in map(graph_fact, facts):
        for key in dict.fromkeys((*each.subjects, *each.objects)):
            by_entity.setdefault(key, []).append(each)
    return lambda key: by_entity.get(key, [])


def every_path(facts: Sequence[Fact], start: str, hops: int) -> Iterator[tuple[str, ...]]:
    """The facts of each path from an entity that cannot be longer, by a walk that knows nothing of `find_chains`."""
    ways: dict[str, list[tuple[str, str]]] = {}
    for fact in facts:
        ways.setdefault(fact.subject, []).append((fact.id, fact.object))
        ways.setdefault(fact.object, []).append((fact.id, fact.subject))

    def walk(at: str, seen: tuple[str, ...], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        longer = [(fact_id, other) for fact_id, other in ways.get(at, ()) if other not in seen and fact_id not in path]
        if path and (len(path) == hops or not longer):
            yield path
        elif len(path) < hops:
            for fact_id, other in longer:
                yield from walk(other, (*seen, other), (*path, fact_id))

    yield from walk(start, (start,), ())


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_every_chain_of_a_family_is_found_up_to_the_hop_limit(hops: int) -> None:
    facts = [state.fact for state in resolved([fact_of(number, said) for number, said in enumerate(family())])
             if state.is_open]  # fmt: skip
    checked, facts_about = 0, looked_up(facts)
    for start in PEOPLE:
        expected = set(every_path(facts, start, hops))
        found = find_chains(start, facts_about, hops)
        got = {tuple(fact.id for fact in chain.facts) for chain in found.chains}
        assert got <= expected
        if found.is_whole:
            assert got == expected
            checked += 1
        assert all(len(set(chain.entities)) == len(chain.entities) == len(chain.facts) + 1 for chain in found.chains)
        assert len(found.chains) <= CHAINS_MAX
    assert checked >= {1: len(PEOPLE), 2: len(PEOPLE), 3: 10}[hops]


def test_a_chain_leads_through_either_side_of_a_fact_and_through_the_names_within_a_phrase() -> None:
    facts = facts_of(
        ("Anna", "sister", "Maria", 1), ("My friend Maria", "work at", "Siemens in Munich", 1),
        ("Munich", "is in", "Germany", 1),
    )  # fmt: skip
    (chain,) = find_chains("anna", looked_up(facts), 3).chains
    assert chain == FactChain(tuple(facts), ("Anna", "Maria", "Siemens in Munich", "Germany"))


def test_a_circle_ends_where_it_would_begin_again() -> None:
    facts = facts_of(("A", "like", "B", 1), ("B", "like", "C", 1), ("C", "like", "A", 1), ("A", "like", "A", 1))
    chains = find_chains("A", looked_up(facts), 3).chains
    assert sorted(chain.entities for chain in chains) == [("A", "B", "C"), ("A", "C", "B")]


def test_the_chains_of_a_hub_are_bounded_and_the_answer_says_so() -> None:
    hub = facts_of(*(("Hub", "like", f"Thing{number}", 1) for number in range(FAN_OUT_MAX + 1)))
    found = find_chains("Hub", looked_up(hub), 2)
    assert len(found.chains) == FAN_OUT_MAX
    assert not found.is_whole
    star = facts_of(*((f"P{one}", "like", f"Q{other}", 1) for one in range(20) for other in range(20)))
    found = find_chains("P1", looked_up(star), 3)
    assert len(found.chains) == CHAINS_MAX
    assert not found.is_whole


@pytest.mark.parametrize(
    ("fact", "sentence"),
    [
        (("Anna", "works at", "Siemens"), "Anna works at Siemens."),
        (("Anna", "birthday", "3 May"), "Anna's birthday is 3 May."),
        (("I", "favourite colour", "blue"), "My favourite colour is blue."),
        (("James", "employer", "ZF."), "James' employer is ZF."),
    ],
)
def test_a_fact_without_a_memory_is_stated_in_a_sentence(fact: tuple[str, str, str], sentence: str) -> None:
    assert sentence_of(StatedFact(*fact)) == sentence


# Decisions on conflicts

DECIDED_AT = AT + 9 * DAY_MS


def works(number: int, place: str, valid_from: int = AT) -> Fact:
    return Fact(
        id=sample_id(number), memory=sample_id(100 + number), content_hash="", subject="Anna", predicate="works at",
        object=place, created_at=AT, valid_from=valid_from,
    )  # fmt: skip


SIEMENS, BOSCH, MUNICH, ZF = works(1, "Siemens"), works(2, "Bosch"), works(3, "Siemens in Munich"), works(4, "ZF")


def conflicting(*facts: Fact) -> list[list[str]]:
    states = resolve_facts(map(graph_fact, facts), DECIDED_AT)
    return [[fact.object for fact in each.facts] for each in conflicts_among(states)]


def after(facts: list[Fact], changed: list[Fact]) -> list[Fact]:
    by_id = {each.id: each for each in (*facts, *changed)}
    return list(by_id.values())


def test_the_fact_that_is_kept_ends_those_that_say_something_else() -> None:
    facts = [SIEMENS, BOSCH, MUNICH]
    assert conflicting(*facts) == [["Siemens", "Bosch", "Siemens in Munich"]]
    changed = decided_facts(facts, SIEMENS.id, DECIDED_AT - DAY_MS)
    assert changed == [msgspec.structs.replace(BOSCH, valid_to=DECIDED_AT - DAY_MS, superseded_by=SIEMENS.id)]
    assert conflicting(*after(facts, changed)) == []
    (state,) = [each for each in resolve_facts(map(graph_fact, after(facts, changed)), DECIDED_AT) if not each.is_open]
    assert (state.fact.object, state.valid_to, state.superseded_by) == ("Bosch", DECIDED_AT - DAY_MS, SIEMENS.id)
    assert conflicting(*after(facts, changed), ZF) == [["Siemens", "Siemens in Munich", "ZF"]]


def test_no_fact_ends_before_it_began() -> None:
    (ended,) = decided_facts([SIEMENS, BOSCH], SIEMENS.id, AT - DAY_MS)
    assert ended.valid_to == AT
    undated = works(5, "Bosch", 0)
    (ended,) = decided_facts([SIEMENS, undated], SIEMENS.id, 0)
    assert ended.valid_to == 1  # 0 would mean that it holds


def test_facts_that_hold_beside_each_other_are_no_conflict_and_end_each_other_no_more() -> None:
    facts = [SIEMENS, BOSCH]
    changed = decided_facts(facts, "", DECIDED_AT)
    assert [each.beside for each in changed] == [(BOSCH.id,), (SIEMENS.id,)]
    assert conflicting(*changed) == []
    again = works(6, "Bosch", AT + DAY_MS)  # said once more, which is what was decided on
    assert conflicting(*changed, again) == []
    assert all(each.is_open for each in resolve_facts(map(graph_fact, (*changed, again)), DECIDED_AT))
    assert conflicting(*changed, ZF) == [["Siemens", "Bosch", "ZF"]]  # of which nobody decided
    assert decided_facts(changed, "", DECIDED_AT) == []


def test_what_says_the_same_is_not_noted_as_holding_beside() -> None:
    changed = decided_facts([SIEMENS, MUNICH, BOSCH], "", DECIDED_AT)
    assert [each.beside for each in changed] == [(BOSCH.id,), (BOSCH.id,), (SIEMENS.id, MUNICH.id)]


def test_a_clause_whose_words_are_counted_in_two_ways_is_read_all_the_same() -> None:
    text = (
        "The syntax of identifiers in Python is based on the Unicode standard annex UAX-31, with elaboration and "
        "changes as defined below; see also **PEP 3131** for further details."
    )
    (found,) = stated_triples(text)
    assert (found.predicate, found.object) == ("is based on", "the Unicode standard annex UAX-31")

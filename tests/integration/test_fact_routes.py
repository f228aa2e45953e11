"""The fact graph through the daemon: inserted facts, facts of memories, chains in recall. SPEC 7.2, 10.3, 13"""

import datetime as dt
from collections.abc import Iterator, Sequence

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.knowledge import FactView, NewFact
from mnemo_core.ingest.facts import conflicts_among, graph_fact, resolve_facts
from tests.support.family_facts import DAY_MS, FIRMS, PEOPLE, fact_of, family
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import AT


@pytest.fixture(scope="module")
def family_client(daemon: RunningDaemon) -> Iterator[Client]:
    """A client in a namespace that holds the family, inserted in another order than that of time."""
    with Client(daemon.socket, namespace="family") as client:
        facts = [NewFact(**said.triple._asdict(), valid_from=AT + said.day * DAY_MS) for said in family()]
        for start in (200, 0, 100):
            client.add_facts(facts[start : start + 100])
        yield client


def said(facts: Sequence[FactView]) -> list[str]:
    return [f"{each.subject} {each.predicate} {each.object}" for each in facts]


def test_closed_facts_of_a_family_are_returned_only_when_asked_and_its_conflicts_are_listed(
    family_client: Client,
) -> None:
    expected = resolve_facts((graph_fact(fact_of(number, each)) for number, each in enumerate(family())), AT * 2)
    every = family_client.facts(include_superseded=True, limit=500)
    shown = family_client.facts(limit=500)
    assert every.count == len(expected) == 300
    assert sorted(said(shown.facts)) == sorted(
        f"{state.fact.subject} {state.fact.predicate} {state.fact.object}"
        for state in expected if state.is_open
    )  # fmt: skip
    assert {each.status for each in shown.facts} == {"open"}
    conflicts = family_client.fact_conflicts().conflicts
    assert [each.subject for each in conflicts] == [each.subject for each in conflicts_among(expected)]
    assert {each.subject for each in conflicts} == set(PEOPLE[:6])
    assert [each.subject for each in family_client.fact_conflicts(PEOPLE[0], "lives in").conflicts] == [PEOPLE[0]]
    assert family_client.fact_conflicts(PEOPLE[0], "like").conflicts == []


def test_pages_of_facts_have_each_once(family_client: Client) -> None:
    ids: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = family_client.facts(limit=130, cursor=cursor or None)
        ids += [each.id for each in page.facts]
        cursor = page.cursor
    assert len(ids) == len(set(ids)) == page.count


def test_a_graph_leads_from_a_person_to_the_land_of_the_employer(family_client: Client) -> None:
    chains = family_client.fact_graph(PEOPLE[40], 3).chains
    ways = {tuple(fact.predicate for fact in chain.facts) for chain in chains}
    assert ("work at", "is based in", "is in") in ways
    assert all(len(set(chain.entities)) == len(chain.entities) for chain in chains)
    assert {len(chain.facts) for chain in family_client.fact_graph(PEOPLE[40]).chains} <= {1, 2}


def test_G31_recall_reaches_memories_by_two_facts_and_shows_the_chain(family_client: Client) -> None:
    (employer,) = (each for each in family_client.facts(PEOPLE[40]).facts if each.predicate == "work at")
    (place,) = (each for each in family_client.facts(employer.object).facts if each.predicate == "is based in")
    answer = family_client.recall(
        f"in which town is the firm based where {PEOPLE[40]} works?", ranker="layered", explain=True, top_k=20,
        min_importance=0,
    )  # fmt: skip
    found = {each.id: each for each in answer.memories}
    assert answer.trace is not None
    assert [employer.id, place.id] in [[fact.id for fact in chain.facts] for chain in answer.trace.fact_chains]
    assert "facts" in found[place.memory_id].channels
    relevance = {each.id: each.relevance for each in answer.trace.candidates}
    assert relevance[employer.memory_id] >= relevance[place.memory_id] == 1.0


@pytest.mark.parametrize("question", ["what does {} think of tea?", "what kind of car does {} drive to work?"])
def test_a_question_that_the_facts_of_a_person_do_not_bear_on_reaches_none(
    family_client: Client, question: str
) -> None:
    answer = family_client.recall(question.format(PEOPLE[40]), ranker="layered", explain=True)
    assert answer.trace is not None
    assert answer.trace.fact_chains == []


def test_a_new_employer_ends_the_old_one_and_as_of_shows_it_again(client: Client) -> None:
    first = client.add_facts([NewFact(subject="Anna", predicate="works at", object="Bosch", valid_from="2024-01-01")])
    second = client.add_facts([NewFact(subject="Anna", predicate="works at", object="ZF", valid_from="2025-01-01")])
    assert (first.resolved, first.conflicts, second.conflicts) == ([], [], [])
    (ended,) = second.resolved
    assert (ended.id, ended.status, ended.superseded_by) == (first.facts[0].id, "closed", second.facts[0].id)
    assert ended.valid_to == second.facts[0].valid_from
    assert said(client.facts("anna").facts) == ["Anna works at ZF"]
    assert said(client.facts("Anna's", as_of="2024-06-01").facts) == ["Anna works at Bosch"]
    assert said(client.fact_history("the Anna", "employer").history) == ["Anna works at Bosch", "Anna works at ZF"]
    doubt = client.add_facts([NewFact(subject="Anna", predicate="work for", object="Daimler", valid_from="2025-01-01")])
    (conflict,) = doubt.conflicts
    assert {each.object for each in conflict.facts} == {"ZF", "Daimler"}
    with pytest.raises(RefusalError, match="there is no fact"):
        client.delete_fact(doubt.facts[0].id[-7:])
    client.delete_fact(doubt.facts[0].id[-8:])
    client.delete_fact(second.facts[0].id)
    assert said(client.facts("Anna").facts) == ["Anna works at Bosch"]
    with pytest.raises(RefusalError, match="there is no fact"):
        client.delete_fact(second.facts[0].id)


def test_G45_facts_of_ordinary_memories_hold_as_long_as_their_memory_says_so(client: Client) -> None:
    old = client.remember("Eva lives in Lisbon.", event_at="2024-01-01").memory.id
    new = client.remember("Eva moved to Porto.", event_at="2025-01-01").memory.id
    (fact,) = client.facts("Eva").facts
    assert (fact.memory_id, fact.object, fact.method) == (new, "Porto", "rule")
    client.delete(new)
    assert said(client.facts("Eva").facts) == ["Eva lives in Lisbon"]
    client.restore(new)
    assert said(client.facts("Eva").facts) == ["Eva moved to Porto"]
    client.undo()
    assert said(client.facts("Eva").facts) == ["Eva lives in Lisbon"]
    replaced = client.remember("Eva has a flat in Rome.", supersedes=[old]).memory.id
    assert said(client.facts("Eva").facts) == ["Eva has a flat in Rome"]
    assert {each.status for each in client.facts("Eva", include_superseded=True).facts} == {"open", "withdrawn"}
    client.erase(replaced)
    assert said(client.facts("Rome", include_superseded=True).facts) == []


def test_a_fact_may_be_stated_of_a_memory_that_is_there(client: Client) -> None:
    memory = client.remember("We spoke about the boat for an hour.").memory.id
    boat = NewFact(subject="The boat", predicate="is called", object="Nixe", memory_id=memory[-8:])
    (fact,) = client.add_facts([boat]).facts
    assert (fact.memory_id, fact.method, fact.valid_from) == (memory, "said", client.get(memory).event_at)
    assert [each.id for each in client.add_facts([boat]).facts] == [fact.id]
    client.delete(memory)
    apart = NewFact(subject="Ines", predicate="works at", object="Bosch")
    with pytest.raises(RefusalError, match="is trashed"):
        client.add_facts([apart, boat])
    assert client.facts("Ines").facts == []


def test_a_fact_that_names_a_coming_weekday_holds_already(daemon: RunningDaemon) -> None:
    weekday = (dt.datetime.now(dt.UTC) + dt.timedelta(days=2)).strftime("%A")
    with Client(daemon.socket, namespace="weekdays") as client:
        client.add_facts([NewFact(subject="the canteen", predicate="closes on", object=weekday)])
        assert said(client.facts("the canteen").facts) == [f"the canteen closes on {weekday}"]


def test_who_sees_nothing_sensitive_sees_no_fact_of_it(daemon: RunningDaemon, client: Client) -> None:
    hidden = client.remember("Ugo lives in Hamburg.", tags=["sensitive"]).memory.id
    (fact,) = client.facts("Ugo").facts
    with Client(daemon.socket, namespace=client.namespace, agent="planner") as agent:
        assert agent.facts("Ugo", include_superseded=True).facts == []
        assert (agent.fact_graph("Ugo").chains, agent.fact_history("Ugo").history) == ([], [])
        with pytest.raises(RefusalError, match="there is no fact"):
            agent.delete_fact(fact.id)
        with pytest.raises(RefusalError, match="there is no memory"):
            agent.add_facts([NewFact(subject="Ugo", predicate="likes", object="tea", memory_id=hidden)])
    secret = NewFact(subject="Ugo", predicate="token", object="ghp_" + "a1B2" * 9, memory_id=hidden)
    with pytest.raises(RefusalError, match="holds a secret"):
        client.add_facts([secret])
    assert FIRMS[0] not in {each.object for each in client.facts().facts}  # of another namespace

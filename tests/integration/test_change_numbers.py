"""The change in the answer of each write that a person makes: undo takes back that write. SPEC 13"""

from collections.abc import Callable

import pytest
from msgspec import UnsetType

from mnemo_client.client import Client
from mnemo_client.protocol.knowledge import NewFact, NewFacts
from mnemo_client.protocol.memories import Patch
from mnemo_client.protocol.profiles import NewProfileEntry
from tests.integration.test_memory_routes import fresh

Seq = int | UnsetType | None


def states(client: Client, space: str) -> dict[str, tuple[str, str, bool, str]]:
    """The memories of a namespace as far as a write can change them, by id."""
    found = [*client.list_memories(namespace=space, states=["active", "archived", "trashed", "discarded"]).memories]
    return {each.id: (each.content, each.state, each.pinned, ",".join(each.tags)) for each in found}


def remember(client: Client, space: str) -> Seq:
    return client.remember("The boat lies at pier four.", namespace=space).seq


def edit(client: Client, space: str) -> Seq:
    return client.patch(key_of(client, space), Patch(content="The spare key is with Otto.", tags=["key"])).seq


def pin(client: Client, space: str) -> Seq:
    return client.patch(key_of(client, space), Patch(pinned=True)).seq


def delete(client: Client, space: str) -> Seq:
    return client.delete(key_of(client, space)).seq


def delete_many(client: Client, space: str) -> Seq:
    return client.delete_many(namespace=space, tags=["home"], confirm=True).seq


def restore(client: Client, space: str) -> Seq:
    bins = client.trash(namespace=space).memories[0].id
    return client.restore(bins).seq


def profile(client: Client, space: str) -> Seq:
    entry = NewProfileEntry(text="I keep spare keys.", evidence_ids=[key_of(client, space)])
    return client.update_profile(namespace=space, stable_facts=[entry]).seq


def add_fact(client: Client, space: str) -> Seq:
    facts = [NewFact(subject="Anna", predicate="works at", object="Siemens")]
    return client.add_facts(NewFacts(facts=facts, namespace=space)).seq


def key_of(client: Client, space: str) -> str:
    return client.list_memories(namespace=space, tags=["home"]).memories[0].id


WRITES = (remember, edit, pin, delete, delete_many, restore, profile, add_fact)


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_undo_of_the_change_in_an_answer_takes_back_that_write_alone(
    client: Client, write: Callable[[Client, str], Seq]
) -> None:
    space = fresh()
    client.remember("The spare key is with Ines.", namespace=space, tags=["home"])
    client.delete(client.remember("The bins go out on Tuesday.", namespace=space).memory.id)
    before = states(client, space)
    seq = write(client, space)
    assert isinstance(seq, int)
    changed = states(client, space)
    assert changed != before
    later = client.remember("Something else that came later.", namespace=space)  # which stays
    assert client.undo(seq=seq).seqs == [seq]
    after = states(client, space)
    assert after.pop(later.memory.id)[1] == "active"
    gone = {key for key in after.keys() - before.keys() if after[key][1] == "trashed"}
    assert {key: value for key, value in after.items() if key not in gone} == before


def test_a_write_that_changes_nothing_has_no_change_in_its_answer(client: Client) -> None:
    space = fresh()
    kept = client.remember("The spare key is with Ines.", namespace=space).memory
    assert client.remember("The spare key is with Ines.", namespace=space).seq is None
    assert client.patch(kept.id, Patch(content="The spare key is with Ines.")).seq is None
    client.delete(kept.id)
    assert client.delete(kept.id).seq is None
    assert client.delete_many(namespace=space, confirm=True).seq is None

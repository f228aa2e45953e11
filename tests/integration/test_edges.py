"""The edges of a memory through the socket: direction, relation, pages, and what is not listed."""

from typing import Any

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_store.records import Edge, PutEdge
from tests.integration.test_memory_routes import fresh
from tests.support.samples import AT, dump_of


def remembered(client: Client, *contents: str, **fields: Any) -> list[str]:
    """The ids of new memories with these texts."""
    return [client.remember(content, **fields).memory.id for content in contents]


def listed(client: Client, memory_id: str) -> list[tuple[str, str, str]]:
    """Relation, direction and other end of each edge, in the order of the answer."""
    return [(edge.relation, edge.direction, edge.memory.id) for edge in client.edges(memory_id).edges]


def test_an_edge_is_listed_at_both_its_ends_with_its_direction(client: Client) -> None:
    old, new, other = remembered(client, "Tea at four.", "Otto plays cello.", "The kettle is red.", namespace=fresh())
    client.import_from([
        dump_of(
            PutEdge(data=Edge(source=new, target=old, relation="updates", at=AT)),
            PutEdge(data=Edge(source=new, target=other, relation="related", at=AT + 1)),
            PutEdge(data=Edge(source=other, target=new, relation="repeats", at=AT + 2)),
        )
    ])  # fmt: skip
    assert listed(client, new) == [("repeats", "from", other), ("related", "to", other), ("updates", "to", old)]
    assert listed(client, old) == [("updates", "from", new)]
    first, *_ = client.edges(new[-8:]).edges
    assert (first.at, first.via, first.memory.content) == (AT + 2, None, "The kettle is red.")


def test_a_memory_without_edges_has_an_empty_list_and_no_memory_is_404(client: Client) -> None:
    (alone,) = remembered(client, "Tea at four.", namespace=fresh())
    assert client.edges(alone).edges == []
    with pytest.raises(RefusalError) as refused:
        client.edges("0" * 32)
    assert (refused.value.status, refused.value.code) == (404, "not_found")


def test_the_edges_come_in_pages(client: Client) -> None:
    hub, *others = remembered(client, *(f"Cup number {number}." for number in range(6)), namespace=fresh())
    client.import_from([
        dump_of(
            *(PutEdge(data=Edge(source=hub, target=other, relation="related", at=AT)) for other in others),
            *(PutEdge(data=Edge(source=other, target=hub, relation="related", at=AT)) for other in others),
        )
    ])  # fmt: skip
    whole, cursor = listed(client, hub), None
    pages: list[list[tuple[str, str, str]]] = []
    while pages == [] or cursor is not None:
        answer = client.edges(hub, limit=3, cursor=cursor)
        pages.append([(edge.relation, edge.direction, edge.memory.id) for edge in answer.edges])
        cursor = answer.cursor
    assert [edge for page in pages for edge in page] == whole
    assert [len(page) for page in pages] == [3, 3, 3, 1]
    with pytest.raises(RefusalError) as refused:
        client.edges(hub, cursor="elsewhere")
    assert (refused.value.status, refused.value.field) == (400, "cursor")


def test_a_trashed_memory_is_not_listed_and_comes_back_with_its_edge(client: Client) -> None:
    one, other = remembered(client, "Tea at four.", "The kettle is red.", namespace=fresh())
    client.import_from([dump_of(PutEdge(data=Edge(source=one, target=other, relation="related", at=AT)))])
    client.delete(other)
    assert listed(client, one) == []
    assert listed(client, other) == [("related", "from", one)], "who asks for what is in the trash by its id, sees it"
    client.restore(other)
    assert listed(client, one) == [("related", "to", other)]


def test_a_memory_of_another_namespace_or_user_is_not_listed(client: Client) -> None:
    space = fresh()
    (one,) = remembered(client, "Tea at four.", namespace=space)
    (foreign,) = remembered(client, "The kettle is red.", namespace=fresh())
    (bens,) = remembered(client, "The kettle is blue.", namespace=space, user_id="ben")
    client.import_from([
        dump_of(*(PutEdge(data=Edge(source=one, target=other, relation="related", at=AT)) for other in (foreign, bens)))
    ])  # fmt: skip
    assert [listed(client, each) for each in (one, foreign, bens)] == [[], [], []]

"""The list of memories by the key that their caller gave one. SPEC 2.1, 13"""

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError


def test_a_key_finds_its_memory_among_all_others_and_within_filters(client: Client) -> None:
    stored = client.remember("The boiler is serviced in May.", key="house/boiler", namespace="keys", tags=["house"])
    client.remember("The boiler is blue.", namespace="keys")
    found = client.list_memories(key="house/boiler", namespace="keys")
    assert ([each.id for each in found.memories], found.cursor) == ([stored.memory.id], None)
    assert client.list_memories(key="house/boiler", namespace="keys", tags=["garden"]).memories == []
    assert client.list_memories(key="house", namespace="keys").memories == []
    assert client.list_memories(key="house/boiler", namespace="other").memories == []
    client.delete(stored.memory.id)
    assert client.list_memories(key="house/boiler", namespace="keys").memories == []
    assert len(client.list_memories(key="house/boiler", namespace="keys", states=["trashed"]).memories) == 1


def test_a_key_needs_one_namespace(client: Client) -> None:
    with pytest.raises(RefusalError, match="one namespace"):
        client.list_memories(key="house/boiler", namespace="*")

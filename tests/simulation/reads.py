"""Reads of people and agents, and their required answers: right, or marked as incomplete."""

from collections.abc import Callable
from typing import Any

import msgspec

from mnemo_store.records import Memory
from tests.simulation.ledger import State, Wrong
from tests.simulation.life import SimulatedLife
from tests.simulation.writes import NAMESPACES, SENSITIVE, unlike

SHOWN = ("active", "archived")
HOURS = 3_600_000


def get(life: SimulatedLife) -> str:
    memory = life.pick()
    memory_id = memory.id if memory is not None else "01890000-0000-7000-8000-000000000000"
    entry_point = life.chance.choice(("api", "mcp"))
    states = [state.memory(memory_id) for state in life.states]
    reported = {200 if _is_seen(now, entry_point) else 404 for now in states}
    answer = life.ask("GET", f"/v1/memories/{memory_id}", entry_point=entry_point)
    if life.expect(answer, reported):
        _is_one_of(answer.value, states)
    return f"{memory_id[-8:]} {entry_point} {answer.status}"


def list_pages(life: SimulatedLife) -> str:
    """All pages together hold what passes the filter, each once, the newest first."""
    query: dict[str, Any] = {"limit": life.chance.choice((1, 7, 500))}
    namespace = life.chance.choice((*NAMESPACES, "*"))
    state = life.chance.choice((None, None, "trashed", "superseded"))
    if state is not None:
        query["state"] = state
    if life.chance.random() < 0.3:
        query["user_id"] = "anna"
    views: list[dict[str, Any]] = []
    while True:
        answer = life.ask("GET", "/v1/memories", namespace=namespace, **query)
        if not life.expect(answer, (200,)):
            return f"{namespace} {answer.code}"
        views += answer.value["memories"]
        if answer.value["cursor"] is None:
            break
        query["cursor"] = answer.value["cursor"]
    user = query.get("user_id", "local")
    wanted = (state,) if state else SHOWN

    def expected(of: State) -> list[str]:
        found = [memory.id for memory in of.current() if memory.state in wanted and memory.user_id == user
                 and namespace in (memory.namespace, "*") and not _is_expired(life, memory)]  # fmt: skip
        return sorted(found, reverse=True)

    ids = [view["id"] for view in views]
    if life.is_settled or not _is_behind(life):
        if ids not in [expected(of) for of in life.states]:
            raise Wrong(f"a list of {namespace} {state} gives {ids}, not {expected(life.state)}")
        for view in views:
            _is_one_of(view, [of.memory(view["id"]) for of in life.states])
    return f"{namespace} {state or ''} {user} {len(ids)}"


def search(life: SimulatedLife) -> str:
    memory = life.pick()
    if memory is None:
        return "nothing to search for"
    entry_point = life.chance.choice(("api", "mcp"))
    namespace = life.chance.choice((memory.namespace, *NAMESPACES))
    word = memory.content.split()[0]
    answer = life.ask(
        "GET", "/v1/search", entry_point=entry_point, namespace=namespace, q=word, limit=100, user_id=memory.user_id
    )
    if not life.expect(answer, (200,)):
        return f"{word} {answer.code}"
    return f"{word} {entry_point} {_found(life, answer.value, memory, namespace, entry_point)}"


def recall(life: SimulatedLife) -> str:
    memory = life.pick()
    if memory is None:
        return "nothing to recall"
    entry_point = life.chance.choice(("api", "mcp"))
    namespace = life.chance.choice((memory.namespace, *NAMESPACES))
    body = {"query": " ".join(memory.content.split()[:3]), "top_k": 100, "token_budget": None,
            "user_id": memory.user_id, "dry": life.chance.random() < 0.5}  # fmt: skip
    was_well = life.world.faults.is_well()
    answer = life.ask("POST", "/v1/recall", body, entry_point=entry_point, namespace=namespace)
    if not life.expect(answer, (200,)):
        return f"{answer.code}"
    if life.is_settled and answer.value["degraded"] and was_well and not _may_lack_vectors(life):
        raise Wrong(f"an answer is degraded ({answer.value['degraded']}), and nothing is out of order")
    return f"{memory.content.split()[0]} {entry_point} {_found(life, answer.value, memory, namespace, entry_point)}"


def recall_as_of(life: SimulatedLife) -> str:
    """The store as it was at a time."""
    state = life.state
    memory = life.pick()
    if memory is None or not state.entries:
        return "nothing was there"
    at = state.entries[life.chance.choice(sorted(state.entries))].at + life.chance.choice((0, 0, 1, -1))
    word = memory.content.split()[0]
    body = {"query": word, "top_k": 100, "token_budget": None, "user_id": memory.user_id, "as_of": at, "dry": True}
    answer = life.ask("POST", "/v1/recall", body, namespace=memory.namespace)
    kept_from = int(state.metas.get("history_from", "0").split()[0])
    if not life.expect(answer, (200, 422) if kept_from else (200,)):
        return f"{word} {answer.code}"
    seq = seq_at(state, at)
    then = state.at(seq).get(memory.id)
    shown = _as_shown(state.at(seq).get, memory.id)
    is_there = shown is not None and shown.state in SHOWN and not _is_expired(life, shown, at)
    if life.is_settled and seq >= kept_from and (then is None or then.content.split()[0].casefold() == word.casefold()):
        found = [view for view in answer.value["memories"] if view["id"] == memory.id]
        other = then is not None and any(
            other.id != memory.id and _alike(other, then) for other in state.at(seq).values()
        )  # of what said the same then, one answers
        if bool(found) != is_there and not other:
            raise Wrong(f"{memory.id} was {'' if is_there else 'not '}there at change {seq}, the answer is {found}")
        if found and then is not None and (wrong := unlike(found[0], then)):
            raise Wrong(f"{memory.id} is answered as of change {seq} with other values: {wrong}")
    return f"{word} as of change {seq} {'there' if is_there else 'not there'}"


def history(life: SimulatedLife) -> str:
    memory = life.pick()
    if memory is None:
        return "no history"
    answer = life.ask("GET", f"/v1/memories/{memory.id}/history")
    there = {state.memory(memory.id) is not None for state in life.states}
    if not life.expect(answer, {200 if each else 404 for each in there}):
        return f"{memory.id[-8:]} {answer.status}"
    reported = [(row["seq"], row["memory"]["version"], row["memory"]["content"]) for row in answer.value["versions"]]
    expected = [[(seq, was.version, was.content) for seq, was in reversed(state.memories.get(memory.id, ()))]
                for state in life.states]  # fmt: skip
    if reported not in expected:
        raise Wrong(f"the history of {memory.id} is reported as {reported}, not {expected[0]}")
    return f"{memory.id[-8:]} {len(reported)} versions"


def diff(life: SimulatedLife) -> str:
    state = life.state
    since = life.chance.randint(0, state.seq)
    answer = life.ask("GET", "/v1/diff", since=f"seq:{since}", namespace="*", limit=500)
    kept_from = int(state.metas.get("history_from", "0").split()[0])
    if not life.expect(answer, (200, 422) if since < kept_from else (200,)):
        return f"since {since} {answer.code}"
    if life.is_settled and since >= kept_from:
        before, after = state.at(since), state.at(state.seq)
        expected: dict[str, set[str]] = {"added": set(), "changed": set(), "removed": set()}
        for memory_id in {each for seq, entry in state.entries.items() if seq > since for each in entry.ids}:
            became = _became(before.get(memory_id), after.get(memory_id), memory_id in state.memories)
            if became and (after.get(memory_id) or before.get(memory_id) or _NOBODY).user_id == "local":
                expected[became].add(memory_id)
        reported = {name: {row["id"] for row in answer.value[name]} for name in expected}
        if reported != expected:
            raise Wrong(f"since change {since}: reported {reported}, expected {expected}")
    return f"since {since} {[len(answer.value[name]) for name in ('added', 'changed', 'removed')]}"


def status(life: SimulatedLife) -> str:
    answer = life.ask("GET", "/v1/status")
    if not life.expect(answer, (200,)):
        return answer.code
    reported = answer.value
    world = life.world
    assert world.daemon is not None
    if (world.store.is_replayed or not world.store.has_state) and reported["state"] != "degraded":
        raise Wrong(f"the database is not what holds the store, and the status says {reported['state']}")
    if life.is_settled:
        memories = list(life.state.current())
        shown = sum(memory.state in SHOWN for memory in memories)
        trashed = sum(memory.state == "trashed" for memory in memories)
        said = (reported["memories"], reported["trash"]["count"], reported["seq"])
        if said != (shown, trashed, life.state.seq):
            raise Wrong(f"the status counts {said}, there are {(shown, trashed, life.state.seq)}")
    return f"{reported['state']} {reported['memories']}"


# What must be in an answer


def seq_at(state: State, at: int) -> int:
    """The last change, in their order, that was made by then."""
    return next((seq for seq in sorted(state.entries, reverse=True) if state.entries[seq].at <= at), 0)


def _found(life: SimulatedLife, reported: dict[str, Any], memory: Memory, namespace: str, entry_point: str) -> str:
    """True if the memory is among the answers, as it must be, or must not be."""
    ids = [view["id"] for view in reported["memories"]]
    for view in reported["memories"]:
        seen = [state.memory(view["id"]) for state in life.states]
        _is_one_of(view, seen)
        may = (_may_answer(life, _as_shown(state.memory, view["id"]), memory.user_id, namespace, entry_point)
               for state in life.states)  # fmt: skip
        if not any(may):
            raise Wrong(f"{view['id']} is answered and must not be ({seen[0]})")
    must = all(_must_answer(life, state, memory, namespace, entry_point) for state in life.states)
    if (
        must
        and memory.id not in ids
        and not ("words" in reported["degraded"] or (life.is_troubled and _is_behind(life)))
    ):
        raise Wrong(f"{memory.id} is not found by its own word, and nothing says why (found {ids})")
    return f"{'found' if memory.id in ids else 'not found'} {reported['degraded']}"


def _as_shown(read: Callable[[str], Memory | None], memory_id: str) -> Memory | None:
    """The memory; a replaced one as an active one, where all that replaced it is in the trash or erased."""
    memory = replacement = read(memory_id)
    while replacement is not None and replacement.state in ("superseded", "trashed", "discarded"):
        replacement = read(replacement.superseded_by) if replacement.superseded_by else None
    if memory is not None and memory.state == "superseded" and replacement is None:
        return msgspec.structs.replace(memory, state="active")
    return memory


def _may_answer(life: SimulatedLife, memory: Memory | None, user: str, namespace: str, entry_point: str) -> bool:
    if memory is None or memory.state not in SHOWN or memory.user_id != user or _is_expired(life, memory):
        return False
    return memory.namespace in (namespace, "default") and _is_seen(memory, entry_point)


def _must_answer(life: SimulatedLife, state: State, memory: Memory, namespace: str, entry_point: str) -> bool:
    """Unless one of the same text answers in its place."""
    now = state.memory(memory.id)
    if now is None or now.content.split()[0] != memory.content.split()[0]:
        return False
    if not _may_answer(life, now, memory.user_id, namespace, entry_point):
        return False
    return not any(other.id != now.id and _alike(other, now) for other in state.current())


def _alike(one: Memory, other: Memory) -> bool:
    return one.content.casefold().split() == other.content.casefold().split()


def _is_seen(memory: Memory | None, entry_point: str) -> bool:
    return memory is not None and (entry_point != "mcp" or SENSITIVE not in memory.tags)


def _is_expired(life: SimulatedLife, memory: Memory, at: int | None = None) -> bool:
    now = life.world.clock.now()
    return 0 < memory.expires_at <= (now if at is None else min(at, now))


def _is_one_of(view: dict[str, Any], states: list[Memory | None]) -> None:
    wrong: list[str] = ["it is not there"]
    for memory in states:
        if memory is not None and not (wrong := unlike(view, memory)):
            return
    raise Wrong(f"{view['id']} is answered with other values: {wrong}")


def _is_behind(life: SimulatedLife) -> bool:
    """True if the words say that they are not what the store is."""
    assert life.world.daemon is not None
    return life.world.daemon.views.state != "ready"


def _may_lack_vectors(life: SimulatedLife) -> bool:
    """True if there is a reason for an answer without vectors."""
    assert life.world.daemon is not None
    return life.world.daemon.indexing.serving() is None or life.world.daemon.indexing.waiting() > 0


def _became(before: Memory | None, after: Memory | None, is_there: bool) -> str:
    """Added, changed or removed; "" for nothing."""
    was = before is not None and before.state != "trashed"
    now = after is not None and after.state != "trashed"
    if not is_there:
        return "removed"
    if was != now:
        return "added" if now else "removed"
    if not now:
        return ""
    fields = [name for name in Memory.__struct_fields__ if name not in ("version", "modified_at")]
    return "changed" if any(getattr(before, name) != getattr(after, name) for name in fields) else ""


_NOBODY = Memory(id="", content="", created_at=0, modified_at=0, event_at=0)

"""Writes of people and agents, and their required results. SPEC 2.1, 3.3, 3.7, 5.5."""

from typing import Any

import msgspec

from mnemo_store.backend import HASHED_STATES
from mnemo_store.record_texts import normalized_text, skip_hash
from mnemo_store.records import OWN_TRUSTS, Memory
from tests.simulation.ledger import State, Wrong
from tests.simulation.life import SimulatedLife
from tests.simulation.world import SimulatedAnswer

NAMESPACES = ("default", "default", "project")
USERS = (None, None, None, "anna")
KEYS = ("plan", "home", "diet")
SENSITIVE = "sensitive"
TAGS = ((), (), (), ("lesson",), (SENSITIVE,), ("lesson", "tea"))
HIDDEN = ("superseded", "discarded", "compressed")

ReportedWrite = tuple[int, str, str]  # status, outcome or error code, id ("" where it is new)


def remember(life: SimulatedLife) -> str:
    body, entry_point = _draft(life)
    now = life.world.clock.now()
    reported = {_expected_of_remembering(state, body, entry_point, life.world.salt, now) for state in life.states}
    answer = life.ask("POST", "/v1/memories", body, entry_point=entry_point)
    return f"{entry_point} {_shown(body)} {_look_at_remembered(life, answer, body, reported)}"


def remember_together(life: SimulatedLife) -> str:
    """Several at once: one group of the journal. None of them knows of the others when it is asked."""
    bodies = [_draft(life)[0] for _ in range(life.chance.randint(2, 5))]
    for body in bodies:
        body.pop("supersedes", None)
        body.pop("pinned", None)
    before = life.states
    answers = life.world.ask_together([("POST", "/v1/memories", body) for body in bodies])
    came = []
    for answer in answers:
        life.expect(answer, (200, 201))
        came.append(answer.value["outcome"] if answer.is_ok else answer.code)
    if all(answer.is_ok for answer in answers) and len(before) == 1:
        _look_at_group(before[0], life.state, bodies, answers)
    return f"{[_shown(body) for body in bodies]} {came}"


def batch(life: SimulatedLife) -> str:
    """Each has its own outcome or its own error."""
    bodies: list[dict[str, Any]] = [_draft(life)[0] for _ in range(life.chance.randint(1, 4))]
    for body in bodies:
        body.pop("supersedes", None)
    bodies.append({"content": "no such field", "colour": "red"})
    answer = life.ask("POST", "/v1/memories/batch", {"memories": bodies})
    if not life.expect(answer, (200,)):
        return answer.code
    *results, last = answer.value["results"]
    for row in results:
        if "error" in row and not (life.is_troubled and row["error"]["code"] in TROUBLES):
            raise Wrong(f"one of a batch was answered {row}")
    return f"{[row.get('outcome') or row['error']['code'] for row in results]} and {'error' in last}"


TROUBLES = ("write_failed", "disk_full", "outcome_unknown", "degraded", "damaged", "stopping")


def edit(life: SimulatedLife) -> str:
    memory = life.pick()
    if memory is None:
        return "nothing to edit"
    fields = _edited(life, memory)
    right = life.chance.random() < 0.7
    if life.chance.random() < 0.5:
        fields["if_version"] = memory.version if right else memory.version + 1
    reported = {_expected_of_editing(state, memory.id, fields) for state in life.states}
    answer = life.ask("PATCH", f"/v1/memories/{memory.id}", fields)
    if life.expect(answer, {status for status, _ in reported}):
        _shows(life, answer.value)
        versions = {version for status, version in reported if status == 200}
        if answer.value["version"] not in versions:
            raise Wrong(f"an edit made version {answer.value['version']}, not of {versions}")
        for name in ("content", "importance", "pinned"):
            if name in fields and answer.value[name] != fields[name]:
                raise Wrong(f"an edit of {name} came to {answer.value[name]!r}")
        _kept(life, memory, answer.value, fields)
    return f"{memory.id[-8:]} {sorted(fields)} {answer.status} {answer.code}"


def delete(life: SimulatedLife) -> str:
    memory = life.pick()
    if memory is None:
        return "nothing to delete"
    which = memory.id if life.chance.random() < 0.5 else memory.id[-8:]
    there = {state.memory(memory.id) is not None for state in life.states}
    answer = life.ask("DELETE", f"/v1/memories/{which}")
    if life.expect(answer, {200 if each else 404 for each in there}):
        _is_in(life, memory.id, ("trashed",))
        if answer.value["deleted"] and not life.is_troubled and memory.state == "trashed":
            raise Wrong("what is in the trash was deleted once more")
    return f"{memory.id[-8:]} ({memory.state}) {answer.status}"


def delete_by_filter(life: SimulatedLife) -> str:
    """A dry run first, then for good; both name the same."""
    tag = life.chance.choice(("lesson", "tea"))
    dry = life.ask("DELETE", "/v1/memories", tag=tag)
    if not life.expect(dry, (200,)):
        return dry.code
    answer = life.ask("DELETE", "/v1/memories", tag=tag, confirm="true")
    if not life.expect(answer, (200,)):
        return answer.code
    if sorted(dry.value["ids"]) != sorted(answer.value["ids"]) or answer.value["deleted"] != len(answer.value["ids"]):
        raise Wrong(f"a dry run names {dry.value}, and {answer.value} were deleted")
    for memory_id in answer.value["ids"]:
        _is_in(life, memory_id, ("trashed",))
    return f"{tag}: {len(answer.value['ids'])}"


def restore(life: SimulatedLife) -> str:
    memory = life.pick(lambda memory: memory.state == "trashed") or life.pick()
    if memory is None:
        return "nothing to restore"
    states = [state.memory(memory.id) for state in life.states]
    reported = {
        404 if now is None else 200 if now.state in ("trashed", "discarded", "archived") else 409 for now in states
    }
    entries = [state.trash.get(memory.id) for state in life.states]
    answer = life.ask("POST", f"/v1/trash/{memory.id}/restore")
    if life.expect(answer, reported):
        _shows(life, answer.value)
        if answer.value["state"] not in {entry.state if entry is not None else "active" for entry in entries}:
            raise Wrong(f"restored to {answer.value['state']}, and the trash says {entries}")
        if answer.value["content"] != memory.content:
            raise Wrong("what was restored has another text")
    return f"{memory.id[-8:]} ({memory.state}) {answer.status}"


def undo(life: SimulatedLife) -> str:
    """The last change, one by its number, or a group."""
    entries = life.state.entries
    body: dict[str, Any] = {}
    groups = sorted({entry.group for entry in entries.values() if entry.group})
    kind = life.chance.choice(("last", "seq", "seq", "group"))
    if kind == "seq" and entries:
        body = {"seq": life.chance.choice(sorted(entries)[-12:])}
    elif kind == "group" and groups:
        body = {"group": life.chance.choice(groups)}
    before = life.states
    plain = _can_plainly_be_undone(before[0], body["seq"]) if "seq" in body and len(before) == 1 else None
    expected = (200, 404, 409, 422) if plain is None else (200,) if plain else (409,)
    answer = life.ask("POST", "/v1/undo", body)
    if life.expect(answer, expected) and len(before) == 1:
        _look_at_undone(before[0], life.state, answer.value)
    return f"{body} {answer.status} {answer.value.get('seqs') or answer.code}"


# What must come of it


def _expected_of_remembering(
    state: State, body: dict[str, Any], entry_point: str, salt: str, now: int
) -> ReportedWrite:
    """Status, outcome or code, and the id of what was there before."""
    for text in body.get("supersedes", ()):
        if not any(
            memory.id == text or memory.id.endswith(text) for memory in state.current() if _sees(memory, entry_point)
        ):
            return 404, "not_found", ""
    known = _known(state, body, entry_point, now)
    if known is not None and body.get("key") and not _sees(known, entry_point):
        return 409, "conflict", ""
    is_known = known is not None and normalized_text(known.content) == normalized_text(body["content"])
    is_hidden = known is not None and bool(body.get("key")) and known.state in HIDDEN
    is_changed = not is_known or is_hidden or (known is not None and known.state == "trashed")
    if known is not None and body.get("key") and entry_point == "mcp" and known.pinned and is_changed:
        return 422, "pinned", ""
    is_forgotten = skip_hash(salt, body["content"]) in state.forgotten
    if is_forgotten and entry_point == "mcp" and (is_hidden or not is_known):
        return 422, "forgotten", ""
    for text in body.get("supersedes", ()):
        older = next(memory for memory in state.current() if memory.id == text or memory.id.endswith(text))
        if older.state == "trashed":
            return 409, "trashed", ""
        if older.managed:
            return 422, "managed", ""
        if older.pinned and entry_point == "mcp" and (known is None or older.id != known.id):
            return 422, "pinned", ""
    if known is None:
        return 201, "stored", ""
    if body.get("key") and (not is_known or known.state in HIDDEN):
        return 200, "updated", known.id
    return 200, "duplicate", known.id


def _known(state: State, body: dict[str, Any], entry_point: str, now: int) -> Memory | None:
    """The existing memory for a write: under its key, or, without one, with its text, unless something newer stands
    in its place."""
    place = (body.get("namespace") or "default", body.get("user_id") or "local")
    here = [memory for memory in state.current() if (memory.namespace, memory.user_id) == place]
    if body.get("key"):
        return next((memory for memory in here if memory.key == body["key"]), None)
    same = (
        memory for memory in here
        if normalized_text(memory.content) == normalized_text(body["content"])
        and memory.state in HASHED_STATES and _sees(memory, entry_point) and not memory.agent_id and not memory.run_id
        and (memory.trust in OWN_TRUSTS or entry_point == "mcp")  # what others wrote does not stand for the person
        and not _is_outdated(state, memory, now)
    )  # fmt: skip
    return next(same, None)


def _is_outdated(state: State, memory: Memory, now: int) -> bool:
    newer = state.memory(memory.superseded_by) if memory.state == "superseded" and memory.superseded_by else None
    return newer is not None and newer.state in ("active", "archived") and newer.event_at < now


def _look_at_remembered(
    life: SimulatedLife, answer: SimulatedAnswer, body: dict[str, Any], reported: set[ReportedWrite]
) -> str:
    if not life.expect(answer, {status for status, _, _ in reported}):
        return f"{answer.status} {answer.code}"
    memory, outcome = answer.value["memory"], answer.value["outcome"]
    is_new = outcome in ("stored", "repeats")  # `repeats` is stored behind what it repeats
    fitting = {(201, "stored", "") if is_new else (200, outcome, memory["id"])}
    if not fitting & reported:
        raise Wrong(f"remembering came to {outcome} of {memory['id']}, not to {reported}")
    _shows(life, memory)
    if outcome != "duplicate" and memory["content"] != body["content"]:
        raise Wrong(f"{memory['content']!r} was remembered, not {body['content']!r}")
    if not life.is_troubled:
        for text in body.get("supersedes", ()):
            for older in life.state.current():
                if (older.id == text or older.id.endswith(text)) and older.id != memory["id"]:
                    _is_in(life, older.id, ("superseded",))
    return f"{outcome} {memory['id'][-8:]}"


def _look_at_group(before: State, now: State, bodies: list[dict[str, Any]], answers: list[SimulatedAnswer]) -> None:
    """As if they had come one after the other."""
    ids = [answer.value["memory"]["id"] for answer in answers]
    for body, answer in zip(bodies, answers, strict=True):
        memory = now.memory(answer.value["memory"]["id"])
        if memory is None:
            raise Wrong(f"{answer.value['memory']['id']} was answered and is not there")
        if answer.value["outcome"] == "stored" and memory.id in before.memories:
            raise Wrong(f"{memory.id} was there and is said to be new")
        if ids.count(memory.id) == 1 and normalized_text(memory.content) != normalized_text(body["content"]):
            raise Wrong(f"{memory.content!r} was remembered, not {body['content']!r}")


def _expected_of_editing(state: State, memory_id: str, fields: dict[str, Any]) -> tuple[int, int]:
    """Status, and the version it comes to."""
    memory = state.memory(memory_id)
    if memory is None:
        return 404, 0
    if fields.get("if_version", memory.version) != memory.version or memory.state == "trashed":
        return 409, 0
    if "content" in fields and memory.managed:
        return 422, 0
    new = {**fields, "tags": tuple(fields["tags"])} if "tags" in fields else dict(fields)
    new.pop("if_version", None)
    if "importance" in new:
        new["importance_source"] = "user"
    changed = any(getattr(memory, name) != value for name, value in new.items())
    return 200, memory.version + changed


def _kept(life: SimulatedLife, before: Memory, view: dict[str, Any], fields: dict[str, Any]) -> None:
    """Nothing but what was named has changed."""
    if life.is_troubled:
        return
    for name in ("content", "tags", "importance", "pinned", "kind", "namespace", "user_id", "state", "created_at"):
        was = getattr(before, name)
        if name not in fields and view[name] != (list(was) if isinstance(was, tuple) else was):
            raise Wrong(f"an edit of {sorted(fields)} changed {name} to {view[name]!r}")


def _can_plainly_be_undone(state: State, seq: int) -> bool | None:
    """True if nothing came after a change; None where that is not simply told."""
    entry = state.entries[seq]
    kept_from = int(state.metas.get("history_from", "0").split()[0])
    if not entry.ids or entry.by == "notes" or seq <= kept_from:
        return None
    for memory_id in entry.ids:
        versions = state.memories.get(memory_id)
        if versions is None or any(version.managed for _, version in versions):
            return None
        entries = [state.entries.get(by) for by, _ in versions]
        if any(
            each is None or each.what.startswith(("undo:", "recall")) or each.by in ("notes", "intake")
            for each in entries
        ):
            return None
    return all(state.memories[memory_id][-1][0] == seq for memory_id in entry.ids)


def _look_at_undone(before: State, now: State, done: dict[str, Any]) -> None:
    """Each memory is what it was before one of its versions, or in the trash where it was not there."""
    for memory_id in done["ids"]:
        memory = now.memory(memory_id)
        if memory is None:
            raise Wrong(f"{memory_id} was undone and is gone")
        was = [version for _, version in before.memories[memory_id]]
        if memory.version != was[-1].version + 1:
            raise Wrong(f"an undo made version {memory.version} of {was[-1].version}")
        fields = {"version": 0, "modified_at": 0, "managed": ""}
        like = [msgspec.structs.replace(each, **fields) for each in was[:-1]]
        # A passage of a note that has no date loses the time of its file with the note.
        like += [msgspec.structs.replace(each, event_at=each.created_at) for each in like if each.note is not None]
        bare = msgspec.structs.replace(memory, **fields)
        if was[-1].state == "trashed" and not memory.expires_at:  # what had expired comes back without its expiry
            like = [msgspec.structs.replace(each, expires_at=0) for each in like]
        if bare not in like and memory.state != "trashed":
            raise Wrong(f"an undo made of {memory_id} what it never was")


# What is asked


def _draft(life: SimulatedLife) -> tuple[dict[str, Any], str]:
    chance = life.chance
    body: dict[str, Any] = {"content": life.text(), "namespace": chance.choice(NAMESPACES)}
    known = life.pick(lambda memory: not memory.managed)
    if known is not None and chance.random() < 0.2:
        body |= {"content": f" {known.content.upper()}".replace(" ", "  ").strip(), "namespace": known.namespace}
    if (user := chance.choice(USERS)) is not None:
        body["user_id"] = user
    if chance.random() < 0.25:
        body["key"] = chance.choice(KEYS)
    if tags := chance.choice(TAGS):
        body["tags"] = list(tags)
    if chance.random() < 0.2:
        body["importance"] = chance.choice((0.0, 0.25, 1.0))
    if chance.random() < 0.1:
        body["expires_at"] = life.world.clock.now() + 3_600_000
    older = life.pick() if chance.random() < 0.1 else None
    if older is not None:
        body["supersedes"] = [older.id if chance.random() < 0.5 else older.id[-8:]]
    entry_point = chance.choice(("api", "api", "cli", "mcp"))
    if entry_point == "cli" and chance.random() < 0.3:
        body["pinned"] = True
    return body, entry_point


def _edited(life: SimulatedLife, memory: Memory) -> dict[str, Any]:
    chance = life.chance
    fields: dict[str, Any] = {}
    if chance.random() < 0.6:
        fields["content"] = f"{memory.content.split()[0]} {life.words(5)}"
    if chance.random() < 0.4:
        fields["tags"] = list(chance.choice(TAGS))
    if chance.random() < 0.3:
        fields["importance"] = chance.choice((0.125, 0.5, 1.0))
    if chance.random() < 0.1 or not fields:
        fields["pinned"] = chance.random() < 0.5
    return fields


def _sees(memory: Memory, entry_point: str) -> bool:
    return entry_point not in ("mcp", "hook") or SENSITIVE not in memory.tags


def _shown(body: dict[str, Any]) -> str:
    named = " ".join(f"{name}={body[name]}" for name in ("key", "supersedes", "user_id") if body.get(name))
    return f"{body['content'].split()[0]} in {body['namespace']} {named}".strip()


def _is_in(life: SimulatedLife, memory_id: str, states: tuple[str, ...]) -> None:
    found = [memory.state if memory else None for memory in (state.memory(memory_id) for state in life.states)]
    if not any(state in states for state in found):
        raise Wrong(f"{memory_id} is {found}, not {states}")


def _shows(life: SimulatedLife, view: dict[str, Any]) -> None:
    """Check that the answer about a memory is what the store holds of it."""
    wrong: list[str] = []
    for state in life.states:
        memory = state.memory(view["id"])
        if memory is not None and not (wrong := unlike(view, memory)):
            return
    raise Wrong(f"{view['id']} is answered with other values: {wrong}")


def unlike(view: dict[str, Any], memory: Memory) -> list[str]:
    """The fields in which an answer is not what the memory is."""
    plain = ("content", "version", "state", "namespace", "user_id", "importance", "pinned", "kind", "layer", "trust")
    times = ("created_at", "modified_at", "event_at")
    wrong = [f"{name} {view[name]!r} for {getattr(memory, name)!r}" for name in (*plain, *times)
             if view[name] != getattr(memory, name)]  # fmt: skip
    wrong += [name for name in ("key", "superseded_by", "managed") if (view[name] or "") != getattr(memory, name)]
    return wrong + (["tags"] if view["tags"] != list(memory.tags) else [])

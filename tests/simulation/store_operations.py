"""Operations of a person on the whole store: compacted, forgotten, backed up, restored, moved, checked. SPEC 3.3, 3.7,
3.8."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec

from mnemo_store.disk import Disk
from mnemo_store.errors import HistoryUnavailable
from mnemo_store.maintenance import restore
from mnemo_store.record_texts import normalized_text
from tests.simulation import checks
from tests.simulation.disk import ProcessKill
from tests.simulation.ledger import Ledger, State, Wrong, differences
from tests.simulation.life import SimulatedLife
from tests.simulation.world import World
from tests.simulation.writes import USERS


def compact(life: SimulatedLife) -> str:
    """The history that `history.keep` does not ask for is given up; nothing else changes."""
    try:
        answer = life.ask("POST", "/v1/compact", {"dry_run": life.chance.random() < 0.2}, entry_point="cli")
    except ProcessKill:
        life.world.ledger.past.clear()
        life.world.ledger.doubt(_compacted)
        raise
    is_done = life.expect(answer, (200,))
    if is_done and answer.value["dry_run"]:
        return f"would give up {answer.value['versions']} versions"
    life.world.ledger.past.clear()
    if is_done:
        life.world.ledger.become(_compacted)
        return f"gave up {answer.value['versions']} versions"
    life.world.ledger.doubt(_compacted)
    return answer.code


def forget(life: SimulatedLife) -> str:
    """No answer knows it, no file holds it, and what was derived from it is gone too."""
    memory = life.pick()
    if memory is None:
        return "nothing to forget"
    before = life.state
    life.world.ledger.past.clear()
    texts = life.half_forgotten = life.half_forgotten | _texts_of(before, _with_derived(before, memory.id))
    answer = life.ask("POST", "/v1/purge", {"ids": [memory.id]}, entry_point="cli")
    if not life.expect(answer, (200,)):
        return f"{memory.id[-8:]} {answer.code}"
    life.half_forgotten = frozenset()
    gone = {*answer.value["purged"], *answer.value["derived"]}
    if there := gone & set(life.state.memories):
        raise Wrong(f"{there} were forgotten and are there")
    still = [place for place in answer.value["places"] if place["state"] == "still there"]
    if still and not _says_somebody_else(life.state, texts | _texts_of(before, gone)):
        raise Wrong(f"{memory.id} was not wholly forgotten: {still}")
    for word in _words_of_nobody_else(before, life.state, gone):
        if found := [path.name for path in _files(life.world.data) if word.encode() in path.read_bytes()]:
            raise Wrong(f"{word!r} was forgotten and stands in {found}")
    return f"{memory.id[-8:]} ({memory.state}) and {len(gone) - 1} more"


def empty_the_trash(life: SimulatedLife) -> str:
    namespace = life.chance.choice(("default", "project", "*"))
    user = life.chance.choice(USERS) or "local"
    trashed = [{memory.id for memory in state.current() if memory.state == "trashed" and memory.user_id == user
                and namespace in (memory.namespace, "*")} for state in life.states]  # fmt: skip
    answer = life.ask("DELETE", "/v1/trash", entry_point="cli", namespace=namespace, user_id=user, confirm="true")
    if not life.expect(answer, (200,)):
        return answer.code
    if answer.value["dropped"] not in {len(ids) for ids in trashed}:
        raise Wrong(f"{answer.value['dropped']} left the trash, there were {[len(ids) for ids in trashed]}")
    if life.is_settled and (there := trashed[0] & set(life.state.memories)):
        raise Wrong(f"{there} left the trash and are there")
    return f"{namespace} of {user} {answer.value['dropped']}"


def back_up(life: SimulatedLife) -> str:
    folder = life.world.folder / f"backup-{life.number}"
    answer = life.ask("POST", "/v1/backup", {"folder": str(folder)}, entry_point="cli")
    if not life.expect(answer, (200, 422) if life.is_troubled else (200,)):
        return answer.code
    if answer.value["seq"] not in {state.seq for state in life.states}:
        raise Wrong(f"the backup is said to end at change {answer.value['seq']}, not {life.state.seq}")
    if life.is_settled:
        life.backups.append((folder, life.state))
    return f"{answer.value['seq']} {'with' if answer.value['has_database'] else 'without'} database"


def restore_a_backup(life: SimulatedLife) -> str:
    """In the place of what is there. What was forgotten since comes back only where that is asked for."""
    folder, state = life.chance.choice(life.backups)
    life.world.close()
    keep = state.forgotten == life.state.forgotten
    _restored(life, folder, None, keep_forgotten=keep)
    life.world.ledger.possible = [state]
    life.world.ledger.past.clear()
    return f"change {state.seq}, {life.open_again()}"


def go_back(life: SimulatedLife) -> str:
    """The store as it was after the last change by a moment, from what is there."""
    life.world.disk.set(None)  # what a kill would leave is known to nobody
    life.world.close()  # which may write what memories were used, at a time that the clock has stepped back to
    state, past = life.state, life.world.ledger.past
    whole = set(range(state.seq + 1)) <= set(past)
    at = state.entries[life.chance.choice(sorted(state.entries))].at
    try:
        _restored(life, life.world.data, at, keep_forgotten=True)
    except HistoryUnavailable:
        if whole:
            raise
        return f"too old, {life.open_again()}"
    if whole:
        reached = max(seq for seq, entry in state.entries.items() if entry.at <= at)
        life.world.ledger.possible = [past[reached]]
        came = life.open_again()
    else:
        came = _opened_at_whatever(life)
    life.world.ledger.past.clear()
    return f"to {at}, {came}"


def move(life: SimulatedLife) -> str:
    """An export into an empty store gives the same store, and the same export."""
    world = life.world
    exported = life.ask("GET", "/v1/export", entry_point="cli")
    if not life.expect(exported, (200,)):
        return exported.code
    folder = world.folder / f"moved-{life.number}"
    folder.mkdir()
    other = World(folder, Random(life.number))
    try:
        other.clock.milliseconds = world.clock.milliseconds
        other.open()
        answer = other.ask("POST", "/v1/import", entry_point="cli", raw=exported.value)
        reported = msgspec.json.decode(answer.value.splitlines()[-1]) if answer.is_ok else answer.value
        if not answer.is_ok or (life.state.memories and not reported["whole"]):
            raise Wrong(f"an export was not taken over whole: {reported}")
        found = other.found()
        if life.is_settled and reported["whole"] and (wrong := differences(found, life.state)):
            raise Wrong(f"what was exported is imported as something else: {wrong[:5]}")
        again = other.ask("GET", "/v1/export", entry_point="cli")
        if reported["whole"] and again.value != exported.value:
            raise Wrong("the export of what was imported is another one")
    finally:
        other.throw_away()
        shutil.rmtree(folder)
    return f"{len(exported.value.splitlines())} rows"


def export(life: SimulatedLife) -> str:
    answer = life.ask("GET", "/v1/export", entry_point="cli")
    if life.expect(answer, (200,)) and len(life.exports) < 3:
        life.exports.append(answer.value)
    return f"{answer.status}"


def import_an_export(life: SimulatedLife) -> str:
    """Into a store that has much of it already: nothing is there twice, and what was changed since stays."""
    before = life.state
    answer = life.ask("POST", "/v1/import", entry_point="cli", raw=life.chance.choice(life.exports))
    if not life.expect(answer, (200,)):
        return answer.code
    reported = msgspec.json.decode(answer.value.splitlines()[-1])
    if "error" in reported:
        if not life.is_troubled:
            raise Wrong(f"an import came to {reported}")
        return str(reported["error"]["code"])
    if reported["whole"] and life.is_settled and not (before.memories or before.notes):
        life.world.ledger.past.clear()
        life.world.ledger.become(lambda _: life.world.found())  # it was taken over as it is, by no transaction
    if life.is_settled:
        new = set(life.state.memories) - set(before.memories)
        if len(new) != reported["stored"]:
            raise Wrong(f"an import says that it stored {reported['stored']}, {len(new)} are new")
        for memory_id in set(before.memories) - set(life.state.memories):
            raise Wrong(f"an import made {memory_id} vanish")
    return " ".join(
        f"{name} {reported[name]}" for name in ("stored", "duplicate", "updated", "restored", "older", "skipped")
    )


def check(life: SimulatedLife) -> str:
    """Clean, and there is nothing to repair."""
    life.catch_up()
    answer = life.ask("POST", "/v1/check")
    if life.expect(answer, (200,)) and not answer.value["ok"]:
        raise Wrong(f"check finds {answer.value['violations'][:5]}")
    repaired = life.ask("POST", "/v1/repair", {"dry_run": life.chance.random() < 0.5}, entry_point="cli")
    if life.expect(repaired, (200,)) and repaired.value["steps"]:
        raise Wrong(f"repair plans {repaired.value['steps']}")
    return f"{sum(answer.value['checked'].values())} rows {answer.value['notes']}"


def repair_after_damage(life: SimulatedLife) -> str:
    """A row of the journal is damaged while nobody looks; check finds it, and repair restores it from the database."""
    life.world.disk.set(None)  # a kill before the repair would leave two damages, of which nothing can make good both
    life.world.close()
    segments = sorted((life.world.data / "journal").glob("*.jsonl"))
    path = life.chance.choice(segments)
    lines = path.read_bytes().splitlines(keepends=True)
    if len(lines) < 3:
        return f"too little to damage, {life.open_again()}"
    place = life.chance.randrange(1, len(lines) - 1)
    lines[place] = bytes(byte ^ 1 if byte > 64 else byte for byte in lines[place])
    path.write_bytes(b"".join(lines))
    came = life.open_again()
    life.catch_up()
    found = life.ask("POST", "/v1/check")
    life.expect(found, (200,))
    is_there = path.exists() and lines[place] in path.read_bytes()  # else the journal was rewritten meanwhile
    if found.value["ok"] and is_there:
        raise Wrong(f"{path.name} was damaged, and check finds nothing")
    repaired = life.ask("POST", "/v1/repair", {}, entry_point="cli")
    life.world.ledger.past.clear()
    if life.expect(repaired, (200,)) and not repaired.value["check"]["ok"]:
        raise Wrong(f"after a repair check finds {repaired.value['check']['violations'][:5]}")
    checks.everything(life)
    return f"{path.name.split('.')[0]} {came}, {[step['how_many'] for step in repaired.value['steps']]}"


def _compacted(state: State) -> State:
    return state.compacted(int(state.metas.get("history_from", "1").split()[0]))


def _restored(life: SimulatedLife, folder: Path, at: int | None, *, keep_forgotten: bool) -> None:
    done = restore.restore(folder, life.world.data, Disk(), life.world.clock.now, at=at, keep_forgotten=keep_forgotten)
    if done.kept_as is not None:
        shutil.rmtree(done.kept_as)


def _opened_at_whatever(life: SimulatedLife) -> str:
    """With a history of which the simulation does not know all, what stands there now is what counts."""
    life.world.ledger = Ledger()
    life.world.open()
    life.world.ledger.possible = [life.world.found()]
    return f"open at {life.state.seq}, whatever that is"


def _with_derived(state: State, memory_id: str) -> set[str]:
    """It, and whatever was made of it."""
    found: set[str] = set()
    more = {memory_id}
    while more:
        found |= more
        more = {memory.id for memory in state.current() if found & set(memory.derived_from)} - found
    return found


def _texts_of(state: State, ids: set[str]) -> frozenset[str]:
    """Of all their versions."""
    versions = (version for memory_id in ids for _, version in state.memories.get(memory_id, ()))
    return frozenset(normalized_text(version.content) for version in versions)


def _says_somebody_else(now: State, texts: frozenset[str]) -> bool:
    """True if what stays has one of the texts too."""
    return any(
        normalized_text(version.content) in texts for versions in now.memories.values() for _, version in versions
    )


def _words_of_nobody_else(before: State, now: State, gone: set[str]) -> set[str]:
    """Words that only what is gone had, in any of its versions."""
    mine = {version.content.split()[0] for memory_id in gone if memory_id in before.memories
            for _, version in before.memories[memory_id]}  # fmt: skip
    others = {word.casefold() for versions in now.memories.values() for _, version in versions
              for word in version.content.split()}  # fmt: skip
    return {word for word in mine if word.casefold() not in others}


def _files(data: Path) -> Iterator[Path]:
    return (path for path in sorted(data.rglob("*")) if path.is_file() and "backups" not in path.parts)

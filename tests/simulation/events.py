"""Events of a daemon's life: restarts, kills, failing disks, lost files, notes, models, a clock that steps."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING
from mnemo_store.record_texts import skip_hash
from tests.simulation import checks
from tests.simulation.disk import FOR_GOOD, KINDS, Fault, How, Kind
from tests.simulation.embedders import OTHER
from tests.simulation.ledger import State, Wrong
from tests.simulation.life import SimulatedLife
from tests.simulation.notes_folder import Section

DAY_SECONDS = 86_400.0
CALLS_MAX = 12  # of the disk, behind which a fault waits
CATCH_UP_LOOKS = 5
PAGE_BYTES = 4096
DAMAGES = ("removed", "empty", "half", "a page short", "text", "meta zeroed", "a page's head flipped")
NOTE_WORDS_MAX = 80  # below one heading: so many are one chunk


# The clock


def clock_steps_back(life: SimulatedLife) -> str:
    hours = life.chance.choice((0.001, 1, 30))
    life.world.clock.milliseconds -= round(hours * 3_600_000)
    return f"{hours} h"


def time_goes_by(life: SimulatedLife) -> str:
    days = life.chance.choice((0.05, 1, 40))
    life.world.clock.go_on(days * DAY_SECONDS)
    return f"{days} d"


# Ends and beginnings


def restart(life: SimulatedLife) -> str:
    if life.world.is_open:
        life.world.close()
    return life.open_again()


def kill(life: SimulatedLife) -> str:
    life.world.kill()
    return life.open_again()


def kill_in_the_middle(life: SimulatedLife) -> str:
    """The next operation is the last that this process does, if it asks enough of its disk."""
    how: How = life.chance.choice(("not done", "done all the same", "half done"))
    life.killing = Fault(life.chance.randint(1, CALLS_MAX), how=how, kills=True)
    return life.killing.said()


def kill_at_start(life: SimulatedLife) -> str:
    """A start that does not get to its end, and one more."""
    life.world.kill()
    how: How = life.chance.choice(("not done", "done all the same", "half done"))
    life.killing = Fault(life.chance.randint(1, 2 * CALLS_MAX), how=how, kills=True)
    life.world.disk.set(life.killing)
    came = life.open_again()
    life.world.disk.set(None)
    return f"{life.killing.said() if life.killing else ''} {came}"


def lose_the_database(life: SimulatedLife) -> str:
    """Removed, cut off, overwritten or flipped while nobody looks; the journal has it all."""
    life.world.close()
    data = life.world.data / "db" / "data.mdb"
    how = life.chance.choice(
        ("removed", "empty", "half", "a page short", "text", "meta zeroed", "a page's head flipped")
    )
    _damage(data, how, life)
    return f"{how}, {life.open_again()}"


def lose_the_journal(life: SimulatedLife) -> str:
    """All of it, while nobody looks; the database has it."""
    life.world.close()
    shutil.rmtree(life.world.data / "journal")
    life.world.ledger.past.clear()
    came = life.open_again()
    return f"{came} {life.world.store.recovered if life.world.is_open else ''}"


def lose_the_views(life: SimulatedLife) -> str:
    life.world.close()
    views = sorted((life.world.data / "views").iterdir())
    if life.chance.random() < 0.5 or not views:
        shutil.rmtree(life.world.data / "views")
        which = "all"
    else:
        path = life.chance.choice(views)
        data = bytearray(path.read_bytes())
        if data:
            data[life.chance.randrange(len(data))] ^= 0xFF
        path.write_bytes(bytes(data))
        which = path.name.split("-")[0]
    return f"{which}, {life.open_again()}"


def lose_the_manifest(life: SimulatedLife) -> str:
    life.world.close()
    path = life.world.data / "store.json"
    if life.chance.random() < 0.5:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:20])
    return life.open_again()


# The disk


def disk_fails(life: SimulatedLife) -> str:
    """Once or twice, at some call."""
    return _fault(life, life.chance.choice((1, 1, 2)))


def disk_keeps_failing(life: SimulatedLife) -> str:
    """From some call on, for a while: nothing that is begun can be taken back."""
    return _fault(life, life.chance.choice((3, 5, FOR_GOOD)))


def _fault(life: SimulatedLife, row: int) -> str:
    chance = life.chance
    only: tuple[Kind, ...] = (chance.choice(KINDS),) if chance.random() < 0.4 else ()
    how: How = chance.choice(("not done", "not done", "done all the same", "half done"))
    fault = Fault(chance.randint(1, CALLS_MAX), row, chance.choice((errno.EIO, errno.ENOSPC, errno.EROFS)), how, only)
    life.trouble(chance.randint(1, 8))
    life.world.disk.set(fault)
    return fault.said()


def disk_fills_up(life: SimulatedLife) -> str:
    """Until space returns."""
    room = life.chance.choice((0, 100, 3_000, 40_000))
    life.trouble(life.chance.randint(2, 10))
    life.world.disk.room = room
    return f"{room} bytes are left"


def database_cannot_be_read(life: SimulatedLife) -> str:
    life.trouble(life.chance.randint(1, 4))
    life.world.disk.reading = "mdb_get: MDB_CORRUPTED: Located page was wrong type"
    return "for a while"


# Models


def model_arrives(life: SimulatedLife) -> str:
    life.world.install()
    return "installed"


def model_raises(life: SimulatedLife) -> str:
    life.world.faults.raises = life.chance.randint(1, 4)
    return f"{life.world.faults.raises} times"


def model_gives_nan(life: SimulatedLife) -> str:
    life.world.faults.gives_nan = life.chance.randint(1, 4)
    return f"{life.world.faults.gives_nan} times"


def model_is_slow(life: SimulatedLife) -> str:
    life.world.faults.is_slow = True
    return "nothing gets embedded"


def model_is_well(life: SimulatedLife) -> str:
    life.world.faults.heal()
    return "again"


def model_is_switched(life: SimulatedLife) -> str:
    name = life.chance.choice((DEFAULT_EMBEDDING, OTHER))
    life.world.catalogue.there.add(name)
    answer = life.ask("POST", "/v1/models/use", {"name": name})
    if life.expect(answer, (200,)):
        life.world.refresh_model()
    return f"{name} {answer.status}"


def reindex(life: SimulatedLife) -> str:
    body = {"force": life.chance.random() < 0.5, "batch_size": life.chance.choice((1, 3, 64))}
    answer = life.ask("POST", "/v1/models/reindex", body)
    life.expect(answer, (200,))
    return f"{body} {answer.status}"


# Notes


def watch_notes(life: SimulatedLife) -> str:
    known = any(root.path == str(life.world.notes_folder.folder) for root in life.state.roots.values())
    answer = life.ask("POST", "/v1/notes/roots", {"path": str(life.world.notes_folder.folder)})
    life.expect(answer, (409,) if known and life.is_settled else (200, 409))
    return f"{answer.status}"


def watch_no_more(life: SimulatedLife) -> str:
    known = any(root.path == str(life.world.notes_folder.folder) for root in life.state.roots.values())
    answer = life.ask("DELETE", "/v1/notes/roots", path=str(life.world.notes_folder.folder))
    life.expect(answer, (200 if known else 404,) if life.is_settled else (200, 404))
    return f"{answer.status}"


def save_note(life: SimulatedLife) -> str:
    """A new file, or one with a section added, changed or taken away."""
    notes_folder, chance = life.world.notes_folder, life.chance
    path = chance.choice(("a.md", "b.md", "deep/c.md"))
    sections: list[Section] = list(notes_folder.files.get(path, []))
    what = chance.choice(("adds", "adds", "changes", "takes away")) if sections else "adds"
    if what == "adds":
        sections.insert(chance.randint(0, len(sections)), (f"On {life.token()}", life.text(longest=NOTE_WORDS_MAX)))
    elif what == "changes":
        place = chance.randrange(len(sections))
        heading, text = sections[place]
        sections[place] = (heading, f"{text} {life.words(1)}")
    else:
        del sections[chance.randrange(len(sections))]
    if not sections:
        notes_folder.delete(path)
        return f"{path} is deleted"
    how = notes_folder.save(path, sections)
    return f"{path} {what} {how}"


def rename_note(life: SimulatedLife) -> str:
    notes_folder = life.world.notes_folder
    path = life.chance.choice(sorted(notes_folder.files))
    to = life.chance.choice(("renamed.md", "deep/d.md", "a.md"))
    if to in notes_folder.files:
        return "taken"
    notes_folder.rename(path, to)
    return f"{path} to {to}"


def delete_note(life: SimulatedLife) -> str:
    path = life.chance.choice(sorted(life.world.notes_folder.files))
    life.world.notes_folder.delete(path)
    return path


def notes_disk_is_unplugged(life: SimulatedLife) -> str:
    life.world.notes_folder.unplug()
    return "gone"


def notes_disk_is_back(life: SimulatedLife) -> str:
    life.world.notes_folder.plug_in()
    return "back"


def watches_run_out(life: SimulatedLife) -> str:
    notes_folder = life.world.notes_folder
    notes_folder.can_be_watched = not notes_folder.can_be_watched
    return "again" if notes_folder.can_be_watched else "out"


def scan(life: SimulatedLife) -> str:
    """The folder is compared, and what is remembered of it is what stands in it."""
    world = life.world
    assert world.daemon is not None
    before = life.state
    world.daemon.notes.rescan()
    for _ in range(CATCH_UP_LOOKS):
        world.step(2.0)
    failures, world.notes_failures[:] = list(world.notes_failures), []
    if not life.is_settled:
        return "in trouble"
    if failures:
        raise Wrong(f"the notes failed: {failures}")
    root = next((root for root in life.state.roots.values() if root.path == str(world.notes_folder.folder)), None)
    if root is None:
        return "nothing is watched"
    if not world.notes_folder.is_there:
        return "it is not there"
    if not world.notes_folder.files and any(
        not note.missing for note in life.state.notes.values() if note.root == root.id
    ):
        return "an empty folder in the place of a full one"
    return _holds_the_folder(life, before, root.id)


def _holds_the_folder(life: SimulatedLife, before: State, root: str) -> str:
    world, state = life.world, life.state
    with world.store.snapshot() as snapshot:
        salt = snapshot.meta("salt")
    notes = {note.path: note for note in state.notes.values() if not note.missing and note.root == root}
    if set(notes) != set(world.notes_folder.files):
        raise Wrong(f"the folder has {sorted(world.notes_folder.files)}, remembered are {sorted(notes)}")
    for path, note in notes.items():
        memories = [(ref, state.memory(ref.memory)) for ref in note.chunks]
        texts = [memory.content for _, memory in memories if memory is not None and memory.state != "trashed"]
        left_out = {digest for file, digest in state.skips if file == note.id} | state.forgotten.keys()
        expected = [text for text in world.notes_folder.texts(path) if skip_hash(salt, text) not in left_out]
        if texts != expected:
            raise Wrong(f"{path} says {expected}, remembered is {texts}")
        _unchanged_texts_keep_their_ids(before, state, note.id)
    listed = {ref.memory for note in notes.values() for ref in note.chunks}
    loose = [memory.id for memory in state.current()
             if memory.managed and memory.state != "trashed" and memory.id not in listed]  # fmt: skip
    if loose:
        raise Wrong(f"chunks of no note are there: {loose}")
    return f"{len(notes)} notes, {len(listed)} chunks"


def _unchanged_texts_keep_their_ids(before: State, state: State, file: str) -> None:
    then, now = before.notes.get(file), state.notes[file]
    if then is None:
        return
    ids = {ref.hash: ref.memory for ref in then.chunks}
    for ref in now.chunks:
        if ref.hash in ids and ids[ref.hash] != ref.memory and state.memory(ids[ref.hash]) is not None:
            raise Wrong(f"{now.path}: a text that nobody changed became another memory")


# Now and then


def inspect(life: SimulatedLife) -> str:
    """All is compared."""
    if not life.is_settled:
        return "in trouble"
    if life.world.faults.is_well():
        life.catch_up()
    checks.everything(life)
    return f"change {life.state.seq}"


def _damage(data: Path, how: str, life: SimulatedLife) -> None:
    content = data.read_bytes()
    changes: dict[str, Callable[[], bytes | None]] = {
        "removed": lambda: None,
        "empty": lambda: b"",
        "half": lambda: content[: len(content) // 2],
        "a page short": lambda: content[:-PAGE_BYTES],
        "text": lambda: b"this is no database\n" * 500,
        "meta zeroed": lambda: bytes(2 * PAGE_BYTES) + content[2 * PAGE_BYTES :],
    }
    if how == "a page's head flipped":  # within a page LMDB has nothing to tell a right value from a wrong one by
        at = PAGE_BYTES * life.chance.randrange(len(content) // PAGE_BYTES)
        changes[how] = lambda: content[:at] + bytes(255 - each for each in content[at : at + 16]) + content[at + 16 :]
    new = changes[how]()
    data.unlink()
    if new is not None:
        data.write_bytes(new)

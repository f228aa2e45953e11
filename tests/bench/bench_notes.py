"""Folders of notes through the whole daemon: a made vault, and any folder of real text.

    python -m tests.bench.bench_notes [--files 10000] [--folder FOLDER] [--no-vectors]

Prints the time to the first answer, to all by words, and to all by vectors; chunks a second; then, in the made vault,
how long after the last save an edit, a rename, a copy, a deletion and a burst of 2,000 changes are found, and whether
the chunks that did not change kept their ids.
"""

import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mnemo_client.client import Client
from tests.bench import harness
from tests.bench.texts import texts
from tests.support.running_daemon import RunningDaemon

FOLDERS = 50
BURST = 2000
FOUND_SECONDS_MAX = 60.0
KINDS = (".md", ".markdown", ".txt", ".rst", ".org")


def make_notes_folder(folder: Path, files: int) -> None:
    """Notes of three sections, one link each."""
    chance = random.Random(5)
    made = texts(3 * files)
    for number in range(files):
        place = folder / f"folder-{number % FOLDERS:02}"
        place.mkdir(parents=True, exist_ok=True)
        first, second, third = next(made), next(made), next(made)
        (place / f"note-{number:05}.md").write_text(
            f"# Note {number}\n\n{first}\n\n## What happened\n\n{second} {second} See "
            f"[[note-{chance.randrange(files):05}]].\n\n## What follows\n\n{third} {third}\n"
        )


def until(found: Callable[[], bool]) -> float:
    """Seconds until it is so."""
    began = time.perf_counter()
    while not found():
        if time.perf_counter() - began > FOUND_SECONDS_MAX:
            raise AssertionError(f"not found within {FOUND_SECONDS_MAX} s")
        time.sleep(0.005)
    return time.perf_counter() - began


def read_all(client: Client, files: int) -> None:
    """Returns once every file has been read."""
    while True:
        (root,) = client.notes_status().roots
        if root.state in ("watching", "polling") and not root.waiting and root.files + root_skipped(client) >= files:
            return
        time.sleep(0.02)


def root_skipped(client: Client) -> int:
    return client.notes_status().skipped_total


def take_in(daemon: RunningDaemon, notes_folder: Path, question: str, *, vectors: bool) -> None:
    files = sum(1 for path in notes_folder.rglob("*") if path.suffix in KINDS and path.is_file())
    began = time.perf_counter()
    daemon.start()
    with daemon.client() as client:
        client.add_root(notes_folder)
        until(lambda: bool(client.search(question).memories))
        first = time.perf_counter() - began
        read_all(client, files)
        words = time.perf_counter() - began
        chunks = client.status().memories
        print(f"  {files} files, {chunks} chunks: first answer {first:.2f} s after exec, all by words {words:.1f} s "
              f"({chunks / words:.0f} chunks/s)")  # fmt: skip
        if vectors:
            daemon.wait_for_vectors(3600)
            all_vectors = time.perf_counter() - began
            print(f"  all by vectors {all_vectors:.1f} s ({chunks / all_vectors:.0f} chunks/s)")


def path_of(client: Client, memory_id: str) -> str:
    note = client.get(memory_id).note
    return note.path if note is not None else ""


def ids_of(client: Client, word: str) -> list[str]:
    return [memory.id for memory in client.search(word, limit=10).memories if word in memory.content]


def changes(daemon: RunningDaemon, notes_folder: Path) -> None:
    with daemon.client() as client:
        note = notes_folder / "folder-07" / "note-00007.md"
        before = {memory.content: memory.id for memory in client.search("Note 7", limit=100).memories
                  if memory.note and memory.note.path == str(note)}  # fmt: skip
        note.write_text(note.read_text() + "\n## Added\n\nThe quokkafold was seen at the harbour.\n")
        print(f"  edit found after {until(lambda: bool(ids_of(client, 'quokkafold'))):.2f} s")
        kept = {memory.content: memory.id for memory in client.search("Note 7", limit=100).memories
                if memory.note and memory.note.path == str(note)}  # fmt: skip
        same = sum(kept.get(content) == memory_id for content, memory_id in before.items())
        print(f"  of its {len(before)} chunks found before, {same} have the same id")
        (added,) = ids_of(client, "quokkafold")
        moved = note.with_name("renamed.md")
        note.rename(moved)
        seconds = until(lambda: path_of(client, added) == str(moved))
        print(f"  rename found after {seconds:.2f} s, same id")
        copy = notes_folder / "folder-08" / "copy.md"
        known = client.status().memories
        shutil.copyfile(moved, copy)  # equal contents are answered once, so it is counted, not asked for
        seconds = until(lambda: client.status().memories > known)
        print(f"  copy found after {seconds:.2f} s, with ids of its own")
        copy.unlink()
        print(f"  deletion found after {until(lambda: client.status().memories == known):.2f} s")
        burst(client, notes_folder)


def burst(client: Client, notes_folder: Path) -> None:
    """2,000 files: a third edited, a third renamed, a third deleted."""
    notes = sorted(notes_folder.rglob("note-*.md"))[:BURST]
    third = len(notes) // 3
    began = time.perf_counter()
    for number, note in enumerate(notes[:third]):
        note.write_text(f"{note.read_text()}\nBurst wombatfold number {number}.\n")
    for note in notes[third : 2 * third]:
        note.rename(note.with_suffix(".moved.md"))
    for note in notes[2 * third :]:
        note.unlink()
    written = time.perf_counter() - began
    files = sum(1 for _ in notes_folder.rglob("*.md"))

    def is_settled() -> bool:
        (root,) = client.notes_status().roots
        found = client.search("wombatfold", limit=100).total
        return not root.waiting and root.files == files and found >= min(third, 100)

    seconds = until(is_settled)
    print(
        f"  burst of {len(notes)} changes ({written:.1f} s of writing): all found {seconds:.2f} s after the last save"
    )


def main(
    *, files: int = 10_000, folder: Path | None = None, question: str = "how do I read a file",
    no_vectors: bool = False,
) -> None:  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        if folder:
            print(f"{folder.name}:")
            real = Path(scratch) / "real"
            shutil.copytree(folder, real)
            daemon = RunningDaemon(Path(scratch) / "real-data")
            take_in(daemon, real, question, vectors=not no_vectors)
            daemon.stop()
        if files:
            print(f"a made vault of {files} files:")
            notes_folder = Path(scratch) / "vault"
            make_notes_folder(notes_folder, files)
            daemon = RunningDaemon(Path(scratch) / "data")
            take_in(daemon, notes_folder, "boiler", vectors=False)
            changes(daemon, notes_folder)
            if not no_vectors:
                began = time.perf_counter()
                daemon.wait_for_vectors(3600)
                print(f"  vectors {time.perf_counter() - began:.0f} s later")
            daemon.stop()


if __name__ == "__main__":
    harness.run(main)

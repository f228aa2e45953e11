"""A folder of notes that people and their editors write to, and a watch that tells of it, or fails to."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from mnemo_daemon.notes.folder_watch import CannotWatch

Section = tuple[str, str]  # a heading and the text below it
Tell = Callable[[list[str]], None]


class SimulatedWatch:
    """The notes service's watch of a folder."""

    def __init__(
        self, notes_folder: "SimulatedNotesFolder", root: Path, on_paths: Tell, on_lost: Callable[[], None]
    ) -> None:
        if not notes_folder.can_be_watched:
            raise CannotWatch("the system has no file watches left")
        self._notes_folder = notes_folder
        self.on_paths, self.on_lost = on_paths, on_lost
        self._is_alive = True
        notes_folder.watches.append(self)

    def is_alive(self) -> bool:
        return self._is_alive

    def die(self) -> None:
        self._is_alive = False

    def stop(self) -> None:
        if self in self._notes_folder.watches:
            self._notes_folder.watches.remove(self)

    def check(self) -> None:
        if not self._notes_folder.can_be_watched:
            raise CannotWatch("the system has no file watches left")


class SimulatedNotesFolder:
    """The folder, what each file in it says, and who watches it."""

    def __init__(self, folder: Path, chance: Random, milliseconds: Callable[[], int]) -> None:
        self.folder = folder
        self.files: dict[str, list[Section]] = {}
        self.watches: list[SimulatedWatch] = []
        self.can_be_watched = True
        self._away = folder.with_name(folder.name + ".unplugged")
        self._chance = chance
        self._milliseconds = milliseconds
        self._ticks = 0  # so that no two saves have one time
        folder.mkdir()

    @property
    def is_there(self) -> bool:
        return self.folder.exists()

    def watch(self, root: Path, on_paths: Tell, on_lost: Callable[[], None]) -> SimulatedWatch:
        return SimulatedWatch(self, root, on_paths, on_lost)

    def texts(self, path: str) -> list[str]:
        return [text for _, text in self.files[path]]

    def save(self, path: str, sections: list[Section]) -> str:
        """As one of the editors does it; how."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        text = f"# {Path(path).stem}\n" + "".join(f"\n## {heading}\n\n{body}\n" for heading, body in sections)
        how = self._chance.choice(("in place", "by a rename", "with a backup"))
        events = [path]
        if how == "in place":
            target.write_text(text)
        elif how == "by a rename":
            neighbour = target.with_name(f".{target.name}.tmp")
            neighbour.write_text(text)
            neighbour.rename(target)
        else:
            if target.exists():
                target.rename(target.with_name(target.name + "~"))
            target.write_text(text)
            target.with_name(target.name + "~").unlink(missing_ok=True)
        self._stamp(target)
        self.files[path] = sections
        self._tell(events)
        return how

    def rename(self, path: str, to: str) -> None:
        (self.folder / to).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).rename(self.folder / to)
        self.files[to] = self.files.pop(path)
        self._tell([path, to])

    def delete(self, path: str) -> None:
        (self.folder / path).unlink()
        del self.files[path]
        self._tell([path])

    def unplug(self) -> None:
        self.folder.rename(self._away)
        for watch in list(self.watches):
            watch.die()

    def plug_in(self) -> None:
        if self._away.exists():
            self._away.rename(self.folder)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _stamp(self, target: Path) -> None:
        self._ticks += 1
        at = self._milliseconds() * 1_000_000 + self._ticks
        os.utime(target, ns=(at, at))

    def _tell(self, paths: list[str]) -> None:
        """Some events are lost, of those some without a word."""
        for watch in list(self.watches):
            luck = self._chance.random()
            if luck < 0.85:
                watch.on_paths(paths)
            elif luck < 0.95:
                watch.on_lost()

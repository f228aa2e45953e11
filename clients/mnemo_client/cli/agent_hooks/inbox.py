"""The inbox of hooks: exchanges that the daemon has not stored yet, in private files below the run folder.

A hook writes an exchange here before it does anything else, so that no text is lost if the daemon is down or hangs; a
background process delivers it (delivery.py). `pending-*.json` is the prompt of a session without its reply;
`entry-*.json` is an exchange, the call of a tool or the end of a session that waits for delivery, named in the order of
events;
`*.refused` is an entry that the daemon refused. A file is not synced to the disk: that would take longer than a hook
may run, and the agent keeps a transcript of its own.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mnemo_client.errors import MnemoError
from mnemo_client.path_safety import replace_file
from mnemo_client.process import make_private_folder

FOLDER_NAME = "hooks"  # below the run folder
ENTRIES_MAX = 1000
STEP_SHARE = 0.5  # of both limits, beyond which no call of a tool is added: the rest is for prompts and replies
BYTES_MAX = 32 * 1024 * 1024
REFUSED_MAX = 20
FINAL_REFUSALS = frozenset({400, 404, 413, 422})  # of an entry: would be the same at the next attempt
SESSION_BYTES_MAX = 100  # of a session's name that name its file
PENDING_SECONDS_MAX = 24 * 3600.0  # after which a prompt without a reply is stored alone

JsonObject = dict[str, Any]


class InboxFullError(MnemoError):
    """The inbox has no room for another entry."""


class HookInbox:
    """The inbox in `folder`, which is below the run folder and created when the first file is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make_folder(self) -> None:
        """Create the folder, and the data and run folders around it, for their owner only."""
        for folder in (self.folder.parent.parent, self.folder.parent, self.folder):
            make_private_folder(folder)

    def keep_prompt(self, session: str, entry: JsonObject) -> None:
        """Keep the prompt of a session until its reply; an earlier one without a reply becomes an entry."""
        self.file_pending(session)
        self._write(self._pending_path(session), entry)

    def take_prompt(self, session: str) -> JsonObject | None:
        """Remove and return the prompt that a session has pending."""
        return self._take(self._pending_path(session))

    def file_pending(self, session: str | None = None) -> None:
        """Make entries of pending prompts: that of a session, or without one those that are older than a day."""
        paths = [self._pending_path(session)] if session is not None else self.unanswered()
        for path in paths:
            if (entry := self._take(path)) is not None:
                self.add(entry)

    def unanswered(self) -> list[Path]:
        """Return the prompts whose reply has not come within a day."""
        oldest = time.time() - PENDING_SECONDS_MAX
        found = [*self._paths("pending-"), *self._paths("pending-", ".taken")]
        return [path for path in found if _modified_at(path) < oldest]

    def add(self, entry: JsonObject, share: float = 1.0) -> None:
        """Add an entry, while less than this share of the limits is used. Raises InboxFullError."""
        waiting = self.entries()
        if len(waiting) >= share * ENTRIES_MAX or sum(_size(path) for path in waiting) > share * BYTES_MAX:
            raise InboxFullError(
                f"this exchange is not stored: {len(waiting)} others wait in {self.folder}",
                "see why the daemon does not take them: mnemo doctor",
            )
        self._write(self.folder / f"entry-{time.time_ns():020d}-{os.getpid()}.json", entry)

    def entries(self) -> list[Path]:
        """Return the files of the entries, the oldest first."""
        return self._paths("entry-")

    def read(self, path: Path) -> JsonObject | None:
        """Return an entry; None if it is gone or cannot be read."""
        try:
            entry = json.loads(path.read_bytes())
        except (OSError, ValueError):
            return None
        return entry if isinstance(entry, dict) else None

    def refuse(self, path: Path) -> None:
        """Rename an entry that can never be delivered; the last REFUSED_MAX of these stay for a person to read."""
        path.replace(path.with_suffix(".refused"))
        for old in self.refused()[:-REFUSED_MAX]:
            old.unlink(missing_ok=True)

    def refused(self) -> list[Path]:
        return self._paths("entry-", ".refused")

    def seconds_waiting(self) -> float:
        """Return the age of the oldest entry; 0 if there is none."""
        waiting = self.entries()
        return max(0.0, time.time() - _modified_at(waiting[0])) if waiting else 0.0

    def _paths(self, beginning: str, ending: str = ".json") -> list[Path]:
        try:
            found = sorted(self.folder.iterdir())
        except OSError:
            return []
        return [path for path in found if path.name.startswith(beginning) and path.suffix == ending]

    def _pending_path(self, session: str) -> Path:
        return self.folder / f"pending-{session.encode()[:SESSION_BYTES_MAX].hex()}.json"

    def _take(self, path: Path) -> JsonObject | None:
        taken = path.with_name(f"{path.stem}-{os.getpid()}.taken")
        try:
            path.rename(taken)  # of two hooks at once, one has it
        except OSError:
            return None
        entry = self.read(taken)
        taken.unlink(missing_ok=True)
        return entry

    def _write(self, path: Path, entry: JsonObject) -> None:
        self.make_folder()
        replace_file(path, json.dumps(entry, ensure_ascii=False).encode())


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def entries_of(inbox: HookInbox) -> Iterator[tuple[Path, JsonObject]]:
    """Yield the entries that can be read, the oldest first; refuse those that cannot."""
    for path in inbox.entries():
        entry = inbox.read(path)
        if entry is not None:
            yield path, entry
        elif path.exists():
            inbox.refuse(path)

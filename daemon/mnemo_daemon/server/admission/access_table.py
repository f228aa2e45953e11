"""The access table: the rights of each peer of a socket, and the trust of what it writes. SPEC 2.1, 13

The default is strict: the owner of the daemon has every right, nobody else has any. An entry of `access.allow` gives a
right to another user, or limits a program of the owner. The first entry that fits a peer counts. A user id is a
boundary, since the kernel vouches for it; a program is none, since processes of one user can act as each other.
"""

import os
import pwd
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from mnemo_client.protocol.operations import RIGHTS, Right
from mnemo_daemon.server.sockets import Peer
from mnemo_store.records import Trust

UID_MAX = 2**32 - 2
ENTRIES_KEY = "access.allow"
ENTRIES_EXPECTED = (
    'a list such as [{ user = "ben", right = "read" }], with a right read, write or admin, and perhaps a `program` (a '
    "path) and a `trust`"
)


class AccessError(ValueError):
    """An entry that cannot be right; the message begins with its place in the list."""


class AccessEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user, or one program of a user, with the most that it may do and the trust of what it writes."""

    user: Annotated[int, Meta(ge=0, le=UID_MAX)] | Annotated[str, Meta(min_length=1)]
    right: Right
    program: str = ""  # the path of an executable; empty: every program of the user
    trust: Trust = "agent"


class Grant(NamedTuple):
    """The rights of a connection, with the setting that decides them."""

    right: Right
    trust: Trust
    key: str = ENTRIES_KEY
    name: str = ""  # of the user, program or listener, for messages and the history; empty: the owner
    is_foreign: bool = False  # another user's

    @property
    def is_owner(self) -> bool:
        return not self.name

    def allows(self, needed: Right) -> bool:
        return RIGHTS.index(needed) <= RIGHTS.index(self.right)


OWNER_GRANT = Grant("admin", "user")


class AccessTable:
    """The entries, with users as ids and programs as real paths. Raises AccessError."""

    def __init__(
        self, entries: Sequence[AccessEntry] = (), owner: int | None = None,
        uid_of: Callable[[str], int] = lambda name: pwd.getpwnam(name).pw_uid,
    ) -> None:  # fmt: skip
        self.owner = os.geteuid() if owner is None else owner
        self._rows = [self._row(number, entry, uid_of) for number, entry in enumerate(entries)]

    def grant_of(self, peer: Peer) -> Grant | None:
        """Return the rights of a peer; None where it has none."""
        for uid, program, grant in self._rows:
            if uid == peer.uid and program in ("", peer.program):
                return grant
        return OWNER_GRANT if peer.uid == self.owner else None

    def names_programs_of(self, uid: int) -> bool:
        """Return whether the rights of this user depend on the program."""
        return any(uid == each and program for each, program, _ in self._rows)

    def _row(self, number: int, entry: AccessEntry, uid_of: Callable[[str], int]) -> tuple[int, str, Grant]:
        at = f"{ENTRIES_KEY}[{number}]"
        try:
            uid = uid_of(entry.user) if isinstance(entry.user, str) else entry.user
        except KeyError:
            raise AccessError(f"{at}.user: this machine has no user `{entry.user}`") from None
        is_owner = uid == self.owner
        if is_owner and not entry.program:
            raise AccessError(f"{at}.user: the owner of the daemon has every right; name a `program` to limit it")
        if not is_owner and entry.trust == "user":
            raise AccessError(f"{at}.trust: only the owner of the daemon has trust `user`; use `agent` or less")
        program = self._program(at, entry.program, is_owner) if entry.program else ""
        name = Path(program).name if is_owner else f"user-{uid}"
        return uid, program, Grant(entry.right, entry.trust, name=name, is_foreign=not is_owner)

    def _program(self, at: str, program: str, is_owner: bool) -> str:
        if sys.platform != "linux":
            raise AccessError(f"{at}.program: on this system the program of a peer is not known; leave it out")
        if not is_owner and self.owner != 0:
            raise AccessError(f"{at}.program: the system shows you the programs of your own user alone; leave it out")
        if not Path(program).is_absolute() or not Path(program).is_file():
            raise AccessError(f"{at}.program: {program} is not the absolute path of an executable file")
        return os.path.realpath(program)

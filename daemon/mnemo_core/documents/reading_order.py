"""The order in which the files of a new folder are read, and so found by words and by meaning. SPEC 6

What a person wrote and touched last comes first, and what programs wrote comes last: a checkout, an export or an
unpacked archive is recognised by the name of a folder, or by how many files were written one right after the other.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Protocol, TypeVar

SMALL_BYTES = 64 << 10  # files up to this size come before larger ones
# Folders whose files programs write or others wrote. A vault of one's own that has one of these is read all the same.
MACHINE_FOLDERS = frozenset({
    "_build", "bower_components", "build", "dist", "dist-packages", "doxygen", "export", "exports", "generated",
    "javadoc", "licenses", "node_modules", "site-packages", "target", "third-party", "third_party", "vendor",
})  # fmt: skip
BULK_FILES = 50  # written without a pause of BULK_PAUSE_NS: no person saves so many
BULK_PAUSE_NS = 1_000_000_000


class _SeenFile(Protocol):
    @property
    def path(self) -> str: ...  # relative to the folder, with forward slashes
    @property
    def mtime_ns(self) -> int: ...
    @property
    def size(self) -> int: ...


S = TypeVar("S", bound=_SeenFile)


def machine_made(files: Sequence[S]) -> frozenset[str]:
    """The paths of the files that a program seems to have written."""
    made = {seen.path for seen in files if MACHINE_FOLDERS.intersection(seen.path.lower().split("/")[:-1])}
    run: list[S] = []
    for seen in [*sorted(files, key=attrgetter("mtime_ns")), None]:
        if run and (seen is None or seen.mtime_ns - run[-1].mtime_ns > BULK_PAUSE_NS):
            made.update(each.path for each in run if len(run) >= BULK_FILES)
            run = []
        if seen is not None:
            run.append(seen)
    return frozenset(made)


def reading_order(files: Sequence[S], made: frozenset[str]) -> list[S]:
    """The files, those that are `made` by programs last, small ones before huge ones, the newest first."""
    return sorted(files, key=lambda seen: (seen.path in made, max(seen.size, SMALL_BYTES), -seen.mtime_ns))

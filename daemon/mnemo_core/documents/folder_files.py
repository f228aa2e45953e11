"""The files of a notes folder: which are left out, and the order in which the others are read. SPEC 6

Paths are excluded by the commonly used subset of gitignore(5): comments, `!` to negate, a trailing `/` for folders
only, a `/` elsewhere to anchor a pattern to its folder, `*`, `?`, `[…]`, `**`, backslash escapes. The last matching
pattern decides; everything in an excluded folder is excluded too.

Of a new folder, what a person wrote and touched last comes first, and is so found first by words and by meaning. What
programs wrote comes last: a checkout, an export or an unpacked archive is recognised by the name of a folder, or by how
many files were written one right after the other.
"""

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol, TypeVar

IGNORE_FILE = ".mnemoignore"
PATTERNS_MAX = 1000  # of one file
STARS_MAX = 8  # of one pattern: the time to match grows with a power of their number

# Folders and files that hold no notes. A `.mnemoignore` can take any of these back.
DEFAULT_PATTERNS = (
    ".git/", ".hg/", ".svn/", ".obsidian/", ".logseq/", ".trash/", ".Trash*/", ".stversions/", ".stfolder/", ".sync/",
    ".venv/", "__pycache__/", "node_modules/", "*~", ".*.sw?", ".sw?", ".#*", "\\#*#", "*.tmp", "*.bak", ".~*", "~$*",
    "4913", ".fuse_hidden*", ".nfs*", ".syncthing.*", "*.sync-conflict-*", "*(conflicted copy*", "*.part",
    "*.crdownload", ".goutputstream-*",
)  # fmt: skip


class _Rule(NamedTuple):
    pattern: re.Pattern[str]  # of the whole path relative to the file's folder
    is_negated: bool
    folders_only: bool


Rules = tuple[_Rule, ...]


def read_rules(text: str) -> Rules:
    """The rules of an ignore file, in order. A line that makes no pattern is passed over."""
    return tuple(rule for line in text.split("\n")[:PATTERNS_MAX] if (rule := _rule(line)) is not None)


def match_rules(rules: Rules, path: str, *, is_folder: bool) -> bool | None:
    """Return whether these rules exclude the path: True, False when negated, None when no rule matches. `path` is
    relative to the folder of the rules, with forward slashes."""
    for rule in reversed(rules):
        if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(path):
            return not rule.is_negated
    return None


def is_ignored(layers: Sequence[tuple[str, Rules]], path: str, *, is_folder: bool) -> bool:
    """Return whether the path is excluded by the layers that apply to its folder: (folder, its rules), outermost first.
    Inner layers take precedence. Only the path itself is tested: its folders must have been tested before."""
    for folder, rules in reversed(layers):
        inner = path[len(folder) + 1 :] if folder else path
        said = match_rules(rules, inner, is_folder=is_folder)
        if said is not None:
            return said
    return False


def _rule(line: str) -> _Rule | None:
    line = line.rstrip("\r")
    stripped = line.rstrip(" ")
    if stripped.endswith("\\") and stripped != line:  # an escaped blank at the end stays
        stripped += " "
    if not stripped or stripped.startswith("#"):
        return None
    taken_back = stripped.startswith("!")
    body = stripped[1:] if taken_back else stripped
    folders_only = body.endswith("/")
    body = body.rstrip("/") if folders_only else body
    if not body or body.count("*") > 2 * STARS_MAX or len(re.findall(r"\*+", body)) > STARS_MAX:
        return None
    tied = "/" in body
    body = body.removeprefix("/")
    try:
        pattern = re.compile(("" if tied else "(?:.*/)?") + _regex(body), re.DOTALL)
    except re.error:
        return None
    return _Rule(pattern, taken_back, folders_only)


def _regex(body: str) -> str:
    """The regular expression of a pattern. `*` and `?` never match a slash."""
    out: list[str] = []
    at, size = 0, len(body)
    while at < size:
        char = body[at]
        if char == "*":
            run = at
            while at < size and body[at] == "*":
                at += 1
            out.append(_stars(body, run, at))
            if out[-1] == "(?:.*/)?":
                at += 1  # the slash belongs to it
        elif char == "?":
            out.append("[^/]")
            at += 1
        elif char == "[":
            text, at = _char_class(body, at)
            out.append(text)
        elif char == "\\" and at + 1 < size:
            out.append(re.escape(body[at + 1]))
            at += 2
        else:
            out.append(re.escape(char))
            at += 1
    return "".join(out)


def _stars(body: str, start: int, end: int) -> str:
    """Regular expression for the run of stars from start to end."""
    is_double = end - start == 2 and (start == 0 or body[start - 1] == "/")
    if is_double and end == len(body):
        return ".+" if start else ".*"
    return "(?:.*/)?" if is_double and body[end] == "/" else "[^/]*"


def _char_class(body: str, start: int) -> tuple[str, int]:
    """The class that begins at `[`, and the index behind it; without an end, the bracket itself."""
    first = start + 1
    negated = body[first : first + 1] in ("!", "^")
    first += negated
    end = body.find("]", first + 1)
    if end < 0:
        return re.escape("["), start + 1
    inside = body[first:end].replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
    return f"(?!/)[{'^' if negated else ''}{inside}]", end + 1


DEFAULT_RULES = read_rules("\n".join(DEFAULT_PATTERNS))


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

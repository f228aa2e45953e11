"""Exclusion of paths from a notes folder, in gitignore syntax. SPEC 6

The commonly used subset of gitignore(5): comments, `!` to negate, a trailing `/` for folders only, a `/` elsewhere to
anchor a pattern to its folder, `*`, `?`, `[…]`, `**`, backslash escapes. The last matching pattern decides; everything
in an excluded folder is excluded too.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

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
    """Return whether these rules exclude the path: True, False when negated, None when no rule matches.

    `path` is relative to the folder of the rules, with forward slashes.
    """
    for rule in reversed(rules):
        if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(path):
            return not rule.is_negated
    return None


def is_ignored(layers: Sequence[tuple[str, Rules]], path: str, *, is_folder: bool) -> bool:
    """Return whether the path is excluded by the layers that apply to its folder: (folder, its rules), outermost first.

    Inner layers take precedence. Only the path itself is tested: its folders must have been tested before.
    """
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

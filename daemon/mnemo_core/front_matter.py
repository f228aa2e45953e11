"""The front matter of a Markdown note: a small, safe subset of YAML. SPEC 6

Lines of `key: value`, values quoted or not, lists in brackets or as lines of `- item`. Anchors, aliases, tags and
nested maps are text like any other: nothing is expanded, so nothing can blow up. Keys that mean nothing here are
passed over.
"""

from collections.abc import Sequence

import msgspec

from mnemo_core.cleaning import fitting_tags
from mnemo_store.records import NAMESPACE_CHARS_MAX

FRONT_MATTER_LINES_MAX = 500
VALUE_CHARS_MAX = 1024
LIST_ITEMS_MAX = 100
TITLE_CHARS_MAX = 256

_FALSE = frozenset({"false", "no", "off", "0"})


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """What a note says of itself."""

    title: str = ""
    tags: tuple[str, ...] = ()
    date: str = ""  # as written; the daemon knows the time zone
    created: str = ""  # likewise: when the file was made, which may not be when what it tells happened
    namespace: str = ""
    importance: float | None = None  # 0 to 1
    memory: bool = True  # False: nothing of this file is to be remembered


def read_front_matter(lines: Sequence[str]) -> tuple[Meta, int]:
    """What the front matter says, and the index of the first line behind it: 0 when there is none."""
    if not lines or lines[0].rstrip() != "---":
        return Meta(), 0
    for end in range(1, min(len(lines), FRONT_MATTER_LINES_MAX)):
        if lines[end].rstrip() in ("---", "..."):
            return _meta(_fields(lines[1:end])), end + 1
    return Meta(), 0


def _fields(lines: Sequence[str]) -> dict[str, list[str]]:
    """Each top key, lower case, with its values; the first of a key's appearances counts."""
    fields: dict[str, list[str]] = {}
    values: list[str] = []
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        bare = line.strip()
        if bare.startswith("- ") or bare == "-":
            if len(values) < LIST_ITEMS_MAX:
                values.append(_scalar(bare[1:]))
        elif line[0] not in " \t" and ":" in line:
            key, _, value = line.partition(":")
            values = _values(value.strip()[:VALUE_CHARS_MAX])
            fields.setdefault(key.strip().strip("\"'").lower(), values)
    return fields


def _values(text: str) -> list[str]:
    if text.startswith("["):
        inside = text[1:].partition("]")[0]
        return [_scalar(item) for item in inside.split(",")[:LIST_ITEMS_MAX] if item.strip()]
    value = _scalar(text)
    return [value] if value else []


def _scalar(text: str) -> str:
    """A value without its quotes; an unquoted one without its comment."""
    text = text.strip()
    if len(text) >= 2 and text[0] in "\"'":
        end = text.find(text[0], 1)
        if end > 0:
            return text[1:end].strip()
    if " #" in text:
        text = text.partition(" #")[0]
    return text.strip()


def _meta(fields: dict[str, list[str]]) -> Meta:
    def first(*keys: str) -> str:
        return next((fields[key][0] for key in keys if fields.get(key)), "")

    namespace = first("namespace")
    return Meta(
        title=first("title")[:TITLE_CHARS_MAX],
        tags=_tags([*fields.get("tags", []), *fields.get("tag", [])]),
        date=first("date", "day", "event_date", "date-start"),
        created=first("created", "created_at", "creation_date", "date created", "date_created", "created at"),
        namespace=namespace if len(namespace) <= NAMESPACE_CHARS_MAX and namespace != "*" else "",
        importance=_importance(first("importance")),
        memory=first("memory").lower() not in _FALSE,
    )


def _tags(values: Sequence[str]) -> tuple[str, ...]:
    """Tags of a list, or of one text parted by commas, or by blanks where there is no comma."""
    if len(values) == 1:
        values = values[0].split(",") if "," in values[0] else values[0].split()
    return fitting_tags(value.strip().lstrip("#") for value in values)


def _importance(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0.0 <= value <= 1.0 else None

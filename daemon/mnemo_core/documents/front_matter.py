"""The front matter of a Markdown note, a small, safe subset of YAML, and the properties of a Logseq page. SPEC 6

Lines of `key: value` (Logseq: `key:: value`), values quoted or not, lists in brackets or as lines of `- item`. Anchors,
aliases, tags and nested maps are text like any other: nothing is expanded, so nothing can blow up. Keys that mean
nothing here are the note's own properties.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from mnemo_core.text.cleaning import valid_tags
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_store.records import NAMESPACE_CHARS_MAX

FRONT_MATTER_LINES_MAX = 500
VALUE_CHARS_MAX = 1024
LIST_ITEMS_MAX = 100
TITLE_CHARS_MAX = 256

KEY_CHARS_MAX = 64

_Fields = dict[str, tuple[str, list[str]]]  # key in lower case → as written, values

_BLOCK_MARKS = frozenset({"|", ">", "|-", ">-", "|+", ">+"})
_NESTED = lazy_pattern(r"[\w .-]{1,64}:(?: |$)")
_LISTS = frozenset({"tags", "tag", "alias", "aliases"})
_CREATED = ("created", "created_at", "created-at", "created at", "creation_date", "date created", "date_created")
_CHANGED = ("modified", "updated", "updated_at", "updated-at", "updated at", "last modified", "lastmod", "date updated")
_NOT_SEARCHED = frozenset({
    "title", "tags", "tag", "namespace", "importance", "memory", "cssclass", "cssclasses", "id", "uid", "uuid",
    "publish", "position", "collapsed", "icon", "banner",
})  # fmt: skip
_BOOKKEEPING = frozenset({"date", "day", *_CREATED, *_CHANGED})
# A line without a value is text like any other.
_PAGE_PROPERTY = lazy_pattern(r"(-[ \t]|)[ \t]*([^\W_][\w .@/-]{0,62})::[ \t]{0,8}(\S.*)$")
_NOISE = lazy_pattern(
    r"[ \t]*(?:[-*][ \t]+)?(?:id|collapsed|heading|background-color|created-at|updated-at|ls-type|icon|template"
    r"|logseq\.[\w.-]{1,64}|hl-[\w-]{1,64}|card-[\w-]{1,64}|query-[\w-]{1,64})::(?: |$)"
)

_FALSE = frozenset({"false", "no", "off", "0"})


class NoteProperty(NamedTuple):
    """A key of a note's own, as it is written, and its values in one line."""

    key: str
    value: str


class NoteMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata that a note states about itself."""

    title: str = ""
    tags: tuple[str, ...] = ()
    date: str = ""  # as written; the daemon knows the time zone
    created: str = ""  # likewise: when the file was created, which may not be the time of its events
    namespace: str = ""
    importance: float | None = None  # 0 to 1
    memory: bool = True  # False: the file is excluded
    properties: tuple[NoteProperty, ...] = ()  # to be found with their keys; empty where there is only bookkeeping


def read_front_matter(lines: Sequence[str]) -> tuple[NoteMetadata, int]:
    """Parse the front matter, or the leading properties of a Logseq page. Also returns the index of the first line
    after it, 0 where there is neither."""
    if not lines:
        return NoteMetadata(), 0
    if lines[0].rstrip() == "---":
        for end in range(1, min(len(lines), FRONT_MATTER_LINES_MAX)):
            if lines[end].rstrip() in ("---", "..."):
                return _meta(_fields(lines[1:end])), end + 1
    return _page_properties(lines)


def is_machine_property(line: str) -> bool:
    """Return whether the line is a block property of Logseq that only programs read."""
    return "::" in line and _NOISE.match(line) is not None


def _page_properties(lines: Sequence[str]) -> tuple[NoteMetadata, int]:
    fields: _Fields = {}
    end = 0
    for index in range(min(len(lines), FRONT_MATTER_LINES_MAX)):
        match = _PAGE_PROPERTY.match(lines[index]) if "::" in lines[index] else None
        if match is None or (match[1] and fields) or match[2].lower() in fields:
            break
        value = match[3].strip()[:VALUE_CHARS_MAX]
        linked = [each.strip() for each in value.split(",")] if match[2].lower() in _LISTS else [value]
        fields.setdefault(match[2].lower(), (match[2], [each for each in linked if each]))
        end = index + 1
    return (_meta(fields), end) if fields else (NoteMetadata(), 0)


def _fields(lines: Sequence[str]) -> _Fields:
    """Each top key, lower case, with the key as written and its values; the first of a key's appearances counts."""
    fields: _Fields = {}
    values: list[str] = []
    for line in lines:
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        if bare.startswith("- ") or bare == "-":
            if len(values) < LIST_ITEMS_MAX:
                values.append(_scalar(bare[1:])[:VALUE_CHARS_MAX])
        elif line[0] not in " \t" and ":" in line:
            key, _, value = line.partition(":")
            key = key.strip().strip("\"'")[:KEY_CHARS_MAX]
            values = _values(value.strip()[:VALUE_CHARS_MAX])
            fields.setdefault(key.lower(), (key, values))
        elif line[0] in " \t" and len(values) < LIST_ITEMS_MAX:
            if values and not _NESTED.match(bare):  # the value goes on in this line
                values[-1] = f"{values[-1]} {bare}"[:VALUE_CHARS_MAX]
            else:
                values.append(bare[:VALUE_CHARS_MAX])
    return fields


def _values(text: str) -> list[str]:
    if text in _BLOCK_MARKS:
        return []
    if text.startswith("[") and not text.startswith("[["):
        inside = text[1:].rpartition("]")[0] or text[1:].rstrip("]")
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


def _meta(fields: _Fields) -> NoteMetadata:
    def values(key: str) -> list[str]:
        return fields[key][1] if key in fields else []

    def first(*keys: str) -> str:
        return next((values(key)[0] for key in keys if values(key)), "")

    namespace = first("namespace")
    return NoteMetadata(
        title=first("title")[:TITLE_CHARS_MAX],
        tags=_tags([*values("tags"), *values("tag")]),
        date=first("date", "day"),
        created=first(*_CREATED),
        namespace=namespace if len(namespace) <= NAMESPACE_CHARS_MAX and namespace != "*" else "",
        importance=_importance(first("importance")),
        memory=first("memory").lower() not in _FALSE,
        properties=_properties(fields),
    )


def _properties(fields: _Fields) -> tuple[NoteProperty, ...]:
    """The searchable properties: all but those with a field of their own and those that only programs read. Dates of
    the file alone are not worth a passage."""
    found = [(key, NoteProperty(name, ", ".join(values))) for key, (name, values) in fields.items() if any(values)]
    found = [each for each in found if each[0] not in _NOT_SEARCHED]
    return tuple(each for _, each in found) if any(key not in _BOOKKEEPING for key, _ in found) else ()


def _tags(values: Sequence[str]) -> tuple[str, ...]:
    """Tags of a list, or of one text separated by commas, or by blanks where there is no comma."""
    if len(values) == 1:
        values = values[0].split(",") if "," in values[0] else values[0].split()
    return valid_tags(value.strip().lstrip("#").strip("[]") for value in values)


def _importance(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0.0 <= value <= 1.0 else None

"""The front matter of a Markdown note, a small, safe subset of YAML, and the properties of a Logseq page. SPEC 6

Lines of `key: value` (Logseq: `key:: value`), values quoted or not, lists in brackets or as lines of `- item`. Anchors,
aliases, tags and nested maps are text like any other: nothing is expanded, so nothing can blow up. Keys that mean
nothing here, values that make no sense for their key and lines of no such shape are the note's own properties: of what
a person wrote only comments behind a value are left out.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from mnemo_core.text.cleaning import valid_tags
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_store.records import NAMESPACE_CHARS_MAX

FRONT_MATTER_LINES_MAX = 500
FRONT_MATTER_CHARS_MAX = 64 << 10  # what is longer is text like any other
PAGE_VALUE_CHARS_MAX = 1024  # a longer one is a paragraph that begins like a property
DATE_CHARS_MAX = 40
TITLE_CHARS_MAX = 256

_Fields = dict[str, tuple[str, list[str]]]  # key in lower case → as written, values

_BLOCK_MARKS = frozenset({"|", ">", "|-", ">-", "|+", ">+"})
_NESTED = lazy_pattern(r"[\w .-]{1,64}:(?: |$)")
_LISTS = frozenset({"tags", "tag", "alias", "aliases"})
_CREATED = ("created", "created_at", "created-at", "created at", "creation_date", "date created", "date_created")
_CHANGED = ("modified", "updated", "updated_at", "updated-at", "updated at", "last modified", "lastmod", "date updated")
_NOT_SEARCHED = frozenset({
    "cssclass", "cssclasses", "id", "uid", "uuid", "publish", "position", "collapsed", "icon", "banner",
})  # fmt: skip
_BOOKKEEPING = frozenset({"date", "day", *_CREATED, *_CHANGED})
_KEY = lazy_pattern(r"([^:]{1,64}):(?![:/])(.*)$")  # not https://…
# A line without a value is text like any other, and so is `std::vector`.
_PAGE_PROPERTY = lazy_pattern(r"(-[ \t]|)[ \t]*([^\W_][\w .@/-]{0,62})::[ \t]{1,8}(\S.*)$")
_NOISE = lazy_pattern(
    r"[ \t]*(?:[-*][ \t]+)?(?:id|collapsed|heading|background-color|created-at|updated-at|ls-type|icon|template"
    r"|logseq\.[\w.-]{1,64}|hl-[\w-]{1,64}|card-[\w-]{1,64}|query-[\w-]{1,64})::(?: |$)"
)

_FALSE = frozenset({"false", "no", "off", "0"})
_TRUE = frozenset({"true", "yes", "on", "1"})


class NoteProperty(NamedTuple):
    """A key of a note's own, as it is written ("" where a line has none), and its values in one line."""

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
                fields = _fields(lines[1:end])
                return (NoteMetadata(), 0) if fields is None else (_meta(fields), end + 1)
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
        value = match[3].strip()
        if len(value) > PAGE_VALUE_CHARS_MAX:
            break
        linked = [each.strip() for each in value.split(",")] if match[2].lower() in _LISTS else [value]
        fields.setdefault(match[2].lower(), (match[2], [each for each in linked if each]))
        end = index + 1
    return (_meta(fields), end) if fields else (NoteMetadata(), 0)


def _fields(lines: Sequence[str]) -> _Fields | None:
    """Each top key, lower case, with the key as written and the values of all its appearances, and below "" the lines
    that belong to none. None where the lines are no front matter: they do not begin with a key, or are too long."""
    if sum(map(len, lines)) > FRONT_MATTER_CHARS_MAX:
        return None
    fields: _Fields = {}
    others: list[str] = []
    values: list[str] | None = None
    for line in lines:
        bare = line.strip()
        if not bare:
            continue
        if bare.startswith("#"):
            others.append(bare)
        elif values is not None and (bare.startswith("- ") or bare == "-"):
            values.append(_scalar(bare[1:]))
        elif values is not None and line[0] in " \t":
            if values and not _NESTED.match(bare):  # the value goes on in this line
                values[-1] = f"{values[-1]} {bare}"
            else:
                values.append(bare)
        elif line[0] not in " \t-" and (match := _KEY.match(line)) is not None:
            key = match[1].strip().strip("\"'")
            values = fields.setdefault(key.lower(), (key, []))[1]
            values += _values(match[2].strip())
        elif values is None:
            return None
        else:
            others.append(bare)
    if others and values is None:
        return None
    fields[""] = ("", others)
    return fields


def _values(text: str) -> list[str]:
    if text in _BLOCK_MARKS:
        return []
    if text.startswith("[") and not text.startswith("[["):
        inside, bracket, behind = text[1:].rpartition("]")
        if not bracket or not behind.partition(" #")[0].strip():
            return [_scalar(item) for item in (inside or behind).split(",") if item.strip()]
    value = _scalar(text)
    return [value] if value else []


def _scalar(text: str) -> str:
    """A value without its quotes, if it is quoted as a whole, and without its comment."""
    text = text.strip()
    if len(text) >= 2 and text[0] in "\"'":
        end = text.find(text[0], 1)
        if end > 0 and text[end + 1 :].lstrip()[:1] in ("", "#"):
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
    meta = NoteMetadata(
        title=first("title")[:TITLE_CHARS_MAX],
        tags=valid_tags([*_tag_names(values("tags")), *_tag_names(values("tag"))]),
        date=first("date", "day"),
        created=first(*_CREATED),
        namespace=namespace if len(namespace) <= NAMESPACE_CHARS_MAX and namespace != "*" else "",
        importance=_importance(first("importance")),
        memory=first("memory").lower() not in _FALSE,
    )
    return msgspec.structs.replace(meta, properties=_properties(fields, meta))


def _properties(fields: _Fields, understood: NoteMetadata) -> tuple[NoteProperty, ...]:
    """The searchable properties: all but those with a field of their own, which says them whole, and those that only
    programs read. Dates of the file alone are not worth a passage."""
    found: list[NoteProperty] = []
    is_worth = False
    for key, (name, values) in fields.items():
        if not any(values) or _is_said(key, values, understood):
            continue
        found += [NoteProperty("", each) for each in values] if not key else [NoteProperty(name, ", ".join(values))]
        may_be_date = len(values[0]) <= DATE_CHARS_MAX and any(map(str.isdigit, values[0]))
        is_worth |= key not in _BOOKKEEPING or len(values) > 1 or not may_be_date
    return tuple(found) if is_worth else ()


def _is_said(key: str, values: Sequence[str], understood: NoteMetadata) -> bool:
    """Return whether the metadata says all of a key's values, or a program alone reads them."""
    match key:
        case "title" | "namespace":
            return list(values) == [getattr(understood, key)]
        case "tags" | "tag":
            return all(not each or set(valid_tags([each])) & {*understood.tags} for each in _tag_names(values))
        case "importance":
            return len(values) == 1 and understood.importance is not None
        case "memory":
            return len(values) == 1 and values[0].lower() in _FALSE | _TRUE
    return key in _NOT_SEARCHED


def _tag_names(values: Sequence[str]) -> list[str]:
    """The names in a list of tags, or in one text separated by commas, or by blanks where there is no comma."""
    if len(values) == 1:
        values = values[0].split(",") if "," in values[0] else values[0].split()
    return [value.strip().lstrip("#").strip("[]") for value in values]


def _importance(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0.0 <= value <= 1.0 else None

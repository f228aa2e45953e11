"""Edits of JSON text that change nothing else in it: comments, trailing commas, order and spacing stay.

As in the settings of editors, the text may have // and /* */ comments and trailing commas.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from mnemo_client.errors import MnemoError

DEPTH_MAX = 200
TEXTS_KEPT = 4  # an edit reads its text several times, and removal reads the former text in between
INDENT = "  "
_GAP = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD = re.compile(r"[-+.0-9A-Za-z]+")
_NOT_BLANK = re.compile(r"[^ \t\r\n]")
_DECODER = json.JSONDecoder()

Step = str | int


class ConfigFileError(MnemoError):
    """A configuration file cannot be read, understood or written."""


class ForeignEntryError(MnemoError):
    """The file has an entry of the same name that `mnemo setup` did not write."""


@dataclass
class JsonNode:
    """A value and its place in the text, without the gaps around it."""

    text: str
    start: int
    end: int
    value: Any

    @cached_property
    def items(self) -> "list[JsonItem]":
        """Return the members of an object or the elements of an array, which are read when they are asked for."""
        return _JsonReader(self.text, self.start).container(0).items if isinstance(self.value, dict | list) else []


@dataclass(slots=True)
class JsonItem:
    """A member of an object, or an element of an array."""

    start: int  # of the key, or of the element
    node: JsonNode
    key: str | None = None
    comma: int | None = None  # the position of the comma after it


class _JsonReader:
    def __init__(self, text: str, at: int = 0) -> None:
        self._text = text
        self._at = at

    def read(self) -> JsonNode:
        self._skip()
        node = self._value(0)
        self._skip()
        if self._at < len(self._text):
            raise self._error("there is text after the end of the value")
        return node

    def _value(self, depth: int) -> JsonNode:
        if depth > DEPTH_MAX:
            raise self._error("the values are nested too deeply")
        start, first = self._at, self._text[self._at : self._at + 1]
        if first in ("{", "["):
            try:
                value, self._at = _DECODER.raw_decode(self._text, start)
                return JsonNode(self._text, start, self._at, value)
            except (ValueError, RecursionError):  # a comment, a trailing comma, or what is wrong
                return self.container(depth)
        pattern = _STRING if first == '"' else _WORD
        found = pattern.match(self._text, start)
        if found is None:
            raise self._error("a value is missing" if first != '"' else "a string does not end on its line")
        self._at = found.end()
        try:
            return JsonNode(self._text, start, self._at, json.loads(found.group()))
        except ValueError as wrong:
            raise self._error(f"{found.group()[:40]} is not a JSON value", start) from wrong

    def container(self, depth: int) -> JsonNode:
        """Return the object or array that begins here, with its items."""
        start, items = self._at, list[JsonItem]()
        closer = "}" if self._text[start] == "{" else "]"
        self._at += 1
        while True:
            self._skip()
            if self._take(closer):
                break
            if items and items[-1].comma is None:
                raise self._error(f"a comma or {closer} is missing")
            items.append(self._item(closer, depth))
            self._skip()
            if self._text.startswith(",", self._at):
                items[-1].comma = self._at
                self._at += 1
        values = [item.node.value for item in items]
        keys = [item.key or "" for item in items]
        value = dict(zip(keys, values, strict=True)) if closer == "}" else values
        node = JsonNode(self._text, start, self._at, value)
        node.items = items
        return node

    def _item(self, closer: str, depth: int) -> JsonItem:
        start, key = self._at, None
        if closer == "}":
            name = self._value(depth + 1)
            if not isinstance(name.value, str):
                raise self._error("a name in quotes is missing", start)
            key = name.value
            self._skip()
            if not self._take(":"):
                raise self._error("a colon is missing")
            self._skip()
        return JsonItem(start, self._value(depth + 1), key)

    def _skip(self) -> None:
        found = _GAP.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _take(self, character: str) -> bool:
        is_there = self._text.startswith(character, self._at)
        self._at += is_there
        return is_there

    def _error(self, what: str, at: int | None = None) -> ConfigFileError:
        line = line_number(self._text, self._at if at is None else at)
        return ConfigFileError(f"line {line}: {what}")


def is_blank(text: str) -> bool:
    """Return True for a text without any value, as of a new file."""
    return not text.strip("\ufeff \t\r\n")


def value_at(text: str, path: Sequence[Step]) -> JsonNode | None:
    """Return the value at a path in the text; None if there is none. Raises ConfigFileError."""
    return None if is_blank(text) else find(read_json(text), path)


def line_number(text: str, at: int) -> int:
    """Return the line of a position, counted from 1."""
    return text.count("\n", 0, at) + 1


@lru_cache(TEXTS_KEPT)
def read_json(text: str) -> JsonNode:
    """Return the value of the text, which the caller does not change. Raises ConfigFileError with the line."""
    return _JsonReader(text).read()


def find(root: JsonNode, path: Sequence[Step]) -> JsonNode | None:
    """Return the value at a path of names and positions; None if there is none."""
    node: JsonNode | None = root
    for step in path:
        item = _item_at(node, step) if node is not None else None
        node = item.node if item is not None else None
    return node


def _item_at(container: JsonNode, step: Step) -> JsonItem | None:
    if isinstance(step, int):
        is_there = isinstance(container.value, list) and step < len(container.items)
        return container.items[step] if is_there else None
    if not isinstance(container.value, dict):
        return None
    return next((item for item in reversed(container.items) if item.key == step), None)


def replace_value(text: str, path: Sequence[Step], value: Any) -> str:
    """Return the text with another value at a path that exists."""
    node = find(read_json(text), path)
    assert node is not None
    return text[: node.start] + _dumps(text, value, _line_indent(text, node.start)) + text[node.end :]


def insert_value(text: str, path: Sequence[str], value: Any, *, is_element: bool) -> str:
    """Return the text with a new member at `path`, or with a new last element of the array at `path`.

    Missing objects and arrays on the way are created. Raises ConfigFileError if something else is in their place.
    """
    text = text + "{}\n" if is_blank(text) else text
    container, depth = read_json(text), 0
    while depth < len(path) and isinstance(container.value, dict) and (item := _item_at(container, path[depth])):
        container, depth = item.node, depth + 1
    wanted = list if is_element and depth == len(path) else dict
    if not isinstance(container.value, wanted) or (not is_element and depth == len(path)):
        place = ".".join(path[:depth]) or "the whole file"
        raise ConfigFileError(f"{place} is not {'an array' if wanted is list else 'an object'}")
    new, key = value, None
    if depth < len(path):
        new = [value] if is_element else value
        for name in reversed(path[depth + 1 :]):
            new = {name: new}
        key = path[depth]
    newline = newline_of(text)
    closer = container.end - 1
    content_end = _content_end(text, container.start + 1, closer)
    outer = _line_indent(text, container.start)
    if not container.items:
        indent = outer + _indent_of(text)
        added = newline + indent + _member(text, key, new, indent)
        if content_end > container.start + 1:  # there is a comment
            return text[:content_end] + added + text[content_end:]
        return text[:content_end] + added + newline + outer + text[closer:]
    last = container.items[-1]
    if "\n" in text[container.start : closer]:
        begins_line = "\n" in text[container.start : container.items[0].start]
        indent = _line_indent(text, container.items[0].start) if begins_line else outer + _indent_of(text)
        added = newline + indent + _member(text, key, new, indent)
    else:
        added = " " + _member(text, key, new, None)
    if last.comma is not None:  # a trailing comma: the new last item gets one, too
        return text[:content_end] + added + "," + text[content_end:]
    return text[: last.node.end] + "," + text[last.node.end : content_end] + added + text[content_end:]


def remove_value(text: str, path: Sequence[Step]) -> str:
    """Return the text without the value at a path that exists: the inverse of `insert_value`."""
    container = find(read_json(text), path[:-1])
    item = _item_at(container, path[-1]) if container is not None else None
    assert container is not None
    assert item is not None
    position = container.items.index(item)
    gap_start = container.items[position - 1].node.end if position else container.start + 1
    start = _content_end(text, gap_start, item.start)
    if len(container.items) == 1:
        end = (item.comma + 1) if item.comma is not None else item.node.end
        rest = text[end : container.end - 1]
        is_bare = start == container.start + 1 and not rest.strip()
        return text[:start] + (text[container.end - 1 :] if is_bare else text[end:])
    if item.comma is not None:
        return text[:start] + text[item.comma + 1 :]
    comma = container.items[position - 1].comma
    assert comma is not None
    return text[:comma] + text[comma + 1 : start] + text[item.node.end :]


def newline_of(text: str) -> str:
    """Return the line end that the text uses."""
    return "\r\n" if "\r\n" in text else "\n"


def _content_end(text: str, start: int, end: int) -> int:
    """Return where the blanks before `end` begin: after the last comma, comment or bracket."""
    while end > start and not _NOT_BLANK.match(text, end - 1):
        end -= 1
    return end


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at].lstrip("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


def _indent_of(text: str) -> str:
    """Return the indentation of the first line that has one."""
    found = re.search(r"\n([ \t]+)[^ \t\r\n]", text)
    return found[1] if found else INDENT


def _member(text: str, key: str | None, value: Any, indent: str | None) -> str:
    name = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    return name + (json.dumps(value, ensure_ascii=False) if indent is None else _dumps(text, value, indent))


def _dumps(text: str, value: Any, indent: str) -> str:
    lines = json.dumps(value, ensure_ascii=False, indent=_indent_of(text)).split("\n")
    return (newline_of(text) + indent).join(lines)

"""A sampler of texts from a GBNF grammar, for the subset that our grammars use; knows nothing of how they are made."""

import re
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|\{\d+,\d+\}|[()|?]|[a-z][a-z0-9-]*)')
_ESCAPE = re.compile(r"\\(?:u([0-9A-F]{4})|U([0-9A-F]{8})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}


def texts_of(grammar: str) -> st.SearchStrategy[str]:
    """Texts that the grammar allows."""
    rules: dict[str, st.SearchStrategy[str]] = {}
    for line in reversed(grammar.strip().splitlines()):
        name, _, right = line.partition(" ::= ")
        rules[name], end = _alternatives(_tokens(right), rules)
        assert not end, f"a bracket too many in {line!r}"
    return rules["root"]


def _tokens(right: str) -> Iterator[str]:
    """The tokens of the right side of a rule, and an empty one at the end."""
    at = 0
    while at < len(right):
        match = _TOKEN.match(right, at)
        assert match, f"not of the grammars' language: {right[at:]!r}"
        yield match[1]
        at = match.end()
    yield ""


def _alternatives(tokens: Iterator[str], rules: dict[str, Any]) -> tuple[st.SearchStrategy[str], str]:
    """The alternatives up to a closing bracket or the end, and the token that ended them."""
    choices: list[list[st.SearchStrategy[str]]] = [[]]
    for token in tokens:
        if token in (")", ""):
            return st.one_of([st.tuples(*parts).map("".join) for parts in choices]), token
        if token == "|":
            choices.append([])
        elif token == "(":
            choices[-1].append(_alternatives(tokens, rules)[0])
        elif token == "?":
            choices[-1][-1] = st.just("") | choices[-1][-1]
        elif token.startswith("{"):
            least, most = map(int, token[1:-1].split(","))
            choices[-1][-1] = st.lists(choices[-1][-1], min_size=least, max_size=most).map("".join)
        elif token.startswith('"'):
            choices[-1].append(st.just(_unescaped(token[1:-1])))
        elif token.startswith("["):
            choices[-1].append(_characters(token[1:-1]))
        else:
            choices[-1].append(rules[token])
    raise AssertionError("a bracket is not closed")


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda m: chr(int(m[1] or m[2], 16)) if m[1] or m[2] else _LETTERS.get(m[3], m[3]), text)


def _characters(text: str) -> st.SearchStrategy[str]:
    parts = re.findall(r"\\u[0-9A-F]{4}|\\U[0-9A-F]{8}|\\.|.", text, re.DOTALL)
    ranges = []
    while parts:
        first = last = _unescaped(parts.pop(0))
        if parts[:1] == ["-"] and len(parts) > 1:
            last = _unescaped(parts[1])
            del parts[:2]
        ranges.append(st.integers(ord(first), ord(last)) | st.sampled_from([ord(first), ord(last)]))
    return st.one_of(ranges).map(chr)

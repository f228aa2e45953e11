"""From the type of an answer to a GBNF grammar that llama.cpp constrains its output by.

Every text of the grammar is a JSON document that `msgspec.json.decode` accepts strictly for the type, bounds included:
fields stand in their order, a string has no control character, no escape that could be half of a surrogate pair and
no more characters than allowed. A type without bounds is refused, since its output would end with the last token only.
A wrong grammar crashes llama.cpp, so the grammars of all registered tasks are tested.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import inspect

INTEGERS_MAX = 256  # values of an integer field, which are listed one by one
CHARACTERS_MAX = 2000  # of a string: llama.cpp refuses to repeat a rule more often

_CHARACTER = (  # no quote, backslash, control character, surrogate or noncharacter U+FFFE, U+FFFF
    'character ::= [ !#-\\[\\]-~\\u00A0-\\uD7FF\\uE000-\\uFFFD\\U00010000-\\U0010FFFD] | "\\\\" ["\\\\/bfnrt]'
)


class UnboundedType(TypeError):
    """An answer type has no bound where its grammar needs one, or a type that no grammar is made for."""


def grammar_of(answer: type[Any]) -> str:
    """Return the grammar of the JSON documents of a struct type. Raises UnboundedType."""
    items: list[str] = []
    root = _rule(inspect.type_info(answer), answer.__name__, items)
    rules = [f"root ::= {root}", *reversed(items), _CHARACTER]
    return "\n".join(rules) + "\n"


def _rule(kind: inspect.Type, where: str, items: list[str]) -> str:
    """The right side of a rule for a type; appends to items a rule for each list in it. An item is a rule of its own,
    since llama.cpp writes out every repetition, and crashes on one of long strings."""
    match kind:
        case inspect.StructType():
            return _object(kind, where, items)
        case inspect.StrType(min_length=least, max_length=int(most), pattern=None) if 0 <= most <= CHARACTERS_MAX:
            return f'"\\"" character{{{least or 0},{most}}} "\\""'
        case inspect.IntType(ge=int(least), le=int(most), multiple_of=None) if 0 <= most - least < INTEGERS_MAX:
            return _alternatives([str(value) for value in range(least, most + 1)])
        case inspect.BoolType():
            return _alternatives(["true", "false"])
        case inspect.NoneType():
            return '"null"'
        case inspect.LiteralType(values=values):
            return _alternatives([msgspec.json.encode(value).decode() for value in values])
        case inspect.ListType(item, least, int(most)) | inspect.VarTupleType(item, least, int(most)) if most > 0:
            rule = _rule(item, f"{where}[]", items)
            name = f"item-{len(items)}"
            items.append(f"{name} ::= {rule}")
            return _list(name, least or 0, most)
        case inspect.UnionType(types=types):
            return "(" + " | ".join(_rule(each, where, items) for each in types) + ")"
        case _:
            raise UnboundedType(f"{where}: a grammar needs a type with bounds, not {kind}")


def _object(kind: inspect.StructType, where: str, items: list[str]) -> str:
    if kind.tag_field is not None or not kind.fields:
        raise UnboundedType(f"{where}: a grammar needs a struct with fields and without a tag")
    parts = []
    for position, field in enumerate(kind.fields):
        name = msgspec.json.encode(field.encode_name).decode()
        parts.append(literal(f"{', ' if position else '{'}{name}: "))
        parts.append(_rule(field.type, f"{where}.{field.encode_name}", items))
    return " ".join([*parts, literal("}")])


def _list(item: str, least: int, most: int) -> str:
    further = f'(", " {item}){{{max(least - 1, 0)},{most - 1}}}' if most > 1 else ""
    items = f"{item} {further}".rstrip()
    return f'"[" {items} "]"' if least else f'"[" ({items})? "]"'


def _alternatives(texts: Sequence[str]) -> str:
    return "(" + " | ".join(literal(text) for text in texts) + ")"


def literal(text: str) -> str:
    """A text that stands as it is. A JSON string differs from a literal of the grammar by nothing that occurs here."""
    return msgspec.json.encode(text).decode()

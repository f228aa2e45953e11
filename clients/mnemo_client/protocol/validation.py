"""Error messages for values of the wrong type: they name the field, the allowed values, and the value given.

msgspec reports a violation in terms of its types (``Expected `int` <= 100 - at `$.top_k` ``). `explain` finds the
declared type of the field and the value, and describes both in plain words."""

import difflib
import re
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from mnemo_client.protocol.primitives import NAME_PATTERN

LIKENESS_MIN = 0.75  # difflib's ratio of an unknown field and the known one that is suggested
VALUE_CHARACTERS_MAX = 60

_WHERE = re.compile(r"^(.*?)(?: - at `(?:key in )?\$\.?([^`]*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"^Object contains unknown field `(.*)`$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(.*)`$", re.DOTALL)
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+|\.\.\.)\]")


class InvalidValue(NamedTuple):
    """A value of the wrong type. field: its path ("memories[3].tags"), "" for the whole value."""

    code: str  # unknown_field, missing_field or bad_value
    field: str
    message: str


def explain(error: msgspec.ValidationError, kind: Any, value: Any) -> InvalidValue:
    """Describe why `value`, decoded without a type, is not a `kind`. value: UNSET if it cannot be decoded at all."""
    match = _WHERE.match(str(error))
    message, path = (match.group(1), match.group(2) or "") if match else (str(error), "")
    if unknown := _UNKNOWN.match(message):
        name = unknown.group(1)
        known = [
            field.encode_name
            for each in _alternatives(_type_at(inspect.type_info(kind), path))
            if isinstance(each, inspect.StructType)
            for field in each.fields
        ]
        near = difflib.get_close_matches(name, known, n=1, cutoff=LIKENESS_MIN)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        return InvalidValue(
            "unknown_field", _field_path(path, name), f"there is no field `{printable(name)}` here{hint}"
        )
    if missing := _MISSING.match(message):
        field = _field_path(path, missing.group(1))
        return InvalidValue("missing_field", field, f"`{field}` is required")
    expected = describe(_type_at(inspect.type_info(kind), path))
    given = "" if value is msgspec.UNSET else f", not {_given(_value_at(value, path), message)}"
    subject = f"`{printable(path)}`" if path else "the value"
    return InvalidValue("bad_value", path, f"{subject} must be {expected}{given}")


def _given(value: Any, message: str) -> str:
    """Return the refused value; of one that is too long to be shown whole its length, where that is what is wrong."""
    text = msgspec.json.encode(value, enc_hook=repr).decode(errors="replace")
    shown = printable(text if len(text) <= VALUE_CHARACTERS_MAX else text[:VALUE_CHARACTERS_MAX] + "…")
    return f"one of {len(value)}" if shown.endswith("…") and " of length <= " in message else shown


def describe(kind: inspect.Type) -> str:
    """Describe the values of a type: "a whole number from 1 to 100"."""
    match kind:
        case inspect.Metadata(type=inner):
            return describe(inner)
        case inspect.IntType(ge=low, le=high):
            return "a whole number" + _range(low, high)
        case inspect.FloatType(gt=0):
            return "a number above 0"
        case inspect.FloatType(ge=low, le=high):
            return "a number" + _range(low, high)
        case inspect.BoolType():
            return "true or false"
        case inspect.NoneType():
            return "null"
        case inspect.LiteralType(values=values):
            quoted = [f'"{each}"' for each in values]
            return quoted[0] if len(quoted) == 1 else "one of " + ", ".join(quoted)
        case inspect.StrType(min_length=low, max_length=high, pattern=pattern):
            if pattern is not None and pattern.startswith(NAME_PATTERN):
                return "a line" + _length(low, high, "printable characters")
            return "a text" + _length(low, high, "characters")
        case inspect.ListType(min_length=low, max_length=high) | inspect.VarTupleType(min_length=low, max_length=high):
            return "a list" + _length(low, high, "values")
        case inspect.TupleType(item_types=items):
            return f"a list of {len(items)} values"
        case inspect.DictType() | inspect.StructType():
            return "an object"
        case inspect.UnionType(types=types):
            options = dict.fromkeys(describe(each) for each in types)
            return " or ".join(option for option in options if option != "null") or "null"
        case _:
            return "any value"


def printable(text: str) -> str:
    """Return untrusted text for a message: one short line that can be encoded."""
    cut = text if len(text) <= 100 else text[:100] + "…"
    return "".join(character if character.isprintable() else "\ufffd" for character in cut)


def _range(low: float | None, high: float | None) -> str:
    match low, high:
        case None, None:
            return ""
        case None, _:
            return f" up to {high:g}"
        case _, None:
            return f" of {low:g} or more"
        case _:
            return f" from {low:g} to {high:g}" if abs(high or 0) < 1e6 else f" from {low:g} to {high}"


def _length(low: int | None, high: int | None, unit: str) -> str:
    match low or 0, high:
        case 0, None:
            return ""
        case _, None:
            return f" of {low} or more {unit}"
        case 0, _:
            return f" of at most {high} {unit}"
        case _:
            return f" of {low} to {high} {unit}"


def _field_path(path: str, name: str) -> str:
    return printable(f"{path}.{name}" if path else name)


def _steps(path: str) -> list[str]:
    return [name or index for name, index in _STEP.findall(path)]


def _value_at(value: Any, path: str) -> Any:
    for step in _steps(path):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            break
    return value


def _type_at(kind: inspect.Type, path: str) -> inspect.Type:
    """Return the declared type at a path, or at the last step of it that exists."""
    for step in _steps(path):
        for each in _alternatives(kind):
            if (inner := _inner(each, step)) is not None:
                kind = inner
                break
    return kind


def _alternatives(kind: inspect.Type) -> list[inspect.Type]:
    if isinstance(kind, inspect.Metadata):
        return _alternatives(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [inner for each in kind.types for inner in _alternatives(each)]
    return [kind]


def _inner(kind: inspect.Type, step: str) -> inspect.Type | None:
    match kind:
        case inspect.StructType(fields=fields):
            return next((field.type for field in fields if field.encode_name == step), None)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return item
        case inspect.TupleType(item_types=items):
            return items[int(step)] if step.isdecimal() and int(step) < len(items) else None
        case inspect.DictType(value_type=value):
            return value
        case _:
            return None

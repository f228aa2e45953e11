"""The encoded form of types: field names, tags, defaults and value types, without the names of Python classes.

A form is JSON. `describe` makes one of a type; `differences` compares a form that was kept with a type of today. A
struct stands once in a table of shapes, under the place where it was first met, so that types may refer to themselves.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

Shapes = dict[str, dict[str, Any]]

_READ = (" body", " query")  # in the place of a shape of a request: its fields may be in any order
_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")


class Describer:
    """Makes forms, and fills `shapes` with the structs it meets."""

    def __init__(self) -> None:
        self.shapes: Shapes = {}
        self._labels: dict[type, str] = {}

    def describe(self, kind: Any, where: str) -> Any:
        """The form of a type that is met at `where`."""
        return self._form(inspect.type_info(kind), where)

    def _form(self, info: inspect.Type, where: str) -> Any:
        match info:
            case inspect.Metadata():
                return self._form(info.type, where)
            case inspect.StructType():
                return {"struct": self._label(info, where)}
            case inspect.UnionType():
                members = _members(info).items()
                return {"union": {name: self._form(each, f"{where}{_tag_of(each)}") for name, each in members}}
            case inspect.ListType() | inspect.VarTupleType():
                return {"list": self._form(info.item_type, f"{where}[]")}
            case inspect.TupleType():
                return {"tuple": [self._form(each, f"{where}[{n}]") for n, each in enumerate(info.item_types)]}
            case inspect.DictType():
                return {"map": [self._form(info.key_type, f"{where}{{}}"), self._form(info.value_type, f"{where}{{}}")]}
            case _:
                return _scalar(info)

    def _label(self, info: inspect.StructType, where: str) -> str:
        if info.cls not in self._labels:
            self._labels[info.cls] = where
            shape: dict[str, Any] = {}
            self.shapes[where] = shape
            shape.update(_traits(info))
            shape["fields"] = {
                field.encode_name: {"type": self._form(field.type, f"{where}.{field.encode_name}"), **_default(field)}
                for field in info.fields
            }
        return self._labels[info.cls]


def differences(kept: Any, kind: Any, shapes: Shapes, where: str) -> Iterator[str]:
    """Sentences about what of a form that was kept is no longer so, or is new, in a type of today."""
    yield from _differences(kept, inspect.type_info(kind), shapes, where, set())


def _differences(
    kept: Any, info: inspect.Type, shapes: Shapes, where: str, seen: set[tuple[str, type]]
) -> Iterator[str]:
    match info:
        case inspect.Metadata():
            yield from _differences(kept, info.type, shapes, where, seen)
        case inspect.StructType() if _is(kept, "struct"):
            if (kept["struct"], info.cls) not in seen:
                seen.add((kept["struct"], info.cls))
                yield from _struct_differences(shapes[kept["struct"]], info, shapes, where, seen)
        case inspect.UnionType() if _is(kept, "union"):
            yield from _each(kept["union"], _members(info), shapes, where, seen)
        case inspect.ListType() | inspect.VarTupleType() if _is(kept, "list"):
            yield from _differences(kept["list"], info.item_type, shapes, f"{where}[]", seen)
        case inspect.TupleType() if _is(kept, "tuple"):
            items = {f"[{n}]": each for n, each in enumerate(info.item_types)}
            yield from _each(dict(zip(items, kept["tuple"], strict=False)), items, shapes, where, seen)
        case inspect.DictType() if _is(kept, "map"):
            parts = {"{key}": info.key_type, "{}": info.value_type}
            yield from _each(dict(zip(parts, kept["map"], strict=True)), parts, shapes, where, seen)
        case inspect.LiteralType() if _is(kept, "one_of"):
            now = _scalar(info)["one_of"]
            for value in [*kept["one_of"], *(each for each in now if each not in kept["one_of"])]:
                if value not in kept["one_of"] or value not in now:
                    yield f"{where}: the value {value} is {'gone' if value not in now else 'new'}"
        case _:
            now = Describer()._form(info, where)
            if now != kept:
                yield f"{where} was {kept} and is {now}"


def _each(
    kept: dict[str, Any], now: dict[str, inspect.Type], shapes: Shapes, where: str, seen: set[tuple[str, type]]
) -> Iterator[str]:
    for name in kept | now:
        if name in kept and name in now:
            yield from _differences(kept[name], now[name], shapes, f"{where}{name}", seen)
        else:
            yield f"{where}{name} is {'gone' if name in kept else 'new'}"


def _struct_differences(
    shape: dict[str, Any], info: inspect.StructType, shapes: Shapes, where: str, seen: set[tuple[str, type]]
) -> Iterator[str]:
    traits = {name: value for name, value in shape.items() if name != "fields"}
    if traits != _traits(info):
        yield f"{where} was encoded as {traits} and is as {_traits(info)}"
    fields = {field.encode_name: field for field in info.fields}
    was, left = list(shape["fields"]), [name for name in fields if name in shape["fields"]]
    if (sorted(was) != sorted(left)) if any(part in where for part in _READ) else (was != left):
        yield f"{where} had the fields {', '.join(shape['fields'])} and has {', '.join(fields)}"
    for name, was in shape["fields"].items():
        if field := fields.get(name):
            yield from _differences(was["type"], field.type, shapes, f"{where}.{name}", seen)
            default = {key: value for key, value in was.items() if key != "type"}
            if default != _default(field):
                yield f"{where}.{name} had {default or 'no default'} and has {_default(field) or 'none'}"
    for name in fields:
        if name not in shape["fields"]:
            yield f"{where}.{name} is new"


def _is(kept: Any, what: str) -> bool:
    return isinstance(kept, dict) and what in kept


def _traits(info: inspect.StructType) -> dict[str, Any]:
    """How the struct is encoded, beside its fields."""
    config = info.cls.__struct_config__
    return {
        "tag": [info.tag_field, info.tag] if info.tag is not None else None,
        "array": info.array_like,
        "omits_defaults": config.omit_defaults,
        "strict": info.forbid_unknown_fields,
    }


def _default(field: inspect.Field) -> dict[str, Any]:
    if field.default is not msgspec.NODEFAULT:
        is_unset = field.default is msgspec.UNSET
        return {"default": {"unset": True} if is_unset else as_json(field.default)}
    if field.default_factory is not msgspec.NODEFAULT:
        return {"default": as_json(field.default_factory())}
    return {}


def as_json(value: Any) -> Any:
    """The value as it comes back from JSON."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _tag_of(info: inspect.Type) -> str:
    return f"<{info.tag}>" if isinstance(info, inspect.StructType) and info.tag is not None else ""


def _members(info: inspect.UnionType) -> dict[str, inspect.Type]:
    """The members of a union by tag or kind, in an order that does not depend on how it is written."""
    members = {_tag_of(each) or f"|{type(each).__name__.removesuffix('Type').lower()}": each for each in info.types}
    return dict(sorted(members.items()))


def _scalar(info: inspect.Type) -> Any:
    if isinstance(info, inspect.LiteralType):
        return {"one_of": sorted(info.values, key=str)}
    name = type(info).__name__.removesuffix("Type").lower()
    limits = {limit: value for limit in _LIMITS if (value := getattr(info, limit, None)) is not None}
    return {name: limits} if limits else name

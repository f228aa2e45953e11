"""The encoded form of types: field names, tags, defaults and value types, without the names of Python classes.

A form is JSON. A struct stands once in a table of shapes, under the place where it was first met, so that types may
refer to themselves.
"""

from typing import Any

import msgspec
from msgspec import inspect

Shapes = dict[str, dict[str, Any]]

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

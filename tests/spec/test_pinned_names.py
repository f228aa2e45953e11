"""No name that is stored, sent, set or typed changes: old stores, scripts and other programs rely on them.

What stands in tests/golden/names.json was promised. `python -m tests.golden.names` adds what is new, and nothing else.
"""

from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from tests.golden import names
from tests.golden.names import FILE, broken
from tests.golden.shapes import Describer


@pytest.fixture(scope="module")
def kept() -> Any:
    """The names of today, as the file has them once what is new was added."""
    return msgspec.json.decode(msgspec.json.encode(names.names()))


def test_every_name_is_the_one_that_was_promised() -> None:
    kept = msgspec.json.decode(FILE.read_bytes())
    assert not (found := list(broken(kept))), "\n".join([*found, "add what is new: python -m tests.golden.names"])


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ("stored", "journal line"),
        ("sent", "error"),
        ("routes", "GET /v1/memories"),
        ("settings", "recall.ranker"),
        ("commands", "mnemo add"),
        ("tools", "memory_recall"),
        ("titles of tools", "memory_recall"),
    ],
)
def test_a_name_that_is_not_documented_and_a_missing_documented_name_are_reported(
    kept: Any, section: str, name: str
) -> None:
    before = {**kept, section: {each: value for each, value in kept[section].items() if each != name}}
    assert list(broken(before)) == [f"{section}: {name} is new"]
    after = {**kept, section: {**kept[section], "the old name": kept[section][name]}}
    assert list(broken(after)) == [f"{section}: the old name is gone"]


@pytest.mark.parametrize("section", ["errors", "rankers", "variables"])
def test_a_missing_error_code_and_a_missing_ranker_are_reported(kept: Any, section: str) -> None:
    assert list(broken({**kept, section: {**kept[section], "x": {}}})) == [f"{section}: x is gone"]


def test_a_title_of_a_tool_and_a_component_of_the_openapi_document_are_pinned(kept: Any) -> None:
    titles = {**kept["titles of tools"], "memory_get": {"": "abcdef"}}
    (found,) = broken({**kept, "titles of tools": titles})
    assert found == "titles of tools: memory_get. was another one; it is now Get one memory"
    components = {**kept["openapi components"]["schemas"], "OldAnswer": ""}
    assert list(broken({**kept, "openapi components": {**kept["openapi components"], "schemas": components}})) == [
        "openapi components: schemas: OldAnswer is gone"
    ]


class Was(msgspec.Struct, tag_field="record_type", tag="was", omit_defaults=True):
    id: str
    at: int = 0
    of: Literal["a", "b"] = "a"
    more: list["Was"] = []


class OtherTag(msgspec.Struct, tag_field="record_type", tag="is", omit_defaults=True):
    id: str
    at: int = 0
    of: Literal["a", "b"] = "a"
    more: list["OtherTag"] = []


class OtherFieldName(msgspec.Struct, tag_field="record_type", tag="was", omit_defaults=True):
    id: str
    when: int = 0
    of: Literal["a", "b"] = "a"
    more: list["OtherFieldName"] = []


class Other(msgspec.Struct, tag_field="record_type", tag="was", omit_defaults=True):
    id: str
    at: int = 1
    of: Literal["a", "c"] = "a"
    more: list["Other"] = []


class OneMoreValue(msgspec.Struct, tag_field="record_type", tag="was", omit_defaults=True):
    id: str
    at: int = 0
    of: Literal["c", "b", "a"] = "a"
    more: list["OneMoreValue"] = []


class AnotherClassName(msgspec.Struct, tag_field="record_type", tag="was", omit_defaults=True):
    id: str
    at: int = 0
    of: Literal["a", "b"] = "a"
    more: list["AnotherClassName"] = []


class OtherOrder(msgspec.Struct, tag_field="record_type", tag="was", omit_defaults=True):
    id: str
    of: Literal["a", "b"] = "a"
    at: int = 0
    more: list["OtherOrder"] = []


def kept_shape(kind: type, place: str) -> dict[str, str]:
    describer = Describer()
    describer.describe(kind, place)
    return names.kept(describer.shapes)[place]


@pytest.mark.parametrize(("place", "count"), [("x body", 0), ("x query", 0), ("x answer", 1), ("stored", 1)])
def test_only_a_request_may_have_its_fields_in_another_order(place: str, count: int) -> None:
    was, now = kept_shape(Was, place), kept_shape(OtherOrder, place)
    assert names.is_reordered(place, was, now) == bool(count)
    assert was == now
    assert kept_shape(OtherFieldName, place) != was


@pytest.mark.parametrize(
    ("kind", "gone", "new"),
    [
        (Was, [], []),
        (AnotherClassName, [], []),
        (OtherTag, ["tag"], ["tag"]),
        (OtherFieldName, ["at"], ["when"]),
        (Other, ["at", "of"], ["at", "of"]),
        (OneMoreValue, [], ["of"]),
    ],
)
def test_structs_are_compared_by_their_encoding_and_not_by_their_class_name(
    kind: type, gone: list[str], new: list[str]
) -> None:
    was, now = kept_shape(Was, "x body"), kept_shape(kind, "x body")

    def missing(here: dict[str, str], there: dict[str, str]) -> list[str]:
        return [part for part in here if set(here[part].split()) - set(there.get(part, "").split())]

    assert (missing(was, now), missing(now, was)) == (gone, new)


def test_the_command_adds_a_value_and_refuses_a_removed_one(
    kept: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value of a request field and a choice of an option may get more; none may go."""
    file = tmp_path / "names.json"
    monkeypatch.setattr(names, "FILE", file)
    now = names.written(names.names()) + "\n"
    shape, option = kept["shapes"]["POST /v1/recall body"], kept["commands"]["mnemo recall"]
    for one in (shape, option):
        part = next(name for name in one if "ranker" in name)
        first, *others = one[part].split()
        one[part] = " ".join(others)
        file.write_bytes(msgspec.json.encode(kept))
        assert names.main() == 0
        assert file.read_text(encoding="utf-8") == now
        one[part] = " ".join((first, *others, "abcdef"))
        file.write_bytes(msgspec.json.encode(kept))
        assert names.main() == 1
        assert file.read_bytes() == msgspec.json.encode(kept)
        one[part] = " ".join((first, *others))

"""No name that is stored, sent, set or typed changes: old stores, scripts and other programs rely on them.

What stands in tests/golden/names.json was promised. `python -m tests.golden.names` adds what is new, and nothing else.
"""

import re
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from tests.golden import names
from tests.golden.names import FILE, broken
from tests.golden.shapes import Describer, differences


@pytest.fixture(scope="module")
def kept() -> Any:
    return msgspec.json.decode(FILE.read_bytes())


def test_every_name_is_the_one_that_was_promised(kept: Any) -> None:
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
    assert list(broken({**kept, section: [*kept[section], "x"]})) == [f"{section}: x is gone"]


def test_a_title_of_a_tool_and_a_component_of_the_openapi_document_are_pinned(kept: Any) -> None:
    titles = {**kept["titles of tools"], "memory_get": "Fetch"}
    assert list(broken({**kept, "titles of tools": titles})) == [
        "titles of tools.memory_get was Fetch and is Get one memory"
    ]
    components = {**kept["openapi components"], "schemas": [*kept["openapi components"]["schemas"], "OldAnswer"]}
    assert list(broken({**kept, "openapi components": components})) == ["openapi components.schemas: OldAnswer is gone"]


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


def test_only_a_request_may_have_its_fields_in_another_order() -> None:
    for place, count in (("POST /v1/x body", 0), ("GET /v1/x query", 0), ("POST /v1/x answer", 1), ("stored", 1)):
        describer = Describer()
        form = describer.describe(Was, place)
        assert len(list(differences(form, OtherOrder, describer.shapes, place))) == count
    describer = Describer()
    form = describer.describe(Was, "x body")
    assert list(differences(form, OtherFieldName, describer.shapes, "x body"))


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        (Was, []),
        (AnotherClassName, []),
        (OtherTag, ["x was encoded as"]),
        (OtherFieldName, ["x had the fields id, at, of, more", "x.when is new"]),
        (Other, ["x.at had {'default': 0}", "x.of: the value b is gone", "x.of: the value c is new"]),
        (OneMoreValue, ["x.of: the value c is new"]),
    ],
)
def test_structs_are_compared_by_their_encoding_and_not_by_their_class_name(kind: type, seen: list[str]) -> None:
    describer = Describer()
    form = describer.describe(Was, "x")
    found = list(differences(form, kind, describer.shapes, "x"))
    assert len(found) == len(seen)
    assert all(sentence.startswith(begin) for sentence, begin in zip(found, seen, strict=True)), found


def test_the_command_adds_a_ranker_and_refuses_a_removed_one(
    kept: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ranker is a name of the table, a value of request fields and settings, and a choice of options."""
    file = tmp_path / "names.json"
    monkeypatch.setattr(names, "FILE", file)
    now = FILE.read_text(encoding="utf-8")
    file.write_text(re.sub(r'(?<="layered"),\s*"rerank"(?=[],])', "", now), encoding="utf-8")
    assert names.main() == 0
    assert file.read_text(encoding="utf-8") == now
    more = re.sub(r'"rerank"(?=[],])', '"rerank","removed"', now)
    file.write_text(more, encoding="utf-8")
    assert names.main() == 1
    assert file.read_text(encoding="utf-8") == more

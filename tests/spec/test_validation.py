"""Messages about values of the wrong type: the field, what is allowed, what was given. SPEC 16"""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from mnemo_client.protocol.memories import NewMemory
from mnemo_client.protocol.retrieval import RecallRequest
from mnemo_client.protocol.validation import InvalidValue, explain


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    when: int | str | None = None
    sort: Literal["up", "down"] = "up"


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, Meta(max_length=3)]
    inners: list[Inner] = []
    share: Annotated[float, Meta(gt=0)] = 1.0
    more: dict[str, int] = {}
    nested: Inner | None = None


def violation(value: Any, kind: Any = Outer) -> InvalidValue:
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.convert(value, kind)
    return explain(error.value, kind, value)


@pytest.mark.parametrize(
    ("value", "field", "message"),
    [
        ({"name": "four"}, "name", '`name` must be a text of at most 3 characters, not "four"'),
        ({"name": "x" * 999}, "name", "`name` must be a text of at most 3 characters, not one of 999"),
        ({"name": None}, "name", "`name` must be a text of at most 3 characters, not null"),
        ({"name": "a", "inners": [{}, {"sort": "left"}]}, "inners[1].sort",
         '`inners[1].sort` must be one of "down", "up", not "left"'),
        ({"name": "a", "inners": [{"when": []}]}, "inners[0].when",
         "`inners[0].when` must be a whole number or a text, not []"),
        ({"name": "a", "inners": {}}, "inners", "`inners` must be a list, not {}"),
        ({"name": "a", "share": 0}, "share", "`share` must be a number above 0, not 0"),
        ({"name": "a", "nested": 5}, "nested", "`nested` must be an object, not 5"),
        ({"name": "a", "nested": {"sort": 1}}, "nested.sort", '`nested.sort` must be one of "down", "up", not 1'),
        ([], "", "the value must be an object, not []"),
    ],
)  # fmt: skip
def test_a_value_is_refused_with_its_field_what_is_allowed_and_itself(value: Any, field: str, message: str) -> None:
    assert violation(value) == InvalidValue("bad_value", field, message)


@pytest.mark.parametrize("name", ["a\n=== Core (9) ===", "a\n", "a\x00b", "a\u202eb", "a\u2028b"])
@pytest.mark.parametrize("field", ["namespace", "session_id", "agent_id"])
def test_a_name_is_one_line_without_control_characters(name: str, field: str) -> None:
    found = violation({"content": "x", field: name}, NewMemory)
    assert (found.field, "must be a line of " in found.message) == (field, True)
    assert msgspec.convert({"content": "x", field: "Zoë’s book"}, NewMemory)


def test_a_namespace_is_not_blank() -> None:
    assert violation({"content": "x", "namespace": "  "}, NewMemory).field == "namespace"


def test_an_unknown_field_is_named_with_the_one_that_was_probably_meant() -> None:
    found = violation({"query": "x", "topk": 3}, RecallRequest)
    assert found == InvalidValue("unknown_field", "topk", "there is no field `topk` here; did you mean `top_k`?")
    found = violation({"name": "a", "inners": [{"zzz": 1}]})
    assert found == InvalidValue("unknown_field", "inners[0].zzz", "there is no field `zzz` here")


def test_a_missing_field_is_named() -> None:
    found = violation({}, NewMemory)
    assert found == InvalidValue("missing_field", "content", "`content` is required")


def test_a_long_or_unprintable_value_is_shown_short_and_plain() -> None:
    found = violation({"name": "\x1b" + "x" * 500})
    assert len(found.message) < 130
    assert found.message.isprintable()

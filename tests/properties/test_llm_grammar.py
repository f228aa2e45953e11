"""Every text that a grammar allows parses strictly into the answer type, whatever the type. SPEC 4.2"""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from mnemo_core.llm.grammar import UnboundedType, grammar_of
from mnemo_core.llm.registry import TASKS
from mnemo_core.llm.tasks import AnyTask
from tests.support.gbnf_sampler import texts_of

FIELD_NAMES = st.sampled_from(["a", "name", "not in it", "a-b", "größe", "名"])


@st.composite
def strings(draw: st.DrawFn) -> Any:
    least = draw(st.integers(0, 3))
    return Annotated[str, Meta(min_length=least, max_length=least + draw(st.integers(0, 4)))]


@st.composite
def integers(draw: st.DrawFn) -> Any:
    least = draw(st.integers(-300, 300))
    return Annotated[int, Meta(ge=least, le=least + draw(st.integers(0, 12)))]


@st.composite
def lists(draw: st.DrawFn, items: st.SearchStrategy[Any]) -> Any:
    least = draw(st.integers(0, 3))
    most = max(1, least + draw(st.integers(0, 2)))
    item = draw(items)
    return Annotated[draw(st.sampled_from([list[item], tuple[item, ...]])), Meta(min_length=least, max_length=most)]  # type: ignore[valid-type]


@st.composite
def structs(draw: st.DrawFn, fields: st.SearchStrategy[Any]) -> Any:
    names = draw(st.lists(FIELD_NAMES, min_size=1, max_size=4, unique=True))
    rename = {f"field_{number}": name for number, name in enumerate(names)}
    return msgspec.defstruct(
        "Drawn", [(name, draw(fields)) for name in rename], rename=rename, forbid_unknown_fields=True
    )


PLAIN = st.one_of(
    strings(), integers(), st.just(bool), st.just(Literal["yes", "no", 'per "haps"']), st.just(Literal[1, 2, 3]),
    strings().map(lambda kind: kind | None),
)  # fmt: skip
ANSWERS = structs(st.recursive(PLAIN, lambda inner: lists(inner) | structs(inner), max_leaves=4))


@given(st.data())
def test_every_text_of_a_grammar_parses_strictly(data: st.DataObject) -> None:
    answer = data.draw(ANSWERS)
    text = data.draw(texts_of(grammar_of(answer)))
    parsed = msgspec.json.decode(text.encode(), type=answer)
    assert msgspec.json.decode(msgspec.json.encode(parsed), type=answer) == parsed


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.site)
@given(data=st.data())
def test_every_text_of_a_tasks_grammar_is_an_answer_of_the_task(task: AnyTask, data: st.DataObject) -> None:
    text = data.draw(texts_of(grammar_of(task.answer)))
    assert type(msgspec.json.decode(text.encode(), type=task.answer)) is task.answer


@pytest.mark.parametrize(
    "kind",
    [
        str,
        int,
        float,
        list[bool],
        dict[str, bool],
        Annotated[str, Meta(max_length=100_000)],
        Annotated[str, Meta(max_length=10, pattern="a+")],
        Annotated[int, Meta(ge=0, le=100_000)],
        Annotated[int, Meta(ge=0)],
        Annotated[int, Meta(gt=0, le=5)],
        Annotated[list[str], Meta(max_length=3)],
    ],
    ids=str,
)
def test_a_type_without_bounds_is_refused_with_the_place(kind: Any) -> None:
    answer = msgspec.defstruct("Loose", [("fine", bool), ("loose", kind)])
    with pytest.raises(UnboundedType, match=r"Loose\.loose"):
        grammar_of(answer)

"""Edits of JSON with comments: an insertion and its removal leave every character, whatever the text looks like."""

import json
import random
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from mnemo_client.cli.agent_setup.json_text import insert_value, read_json, remove_value, replace_value

GAPS = ("", " ", "\n", "\n    ", "\t", "\r\n  ", " // note {\n", "/* , } */", '\n// "x": 1,\n  ')
NAMES = ("a", "b", "mcpServers", "é", 'q"uote', "back\\slash", "")
SCALARS = ("1", "-2.5e3", "true", "null", '"text // no comment"', '"}"', '"\\u00e9\\""')


def written(chance: random.Random, depth: int) -> str:
    """The text of a value, with gaps, comments and perhaps trailing commas."""
    kind = chance.choice(["scalar", "object", "array"]) if depth else "scalar"
    return chance.choice(SCALARS) if kind == "scalar" else container(chance, depth, kind)


def container(chance: random.Random, depth: int, kind: str) -> str:
    items = []
    for name in chance.sample(NAMES, chance.randrange(4)):
        key = json.dumps(name) + chance.choice(GAPS) + ":" + chance.choice(GAPS) if kind == "object" else ""
        items.append(chance.choice(GAPS) + key + written(chance, depth - 1) + chance.choice(GAPS))
    inner = ",".join(items)
    if items and chance.random() < 0.5:
        inner += "," + chance.choice(GAPS)
    # A gap of blanks alone in an empty container is not kept.
    inner = inner or chance.choice(["", "/* none */", " // none\n"])
    return "{" + inner + "}" if kind == "object" else "[" + inner + "]"


def objects() -> st.SearchStrategy[str]:
    """Texts of objects, each from a seed."""

    def text(seed: int) -> str:
        chance = random.Random(seed)
        return chance.choice(GAPS) + container(chance, 3, "object") + chance.choice(GAPS)

    return st.integers(0, 2**32).map(text)


@given(text=objects(), deep=st.booleans())
@example(text='{"a": 1 // x\n}', deep=False)
@example(text="{ // x\n}", deep=True)
def test_an_inserted_member_is_there_and_its_removal_leaves_the_text(text: str, deep: bool) -> None:
    path = ("new", "mnemo") if deep else ("mnemo",)
    before = read_json(text).value
    added = insert_value(text, path, {"command": "x", "args": ["mcp"]}, is_element=False)
    entry: Any = {"command": "x", "args": ["mcp"]}
    assert read_json(added).value == {**before, path[0]: {"mnemo": entry} if deep else entry}
    assert remove_value(added, path[:1]) == text
    assert read_json(replace_value(added, path, [1])).value == {**before, path[0]: {"mnemo": [1]} if deep else [1]}


@given(text=objects(), number=st.integers(1, 2))
def test_inserted_elements_are_there_and_their_removal_leaves_the_text(text: str, number: int) -> None:
    before = read_json(text).value
    added = text
    for count in range(number):
        added = insert_value(added, ("hooks", "Stop"), {"n": count}, is_element=True)
    assert read_json(added).value == {**before, "hooks": {"Stop": [{"n": count} for count in range(number)]}}
    for count in range(number - 1, 0, -1):
        added = remove_value(added, ("hooks", "Stop", count))
    assert remove_value(added, ("hooks",)) == text


@given(text=objects())
def test_the_value_is_that_of_the_text_without_comments(text: str) -> None:
    plain = read_json(text).value
    assert read_json(json.dumps(plain)).value == plain == json.loads(json.dumps(plain))

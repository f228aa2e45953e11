"""One day's answers, ranks and scores, and what it leaves on the disk, are what they were.

Whoever changes one of them on purpose says why, and writes the day again: `python -m tests.golden.day`.
"""

import json
from typing import Any

import pytest

from tests.golden.day import FILE, lived, named, unlike


def test_the_pinned_day_comes_to_what_it_came_to() -> None:
    kept = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    now = [json.loads(json.dumps(line)) for line in lived()]
    found = [each for was, line in zip(kept, now, strict=False) for each in unlike(was, line, named(was))]
    assert not found, "\n".join(found[:40])
    assert [named(line) for line in now] == [named(line) for line in kept]


@pytest.mark.parametrize(
    ("now", "seen"),
    [
        ({"a": 1, "b": [0.5, "x"]}, []),
        ({"a": 1, "b": [0.5001, "x"]}, []),
        ({"a": 1, "b": [0.51, "x"]}, [".b[0] was 0.5 and is 0.51"]),
        ({"b": [0.5, "x"], "a": 1}, [" had a, b and has b, a"]),
        ({"a": True, "b": [0.5, "x"]}, [".a was 1 and is True"]),
        ({"a": 2, "b": [0.5]}, [".a was 1 and is 2", ".b had 2 and has 1"]),
    ],
)
def test_an_entry_that_differs_from_the_golden_file_is_reported_with_its_place(now: Any, seen: list[str]) -> None:
    assert sorted(unlike({"a": 1, "b": [0.5, "x"]}, now)) == seen

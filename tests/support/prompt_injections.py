"""Texts that try to be more than data: instructions, chat templates, forged frames, tags, invisible characters."""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parents[1] / "fixtures" / "injections.jsonl"


class Injection(NamedTuple):
    """A text and the kind of its trick."""

    kind: str
    text: str


@cache
def injections() -> tuple[Injection, ...]:
    """All of them; a third value of a line says how often its text is repeated."""
    rows = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    return tuple(Injection(kind, text * (times[0] if times else 1)) for kind, text, *times in rows)

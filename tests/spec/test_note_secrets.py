"""Secrets in notes: four sets of 150 passages with 50 secrets each. SPEC 5.1

All but `dev` were written without the code, and measured before anything was changed for them: 26 (heldout), 21 (third)
and 32 (fourth) of 50 were found then, with 0, 3 and 0 false alarms.
"""

import json
from pathlib import Path

import pytest

from mnemo_core.text.note_secrets import find_note_secrets

SETS = Path(__file__).parents[1] / "fixtures" / "intake"


def found_in(name: str) -> tuple[int, int]:
    """The number of secrets of a set that are found, and of passages without one in which something is."""
    found, false = 0, 0
    for row in map(json.loads, (SETS / f"note_secrets_{name}.jsonl").read_text(encoding="utf-8").splitlines()):
        spans = find_note_secrets(row["text"])
        if row["secret"] is None:
            false += bool(spans)
            continue
        start = row["text"].index(row["secret"])
        found += any(span.start < start + len(row["secret"]) and start < span.end for span in spans)
    return found, false


@pytest.mark.parametrize(("name", "least"), [("dev", 50), ("heldout", 44), ("third", 32), ("fourth", 41)])
def test_secrets_that_a_note_names_are_found_and_at_most_one_alarm_in_a_hundred_is_false(name: str, least: int) -> None:
    found, false = found_in(name)
    assert found >= least
    assert false <= 1


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("The router's password is `plover-harbour-91`.", "plover-harbour-91"),
        ("PIN of the card 4711 is 8852", "8852"),
        ("Rent goes to DE89 3704 0044 0532 0130 00", "DE89 3704 0044 0532 0130 00"),
        ("Printer: login admin / kiwi$tree7", "kiwi$tree7"),
        ("| site | password |\n|---|---|\n| shop | otter-lamp |", "otter-lamp"),
        ("site | secret\n--- | ---\nshop | wx_83hTqL", "wx_83hTqL"),
        ("Recovery codes\n- 4f7k 9d2m\n- 11aa 22bb", "4f7k 9d2m"),
    ],
)  # fmt: skip
def test_the_secret_alone_is_marked(text: str, secret: str) -> None:
    assert text[slice(*find_note_secrets(text)[0][1:])] == secret


@pytest.mark.parametrize(
    "text",
    [
        "The password is in the safe.", "DE89 3704 0044 0532 0130 01", "PIN: four digits, ask Eva",
        "Call +1 312 555 0148, the code of the door is new.", "| Pass | Fail |\n|---|---|\n| a = b | 2 |",
        "code 404", "password: <your password>", "| a | password |\n|---|---|\n| b | - |",
    ],
)  # fmt: skip
def test_what_is_no_secret_is_left(text: str) -> None:
    assert find_note_secrets(text) == []

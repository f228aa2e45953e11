"""The gate for turns: what says nothing and what only machines say is set aside, and nothing else. SPEC 5.7

The labelled turns (fixtures/intake/turns.jsonl) have two halves: `tuned`, against which the lists and patterns were
improved, and `held`, by which nothing was. The one held row that led to a mending was moved to the tuned half, and new
ones were written in its place.
"""

import json
from pathlib import Path

import pytest

from mnemo_core.ingest.signals.noise_filter import reject_reason
from tests.support.time_complexity import require_linear

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "fixtures" / "intake" / "turns.jsonl").read_text("utf-8").splitlines()
]
VPN = "The VPN refuses connections on port 443 since the update, use 8443"


def test_T2_the_noise_filter_names_the_reason_of_a_rejection() -> None:
    assert reject_reason("👍") == "too_short"
    assert reject_reason(" \n") == "too_short"
    assert reject_reason("ok thanks") == "stop_words"
    assert reject_reason("the of and") == "stop_words"
    assert reject_reason("Error: connect ECONNREFUSED 127.0.0.1:5432") == "infrastructure_noise"


@pytest.mark.parametrize(
    "text", [VPN, "Lisbon.", "Tuesday at 5", "yes, the blue one", "47", "B", "never again", "call me Jo"]
)
def test_a_short_answer_with_something_in_it_stays(text: str) -> None:
    assert reject_reason(text) is None


def test_a_trace_is_noise_unless_a_person_comments_on_it() -> None:
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    go()\nValueError: x'
    assert reject_reason(trace) == "infrastructure_noise"
    assert reject_reason(trace + "\nThis began when Marta renamed the column.") is None


def test_a_preference_of_stop_words_alone_stays() -> None:
    assert reject_reason("more of that") == "stop_words"
    assert reject_reason("no more of that") is None


@pytest.mark.parametrize(
    "text", ["是的" * 60 + "鳥", "哈" * 160, "a" * 160, "\n" * 1000 + "x", "100% " * 30, "(" * 160]
)
def test_a_text_made_to_be_slow_is_filtered_at_once(text: str) -> None:
    require_linear(reject_reason, text, units_max=40)
    require_linear(reject_reason, (text + " ") * 2000, units_max=400)


@pytest.mark.parametrize(("part", "worthy_kept_min", "noise_dropped_min"), [("tuned", 1.0, 0.99), ("held", 0.99, 0.93)])
def test_worthy_turns_are_kept_and_noise_is_dropped(
    part: str, worthy_kept_min: float, noise_dropped_min: float
) -> None:
    rows = [row for row in ROWS if row["part"] == part]
    worthy = [row["text"] for row in rows if row["worthy"]]
    chatter = [row["text"] for row in rows if not row["worthy"]]
    lost = [text for text in worthy if reject_reason(text)]
    dropped = [text for text in chatter if reject_reason(text)]
    kept = len(worthy) - len(lost)
    left = len(chatter) - len(dropped)
    print(f"\n{part}: {len(worthy)} worthy: recall {kept / len(worthy):.3f}, precision {kept / (kept + left):.3f}")
    precision = len(dropped) / (len(dropped) + len(lost))
    print(f"{part}: {len(chatter)} noise: recall {len(dropped) / len(chatter):.3f}, precision {precision:.3f}")
    print(*(f"lost: {text!r}" for text in lost), sep="\n")
    assert len(rows) >= 100
    assert kept / len(worthy) >= worthy_kept_min
    assert len(dropped) / len(chatter) >= noise_dropped_min

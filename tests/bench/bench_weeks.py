"""Weeks of a person in simulated time: statements are remembered as they come, and questions asked in between. SPEC 11

    python -m tests.bench.bench_weeks FILE [--show]

Each line of FILE is, separated by tabs: the local time, `add` or `ask`, the text, and for a question the words that the
first quote must have (alternatives separated by `|`, several by `; `, `-` where nothing that was said answers it) and,
if given, words that it must not have. The answer to an agenda question may be in all its quotes. The daemon runs with
the real embedding model and without a language model, and its jobs run between the lines. --show prints what went
wrong, which nobody does with a held-out file.
"""

import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench import harness
from tests.bench.bench_day import ModelWorld
from tests.bench.bench_month import MonthClock, rows_of, words_of
from tests.bench.tables import show
from tests.simulation.world import in_simulated_time, place_for_worlds

VERDICTS = ("right", "wrong", "refused", "rightly refused", "made up")


class AskedLine(NamedTuple):
    """A question of the file, with what its answer must and must not say."""

    text: str
    must: tuple[tuple[str, ...], ...]
    never: tuple[str, ...]


def asked_line(cells: Sequence[str]) -> AskedLine:
    text, must, never = (*cells, "", "")[2:5]
    return AskedLine(text, words_of(must), tuple(word for some in words_of(never) for word in some))


def verdict(asked: AskedLine, answer: dict[str, Any]) -> str:
    """Return one of VERDICTS: a quote that says until when a former value held is no claim of it."""
    if answer["abstained"]:
        return "refused" if asked.must else "rightly refused"
    if not asked.must:
        return "made up"
    sentences = [str(each["text"]).casefold() for each in answer["sentences"]]
    is_met = all(any(word in said for word in words for said in sentences) for words in asked.must)
    first = sentences[0]
    return "right" if is_met and not any(word in first for word in asked.never) else "wrong"


def main(file: Path, *, show_: bool = False) -> None:
    rows, found = rows_of(file), Counter[str]()
    with tempfile.TemporaryDirectory(dir=place_for_worlds()) as scratch:
        world = ModelWorld(Path(scratch), random.Random(file.stem))
        world.map_bytes = 1 << 30
        with in_simulated_time(world.clock):
            world.begin_at(datetime.fromisoformat(rows[0][0]).replace(tzinfo=UTC))
            world.open()
            clock = MonthClock(world)
            for cells in rows:
                clock.wait_until(datetime.fromisoformat(cells[0]).replace(tzinfo=UTC))
                world.step()
                if cells[1] == "add":
                    answer = world.ask("POST", "/v1/memories", {"content": cells[2]}, entry_point="cli")
                    if not answer.is_ok:
                        raise SystemExit(f"{cells[2]}: {answer.value}")
                    continue
                asked = asked_line(cells)
                said = world.ask("POST", "/v1/ask", {"question": asked.text}, entry_point="cli").value
                outcome = verdict(asked, said)
                found[outcome] += 1
                if show_ and outcome in ("wrong", "refused", "made up"):
                    print(
                        f"{outcome}: [{cells[0]}] {asked.text} {asked.must} {asked.never}\n    {said['answer']!r:.300}"
                    )
            world.throw_away()
    show(f"{sum(found.values())} questions", ("count",), {name: [str(found[name])] for name in VERDICTS})


if __name__ == "__main__":
    harness.run(main)

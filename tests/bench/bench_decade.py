"""Ten years of a person with the whole daemon, in simulated time: what is found, moved, kept, and how long cycles take.

    python -m tests.bench.bench_decade [--epochs 10000] [--memories 50000] [--facts 1000] [--recalls 20000] [--seed 1]
        [--vectors FILE]

FILE keeps the vectors of the texts, so that a second run embeds nothing; the texts of a seed are always the same. The
language model has one character after the other: good, absent, random, hostile. It fails where a fact is not found.
"""

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mnemo_client.paths import models_folder
from tests.bench import harness
from tests.bench.tables import show
from tests.simulation.decade import Decade, DecadeReport, VectorCache, cached_minilm
from tests.simulation.person_years import YearsPlan
from tests.simulation.world import place_for_worlds

BANDS = 5  # of the number of memories, for the time of cycles
LOST_SHOWN = 20
OTHERS = 500  # memories besides the planted facts that are looked for by their own text


def main(
    *, epochs: int = 10_000, memories: int = 50_000, facts: int = 1000, recalls: int = 20_000, years: float = 10.0,
    seed: int = 1, crashes: float = 0.01, vectors: Path | None = None,
) -> int:  # fmt: skip
    plan = YearsPlan(epochs, memories, facts, recalls, years)
    cache, models = VectorCache(vectors), models_folder(os.environ)
    with tempfile.TemporaryDirectory(prefix="m", dir=place_for_worlds()) as folder:
        embedder = cached_minilm(models, cache)
        decade = Decade(Path(folder), seed, plan, embedder, models, crashes=crashes, others=OTHERS)
        decade.on_progress = _Progress(plan.blocks)
        try:
            report = decade.live()
        finally:
            cache.save()
            _show(decade)
    for each in report.lost[:LOST_SHOWN]:
        print(each)
    print(f"{len(report.lost)} of {report.told} values told were not found")
    return 1 if report.lost else 0


class _Progress:
    """Tells now and then how far the years have come."""

    def __init__(self, blocks: int) -> None:
        self._blocks, self._began = blocks, time.perf_counter()

    def __call__(self, block: int, memories: int) -> None:
        if block % max(1, self._blocks // 20) == 0:
            seconds = time.perf_counter() - self._began
            print(f"  block {block:,}: {memories:,} memories, {seconds:.0f} s so far", flush=True)


def _show(decade: Decade) -> None:
    report = decade.report
    for title, counts in (
        ("happened", report.did), ("outcomes", report.outcomes), ("moves", decade.world.watch.moves),
        ("calls of the language model", decade.world.scripted.asked), ("at the end", report.at_end),
    ):  # fmt: skip
        print(f"\n{title}: {_said(counts)}")
    print("seconds: " + ", ".join(f"{name} {value:.0f}" for name, value in report.seconds.items()))
    _show_cycles(decade.world.slice_seconds)
    _show_steps(report)


def _said(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda each: -each[1]))


def _show_cycles(slices: Sequence[tuple[int, float]]) -> None:
    """Milliseconds of the cycles' steps, by the number of memories that there were."""
    if len(slices) < BANDS:
        return
    rows = {}
    for band in np.array_split(np.array(slices), BANDS):
        found = band[:, 1] * 1000
        rows[f"{int(band[0, 0]):,} to {int(band[-1, 0]):,}"] = [
            f"{np.median(found):.1f}", f"{np.percentile(found, 95):.1f}", f"{found.max():.0f}", len(band)
        ]  # fmt: skip
    show("Milliseconds of a step of a cycle, by the number of memories", ["p50", "p95", "max", "steps"], rows)


def _show_steps(report: DecadeReport) -> None:
    """The counts of the steps of all cycles together."""
    for name, counts in report.steps.items():
        print(f"  {name}: {_said(counts)}")


if __name__ == "__main__":
    harness.run(main)

"""Shares with their intervals, and tables of them: what the benchmarks of recall print."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, get_args

import numpy as np

from mnemo_client.protocol.choices import Ranker
from mnemo_client.protocol.retrieval import RecallAnswer

RANKERS: tuple[Ranker, ...] = get_args(Ranker)
RESAMPLES = 2000
SEED = 11
COVERED = 0.95  # of the resampled means lie within an interval


class Share(NamedTuple):
    """A mean over questions and its bootstrap interval, all times 100."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:5.1f} [{self.low:5.1f}, {self.high:5.1f}]"


def share(values: Sequence[float]) -> Share:
    """The mean of one value a question, 0 to 1, and where 95% of the means of resampled questions lie."""
    if not values:
        return Share(float("nan"), float("nan"), float("nan"))
    means = _resampled(np.asarray(values, np.float64))
    low, high = np.quantile(means, ((1 - COVERED) / 2, (1 + COVERED) / 2))
    return Share(100 * float(np.mean(values)), 100 * float(low), 100 * float(high))


def difference(values: Sequence[float], others: Sequence[float]) -> Share:
    """The difference of the first mean and the second, over the same questions in the same order."""
    return share([value - other for value, other in zip(values, others, strict=True)])


def _resampled(values: np.ndarray) -> np.ndarray:
    """Of the same seed for every call, so that two tables of one run are of the same resampled questions."""
    chance = np.random.default_rng(SEED)
    return np.array([values[chance.integers(0, len(values), len(values))].mean() for _ in range(RESAMPLES)])


def percentiles(milliseconds: Sequence[float], places: Sequence[int] = (50, 95)) -> str:
    found = np.percentile(milliseconds, places)
    return "  ".join(f"p{place} {value:.2f}" for place, value in zip(places, found, strict=True)) + " ms"


def show(title: str, columns: Sequence[str], rows: Mapping[str, Sequence[object]]) -> None:
    """A table as Markdown has them, so that it can be put in a page as it is."""
    written = {name: [str(value) for value in row] for name, row in rows.items()}
    widths = [max(map(len, column)) for column in zip(columns, *written.values(), strict=True)]
    first = max(map(len, ("", *written)))
    print(f"\n{title}\n")
    print(_line("", columns, first, widths))
    print(f"|{'-' * (first + 2)}|" + "|".join(f"{'-' * (width + 1)}:" for width in widths) + "|")
    for name, row in written.items():
        print(_line(name, row, first, widths), flush=True)


def _line(name: str, row: Iterable[str], first: int, widths: Sequence[int]) -> str:
    cells = " | ".join(value.rjust(width) for value, width in zip(row, widths, strict=True))
    return f"| {name.ljust(first)} | {cells} |"


def hits(ranked: Sequence[str], right: Collection[str]) -> dict[str, float]:
    """True if one of the right ones is among the first 1, 5 and 10, and one over the place of the first."""
    place = next((at for at, name in enumerate(ranked, start=1) if name in right), 0)
    found = {f"hit@{k}": float(0 < place <= k) for k in (1, 5, 10)}
    return {**found, "MRR": 1 / place if place else 0.0}


def show_hits(title: str, found: Mapping[Ranker, Sequence[Mapping[str, float]]]) -> None:
    """A row a ranker: the hits of its questions, and by how much the first ranker is ahead of it."""
    first, rows = next(iter(found)), dict[str, list[object]]()
    for ranker, answers in found.items():
        columns = {name: [each[name] for each in answers] for name in answers[0]}
        best = {name: [each[name] for each in found[first]] for name in ("hit@1", "hit@10")}
        ahead = [difference(values, columns[name]) if ranker != first else "" for name, values in best.items()]
        rows[ranker] = [*map(share, columns.values()), *ahead]
    names = next(iter(found.values()))[0]
    show(f"{title}: {len(found[first])} questions, % [95% interval]",
         [*names, f"hit@1: {first} ahead by", f"hit@10: {first} ahead by"], rows)  # fmt: skip


def rankers_named(text: str) -> tuple[Ranker, ...]:
    """`all`, or names with commas between. Raises ValueError with those there are."""
    names = RANKERS if text == "all" else tuple(text.split(","))
    unknown = set(names) - set(RANKERS)
    if unknown:
        raise ValueError(f"no such ranker: {', '.join(sorted(unknown))}; there are {', '.join(RANKERS)}")
    return tuple(ranker for ranker in RANKERS if ranker in names)


def fell_back(answer: RecallAnswer, ranker: Ranker) -> bool:
    """True if something else answered than was asked for, or only a part of it."""
    return bool(answer.degraded) or answer.ranker != ranker

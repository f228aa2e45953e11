"""`mnemo bench quality`: measures how well the rankers answer, without touching the user's memories.

It runs on a temporary daemon with the installed model; at the end, and on ^C, the daemon stops and its folder is
removed."""

import math
import os
import platform
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from mnemo_client.bench.datasets import Conversation, DatasetQuestion, load
from mnemo_client.cli import scratch_daemon
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.units import percent, plural
from mnemo_client.cli.terminal import Terminal, TextStyle, cell_width, pad, sanitize
from mnemo_client.client import Client
from mnemo_client.errors import UsageError
from mnemo_client.protocol.choices import RANKERS, Ranker
from mnemo_client.protocol.memories import NewMemory
from mnemo_client.protocol.primitives import FailureAnswer
from mnemo_client.protocol.status import StatusAnswer

KS = (1, 5, 10, 50)
METRICS = ("R@1", "R@5", "R@10", "R@50", "all@10", "nDCG@10", "MRR")
GAIN_K = 10  # of nDCG
RESAMPLES = 1000
COVERED = 0.95
SEED = 11

ANSWERS = 50
BATCH = 500
POOL = "all"  # the namespace of pooled conversations
VECTORS_SECONDS = 6 * 3600.0
SHOWN_BY_CATEGORY = "R@10"
COMPARED = "R@10"


class Mean(NamedTuple):
    """A mean over questions; 95% of the means of resampled questions are from `low` to `high`."""

    mean: float
    low: float
    high: float


def score(ranked: Sequence[str], evidence: Sequence[str]) -> dict[str, float]:
    """Return the metrics of one answer, each 0 to 1. evidence: at least one name; ranked: the names, best first."""
    right = set(evidence)
    places = [place for place, name in enumerate(ranked) if name in right]
    row = {f"R@{k}": sum(place < k for place in places) / len(right) for k in KS}
    row["all@10"] = float(sum(place < 10 for place in places) == len(right))
    ideal = sum(1 / math.log2(place + 2) for place in range(min(GAIN_K, len(right))))
    row["nDCG@10"] = sum(1 / math.log2(place + 2) for place in places if place < GAIN_K) / ideal
    row["MRR"] = 1 / (places[0] + 1) if places else 0.0
    return row


class Bootstrap:
    """Samples of `count` questions, drawn with replacement: the same samples for every metric and every ranker."""

    def __init__(self, count: int) -> None:
        chance = random.Random(SEED)
        self.count = count
        self._draws = (
            [itemgetter(*chance.choices(range(count), k=count)) for _ in range(RESAMPLES)] if count > 1 else []
        )

    def mean(self, values: Sequence[float]) -> Mean:
        """Return the mean of one value for each question. The interval of a single question is its value."""
        assert len(values) == self.count
        mean = math.fsum(values) / self.count
        if not self._draws:
            return Mean(mean, mean, mean)
        means = sorted(sum(draw(values)) / self.count for draw in self._draws)
        return Mean(mean, _quantile(means, (1 - COVERED) / 2), _quantile(means, (1 + COVERED) / 2))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the quantile of the values, interpolated between two of them."""
    return _quantile(sorted(values), share)


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


class PlacedQuestion(NamedTuple):
    """A question with its namespace and the ids of the memories that answer it."""

    question: DatasetQuestion
    namespace: str
    evidence: tuple[str, ...]


class RankerAnswer(NamedTuple):
    """The scores of one ranker for one question. is_other: another ranker answered, or without vectors."""

    row: dict[str, float]
    took_ms: float
    is_other: bool


class Machine(NamedTuple):
    """The version, model and machine of a measurement."""

    version: str
    model: str  # the embedding model; empty: none, answers are by words
    system: str
    python: str
    processor: str
    cores: int


def require_subcommand(_: CommandContext) -> int:
    raise UsageError("name a measurement", "mnemo bench quality --data FOLDER, or mnemo bench speed")


def quality(context: CommandContext) -> None:
    options = context.options
    rankers = list(dict.fromkeys(options.ranker)) or list(RANKERS)
    conversations = load(context.path(options.data))
    with scratch_daemon.scratch_daemon(context, "bench") as client:
        puts = _store_turns(context.terminal, client, conversations, pooled=options.pooled)
        has_vectors = scratch_daemon.wait_for_vectors(context, client, VECTORS_SECONDS)
        machine = describe_machine(client.status(), has_vectors)
        found = _ask_all(context.terminal, client, puts, rankers)
    context.terminal.progress("computing the figures …")
    report = build_report(puts, found)
    context.terminal.clear_progress()
    turns = sum(len(each.turns) for each in conversations)
    measured = {
        "conversations": len(conversations), "memories": turns, "questions": len(puts), "pooled": options.pooled,
        "answers": ANSWERS, "machine": machine._asdict(), **report,
    }  # fmt: skip
    if not context.print_json_if_asked(measured):
        context.print(*quality_lines(measured, context.style))


def _store_turns(
    terminal: Terminal, client: Client, conversations: Sequence[Conversation], *, pooled: bool
) -> list[PlacedQuestion]:
    """Store every turn; return the questions with the ids of their evidence."""
    puts: list[PlacedQuestion] = []
    stored, count = 0, sum(len(each.turns) for each in conversations)
    for number, conversation in enumerate(conversations, start=1):
        namespace = POOL if pooled else f"{number}"
        ids: dict[str, str] = {}
        for start in range(0, len(conversation.turns), BATCH):
            part = conversation.turns[start : start + BATCH]
            memories = [
                NewMemory(
                    content=turn.text, speaker=turn.speaker, session_id=f"{number}-{turn.session}", event_at=turn.at,
                    namespace=namespace, key=f"{number}/{turn.id}",
                )
                for turn in part
            ]  # fmt: skip
            for turn, result in zip(part, client.remember_many(memories), strict=True):
                if isinstance(result, FailureAnswer):
                    why = result.error.message
                    raise UsageError(f"turn {turn.id} of {conversation.name} cannot be stored: {why}")
                ids[turn.id] = result.memory.id
            stored += len(part)
            terminal.progress(f"storing the turns: {percent(stored / count)}   (^C to stop)")
        puts += [
            PlacedQuestion(question, namespace, tuple(dict.fromkeys(ids[each] for each in question.evidence)))
            for question in conversation.questions
        ]
    return puts


def _ask_all(
    terminal: Terminal, client: Client, puts: Sequence[PlacedQuestion], rankers: Sequence[Ranker]
) -> dict[str, list[RankerAnswer]]:
    """Ask every question with every ranker, after one unmeasured request that computes the question's vector."""
    found: dict[str, list[RankerAnswer]] = {ranker: [] for ranker in rankers}
    for number, put in enumerate(puts, start=1):
        client.recall(put.question.text, namespace=put.namespace, dry=True)
        for ranker in rankers:
            answer = client.recall(
                put.question.text, top_k=ANSWERS, token_budget=None, namespace=put.namespace, dry=True, ranker=ranker
            )
            row = score([memory.id for memory in answer.memories], put.evidence)
            is_degraded = bool(answer.degraded) or answer.ranker != ranker
            found[ranker].append(RankerAnswer(row, answer.took_ms, is_degraded))
        terminal.progress(f"asking: {percent(number / len(puts))}   (^C to stop)")
    return found


# What came of it


def build_report(puts: Sequence[PlacedQuestion], found: Mapping[str, Sequence[RankerAnswer]]) -> dict[str, Any]:
    """Return for each ranker the mean of each metric with its interval, overall and by category, milliseconds, and the
    questions that another ranker answered; and the lead of the first ranker over each other one on the same
    questions."""
    categories: dict[str, list[int]] = {}
    for place, put in enumerate(puts):
        categories.setdefault(put.question.category, []).append(place)
    whole = Bootstrap(len(puts))
    parts = {name: Bootstrap(len(places)) for name, places in sorted(categories.items())}
    first = next(iter(found))
    report: dict[str, Any] = {"rankers": {}, "categories": {name: part.count for name, part in parts.items()}}
    for ranker, answers in found.items():
        took = [each.took_ms for each in answers]
        report["rankers"][ranker] = {
            **_means(whole, answers),
            "by_category": {
                name: _means(part, [answers[place] for place in categories[name]]) for name, part in parts.items()
            },
            "ms": {"p50": statistics.median(took), "p95": percentile(took, 0.95)},
            "answered_by_other": sum(each.is_other for each in answers),
        }
        if ranker != first:
            apart = [one.row[COMPARED] - other.row[COMPARED] for one, other in zip(found[first], answers, strict=True)]
            report["rankers"][ranker][f"behind_{first}"] = _in_percent(whole.mean(apart))
    return report


def _means(resampled: Bootstrap, answers: Sequence[RankerAnswer]) -> dict[str, dict[str, float]]:
    return {metric: _in_percent(resampled.mean([each.row[metric] for each in answers])) for metric in METRICS}


def _in_percent(mean: Mean) -> dict[str, float]:
    """Return a mean in percent."""
    return {name: round(100 * value, 2) for name, value in mean._asdict().items()}


def describe_machine(status: StatusAnswer, has_vectors: bool) -> Machine:
    """Return the description of the daemon that was measured, and of this machine."""
    model = status.models.get("embedding")
    return Machine(
        version=status.version,
        model=(model.name or "") if has_vectors and model is not None else "",
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
    )


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return " ".join(value.split())
    return platform.processor() or platform.machine()


# What is shown of it


def quality_lines(measured: Mapping[str, Any], style: TextStyle) -> Iterator[str]:
    """Yield the tables of every ranker, overall and by category, then notes on them."""
    rankers: Mapping[str, Any] = measured["rankers"]
    shape = "all in one namespace" if measured["pooled"] else "each in its own namespace"
    counts = (("conversation", "conversations"), ("memory", "memories"), ("question", "questions"))
    parts = [plural(measured[many], one, many) for one, many in counts]
    yield style.bold(f"{', '.join(parts)}; {shape}" if measured["conversations"] > 1 else ", ".join(parts))
    yield style.dim(machine_line(Machine(**measured["machine"])))
    yield ""
    rows = [["%", *METRICS, "ms"]]
    for name, each in rankers.items():
        rows.append([name, *(f"{each[metric]['mean']:.1f}" for metric in METRICS), f"{each['ms']['p50']:.1f}"])
        rows.append(["", *(interval(each[metric]) for metric in METRICS), ""])
    yield from right_table(rows, style)
    yield ""
    yield from right_table(list(_category_rows(measured)), style)
    yield ""
    yield style.dim("Below each mean: its 95% interval over resampled questions. ms: the median.")
    first, *others = rankers  # by question, the lead of the first is more certain than by two intervals
    for name in others:
        ahead = rankers[name][f"behind_{first}"]
        yield f"{COMPARED}: {first} {ahead['mean']:+.1f} over {name}, 95% {ahead['low']:+.1f} to {ahead['high']:+.1f}"
    for name, each in rankers.items():
        if each["answered_by_other"]:
            of = plural(each["answered_by_other"], "question")
            yield style.warn(f"{name}: {of} answered by another ranker or without vectors")


def _category_rows(measured: Mapping[str, Any]) -> Iterator[list[str]]:
    categories: Mapping[str, int] = measured["categories"]
    yield [SHOWN_BY_CATEGORY, *(sanitize(name) for name in categories)]
    yield ["questions", *(f"{count}" for count in categories.values())]
    for name, each in measured["rankers"].items():
        means = [each["by_category"][category][SHOWN_BY_CATEGORY] for category in categories]
        yield [name, *(f"{mean['mean']:.1f}" for mean in means)]
        yield ["", *(interval(mean) for mean in means)]


def interval(mean: Mapping[str, float]) -> str:
    """Return the interval in whole percents, rounded outward."""
    low, high = int(mean["low"] // 1), -int(-mean["high"] // 1)
    return f"{low}-{high}"


def machine_line(machine: Machine) -> str:
    model = machine.model or "no model, by words only"
    cores = plural(machine.cores, "core")
    return " · ".join([
        sanitize(model), f"mnemo {machine.version}", f"Python {machine.python}", machine.system,
        f"{sanitize(machine.processor)}, {cores}",
    ])  # fmt: skip


def right_table(rows: Sequence[Sequence[str]], style: TextStyle) -> Iterator[str]:
    """Yield a table with a bold first row, its first column aligned left, the others right."""
    widths = [max(cell_width(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        first, *others = zip(row, widths, strict=True)
        aligned = [pad(*first), *(" " * (width - cell_width(cell)) + cell for cell, width in others)]
        line = "  ".join(aligned).rstrip()
        yield style.bold(line) if number == 0 else line

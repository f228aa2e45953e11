"""`mnemo bench speed`: measures storing and recalling at several sizes and with several concurrent clients.

The texts are generated, three sentences each, and stored without deduplication. Every question is asked twice: first as
new, when it has to be embedded, then with its vector cached.
"""

import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mnemo_client.bench.quality import VECTORS_SECONDS, Machine, describe_machine, machine_line, percentile, right_table
from mnemo_client.cli import scratch_daemon
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.units import number_text, percent, plural, size_text
from mnemo_client.cli.terminal import TextStyle
from mnemo_client.client import Client
from mnemo_client.errors import UsageError
from mnemo_client.protocol.memories import NewMemory

SIZES = (1000, 10_000)
SIZE_MAX = 10_000_000
CLIENTS = (1, 8)
CLIENTS_MAX = 64
QUESTIONS = 300  # in each measurement, shared among its clients
TRACED = 100  # questions for the time of each stage
REMEMBERED = 100  # one by one
BATCH = 500
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_WHO = _words("Ada Ben Chiara Deniz Emil Farida Goran Hana Ines Jonas Kaja Lior Mina Nils Oriol Petra Rosa Sami Tomas")
_WHERE = _words("Bergen Bonn Cusco Dakar Ghent Hobart Izmir Kiel Leeds Lima Nantes Oulu Porto Quito Riga Seoul Tunis")
_WHAT = _words(
    "boiler bicycle contract garden invoice kitchen laptop passport piano printer recipe roof router schedule shed "
    "sofa telescope ticket tyre violin window workshop backup budget thesis greenhouse ferry dentist vaccine antenna"
)
_DID = _words("fixed moved ordered sold cleaned measured painted returned renewed cancelled booked tested lost found")
_WHY = (
    "because the old one leaked", "so that the guests can use it", "after a long talk", "before the audit",
    "although it was expensive", "for the second time this year", "with help from a neighbour", "to make room",
)  # fmt: skip


def speed(context: CommandContext) -> None:
    sizes = numbers(context.options.sizes, SIZES, SIZE_MAX, "--sizes")
    clients = numbers(context.options.clients, CLIENTS, CLIENTS_MAX, "--clients")
    measured: dict[str, Any] = {"sizes": []}
    terminal = context.terminal
    with scratch_daemon.scratch_daemon(context, "bench") as client:
        texts, questions, stored = _texts(), _questions(), 0
        for size in sizes:
            row: dict[str, Any] = {"memories": max(size, stored), "recall": []}
            row |= _fill(context, client, texts, size - stored, size)
            for count in clients:
                terminal.progress(f"asking at {number_text(size)}, {plural(count, 'client')}   (^C to stop)")
                asked = [next(questions) for _ in range(QUESTIONS)]
                row["recall"].append({"clients": count, **_measure_recall(client, asked, count)})
            row["stages_ms"] = _measure_stages(client, [next(questions) for _ in range(TRACED)])
            row["search"] = _percentiles([_measure_ms(client.search, next(questions)) for _ in range(TRACED)])
            row["remember"] = _percentiles([_measure_ms(client.remember, next(texts)) for _ in range(REMEMBERED)])
            status = client.status()
            row["disk_bytes"] = sum(count for part, count in status.disk.items() if part != "free")
            row["memory_private_bytes"] = status.memory_private_bytes
            stored = row["memories"] + REMEMBERED
            measured["sizes"].append(row)
        has_vectors = measured["sizes"][-1]["indexed_seconds"] is not None
        measured["machine"] = describe_machine(client.status(), has_vectors)._asdict()
    if not context.print_json_if_asked(measured):
        context.print(*speed_lines(measured, context.style))


def numbers(text: str | None, default: Sequence[int], largest: int, option: str) -> list[int]:
    """Return whole numbers separated by commas, in ascending order."""
    if text is None:
        return list(default)
    parts = [part.strip().replace("_", "") for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= largest for part in parts):
        raise UsageError(f"{option} must be whole numbers from 1 to {largest} separated by commas, not {text!r}")
    return sorted({int(part) for part in parts})


def _texts() -> Iterator[str]:
    chance = random.Random(1)
    number = 0
    while True:
        number += 1
        sentences = [
            f"{chance.choice(_WHO)} {chance.choice(_DID)} the {chance.choice(_WHAT)} in {chance.choice(_WHERE)} "
            f"{chance.choice(_WHY)}"
            for _ in range(3)
        ]
        yield f"{sentences[0]}. {sentences[1]}. {sentences[2]}, reference {number}."


def _questions() -> Iterator[str]:
    chance = random.Random(2)
    number = 0
    while True:
        number += 1  # no question is asked twice
        yield (
            f"when was the {chance.choice(_WHAT)} {chance.choice(_DID)} in {chance.choice(_WHERE)}, and who asked "
            f"{chance.choice(_WHO)} about {number}"
        )


# Measuring


def _fill(context: CommandContext, client: Client, texts: Iterator[str], missing: int, size: int) -> dict[str, Any]:
    """Store the missing texts; return the seconds until they are stored, and until each has its vector (None: no
    model)."""
    began, left = time.perf_counter(), missing
    while left > 0:
        part = [NewMemory(content=next(texts), dedup="off") for _ in range(min(BATCH, left))]
        client.remember_many(part)
        left -= len(part)
        context.terminal.progress(f"remembering {number_text(size)}: {percent(1 - left / missing)}")
    stored = time.perf_counter() - began
    has_vectors = scratch_daemon.wait_for_vectors(context, client, VECTORS_SECONDS)
    return {
        "remembered": max(0, missing),
        "stored_seconds": round(stored, 3),
        "indexed_seconds": round(time.perf_counter() - began, 3) if has_vectors else None,
    }


def _measure_recall(client: Client, questions: Sequence[str], clients: int) -> dict[str, Any]:
    """Return the milliseconds of a recall as its client sees them, for new questions and for repeated ones."""
    new, seconds = _ask_in_parallel(client, questions, clients)
    again, _ = _ask_in_parallel(client, questions, clients)
    return {"new": _percentiles(new), "again": _percentiles(again), "per_second": round(len(new) / seconds, 1)}


def _ask_in_parallel(client: Client, questions: Sequence[str], clients: int) -> tuple[list[float], float]:
    """Ask with concurrent clients; return the milliseconds of each question and the seconds of all together."""

    def ask(own_questions: Sequence[str]) -> list[float]:
        with Client(client.socket_path, entry_point="cli") as own:
            return [_measure_ms(own.recall, question, dry=True) for question in own_questions]

    with ThreadPoolExecutor(clients) as threads:
        began = time.perf_counter()
        took = list(threads.map(ask, [questions[number::clients] for number in range(clients)]))
        seconds = time.perf_counter() - began
    return [each for part in took for each in part], seconds


def _measure_stages(client: Client, questions: Sequence[str]) -> dict[str, float]:
    """Return the median milliseconds of each stage of new questions, in the order of the stages."""
    stages: dict[str, list[float]] = {}
    for question in questions:
        trace = client.recall(question, dry=True, explain=True).trace
        for name, took in (trace.stages_ms if trace is not None else {}).items():
            stages.setdefault(name, []).append(took)
    return {name: round(statistics.median(took), 3) for name, took in stages.items()}


def _measure_ms(ask: Any, *asked: Any, **fields: Any) -> float:
    began = time.perf_counter()
    ask(*asked, **fields)
    return (time.perf_counter() - began) * 1000


def _percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    return {name: round(percentile(milliseconds, share), 3) for name, share in SHARES.items()}


# What is shown of it


def speed_lines(measured: Mapping[str, Any], style: TextStyle) -> Iterator[str]:
    """Yield the tables by size: recall, the other operations, and the stages of a recall."""
    yield style.dim(machine_line(Machine(**measured["machine"])))
    yield ""
    rows = [["recall, ms", "clients", *(f"new {name}" for name in SHARES), *(f"again {name}" for name in SHARES), "/s"]]
    for size in measured["sizes"]:
        for each in size["recall"]:
            times = [f"{each[kind][name]:.1f}" for kind in ("new", "again") for name in SHARES]
            rows.append([number_text(size["memories"]), str(each["clients"]), *times, f"{each['per_second']:.0f}"])
    yield from right_table(rows, style)
    yield ""
    rows = [["other, ms", "search p50", "p95", "add p50", "p95", "stored/s", "indexed/s", "disk", "memory"]]
    for size in measured["sizes"]:
        times = [f"{size[kind][name]:.1f}" for kind in ("search", "remember") for name in ("p50", "p95")]
        count, took = size["remembered"], [size["stored_seconds"], size["indexed_seconds"]]
        rates = [f"{count / seconds:.0f}" if count and seconds else "-" for seconds in took]
        bytes_ = [size_text(size["disk_bytes"]), size_text(size["memory_private_bytes"])]
        rows.append([number_text(size["memories"]), *times, *rates, *bytes_])
    yield from right_table(rows, style)
    yield ""
    stages = list(dict.fromkeys(name for size in measured["sizes"] for name in size["stages_ms"]))
    rows = [["stages, ms", *stages]]
    for size in measured["sizes"]:
        took = [size["stages_ms"].get(name) for name in stages]
        rows.append([number_text(size["memories"]), *("-" if each is None else f"{each:.2f}" for each in took)])
    yield from right_table(rows, style)
    yield ""
    yield style.dim(
        "The texts are generated. Times are measured by the client, those of the stages (medians) by the daemon."
    )
    yield style.dim("new: asked for the first time; again: its vector is cached; /s: recalls of new questions;")
    yield style.dim("search: by words only; add: one durable write.")

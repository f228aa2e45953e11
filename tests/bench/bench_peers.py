"""Beside others, in one run on the same texts, model and machine: Chroma, mem0 without its LLM, SQLite with numpy.

    make bench-peers [DATA=FOLDER]        or, with the others installed in an environment of their own,
    python -m tests.bench.bench_peers [FOLDER] --python PATH [--systems chroma,mem0,sqlite,mnemod] [--pooled] [--named]

FOLDER holds a retrieval benchmark (tests/bench/quality.py); those of the project's own conversations on which nothing
was fitted are measured in any case.
A conversation is a scope: a collection, a user, a namespace. All use the files of the model that the daemon uses. The
others get a text alone, and with --named also with the speaker's name before it; the daemon gets the name in its field,
and is asked through its socket. Memory is of the process that answers, after the last question; `own` is what is no
file's. The others run without a network where the machine can take it away (unshare).
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mnemo_client.paths import models_folder
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from tests.bench import harness
from tests.bench.filled import disk_bytes
from tests.bench.peers import SYSTEMS, WARM_UP, memory_of
from tests.bench.quality import METRICS, POOL, SEED, TOP_K, load_benchmark, remember, the_projects_own
from tests.bench.tables import percentiles, share, show
from tests.support.running_daemon import running

NO_NETWORK = ("unshare", "--map-root-user", "--net")


class PeerProbe(NamedTuple):
    scope: str
    text: str
    evidence: tuple[str, ...]


class PeerOutcome(NamedTuple):
    """The result of one system: for each question the ids of turns, best first."""

    ranked: list[list[str]]
    took_ms: list[float]
    ingest_seconds: float
    resident_bytes: int
    private_bytes: int
    disk_bytes: int


def main(
    folder: Path | None = None, *, python: Path = Path(".venv-peers/bin/python"),
    systems: tuple[str, ...] = (*SYSTEMS, "mnemod"), pooled: bool = False, named: bool = False, questions_: int = 0,
    conversations_: int = 0,
) -> None:  # fmt: skip
    benchmarks = {"the project's conversations": the_projects_own()}
    if folder:
        benchmarks[folder.name] = load_benchmark(folder)
    for name, benchmark in benchmarks.items():
        conversations = benchmark.conversations()[: conversations_ or None]
        puts = questions(conversations, pooled=pooled)
        if questions_:
            puts = random.Random(SEED).sample(puts, min(questions_, len(puts)))
        rows: dict[str, list[object]] = {}
        for system in systems:
            if system == "mnemod":
                rows[system] = row(mnemod(conversations, puts, pooled=pooled), benchmark, puts, conversations)
                continue
            for is_named in (False, True) if named else (False,):
                outcome = peer(system, python, conversations, puts, pooled=pooled, named=is_named)
                name_of_row = f"{system}{', names in the text' if is_named else ''}"
                rows[name_of_row] = row(outcome, benchmark, puts, conversations)
        count = sum(len(each.turns) for each in conversations)
        show(f"{name}{', in one scope' if pooled else ''}: {count} texts, {len(puts)} questions",
             [*METRICS, "a question", "texts/s in", "memory (own)", "disk"], rows)  # fmt: skip


def key(conversation: Any, turn_id: str) -> str:
    return f"{conversation.name}/{turn_id}"


def questions(conversations: Sequence[Any], *, pooled: bool) -> list[PeerProbe]:
    return [
        PeerProbe(POOL if pooled else conversation.name, question.text,
            tuple(key(conversation, name) for name in question.evidence))
        for conversation in conversations for question in conversation.questions if question.evidence
    ]  # fmt: skip


def row(outcome: PeerOutcome, benchmark: Any, puts: Sequence[PeerProbe], conversations: Sequence[Any]) -> list[object]:
    scores = [benchmark.score(ranked, put.evidence) for ranked, put in zip(outcome.ranked, puts, strict=True)]
    count = sum(len(each.turns) for each in conversations)
    return [
        *(share([each[metric] for each in scores]) for metric in METRICS),
        percentiles(outcome.took_ms),
        f"{count / outcome.ingest_seconds:.0f}",
        f"{outcome.resident_bytes / 1e6:.0f} ({outcome.private_bytes / 1e6:.0f}) MB",
        f"{outcome.disk_bytes / 1e6:.1f} MB",
    ]


def peer(
    system: str, python: Path, conversations: Sequence[Any], puts: Sequence[PeerProbe], *, pooled: bool, named: bool
) -> PeerOutcome:
    memories = [
        {
            "id": key(conversation, turn.id),
            "scope": POOL if pooled else conversation.name,
            "text": f"{turn.speaker}: {turn.text}" if named else turn.text,
        }
        for conversation in conversations
        for turn in conversation.turns
    ]
    asked = [{"scope": put.scope, "text": put.text} for put in puts]
    with tempfile.TemporaryDirectory() as scratch:
        task, folder = Path(scratch) / "task.json", Path(scratch) / "kept"
        folder.mkdir()
        task.write_text(json.dumps({"memories": memories, "questions": asked, "top_k": TOP_K}), encoding="utf-8")
        program = [python, Path(__file__).with_name("peers.py"), system, task, model_folder(), folder]
        command = [*(NO_NETWORK if can_be_alone() else ()), *map(str, program)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{system} failed with exit code {done.returncode}, see above; it was run by {python}")
        reported = json.loads(done.stdout.splitlines()[-1])  # some print a greeting
        return PeerOutcome(**reported, disk_bytes=disk_bytes(folder))


def mnemod(conversations: Sequence[Any], puts: Sequence[PeerProbe], *, pooled: bool) -> PeerOutcome:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "data"
        with running(folder) as daemon, daemon.client() as client:
            daemon.wait_for_vectors()  # the model is loaded, as it is in the others
            began = time.perf_counter()
            names: dict[str, str] = {}
            for conversation in conversations:
                scope = POOL if pooled else conversation.name
                for turn_id, memory_id in remember(client, conversation, scope).items():
                    names.setdefault(memory_id, key(conversation, turn_id))
            daemon.wait_for_vectors(3600)
            ingest = time.perf_counter() - began
            for question in WARM_UP:
                client.recall(question, dry=True, namespace=puts[0].scope)
            ranked, took = [], []
            for put in puts:
                began = time.perf_counter()
                answer = client.recall(put.text, top_k=TOP_K, token_budget=None, dry=True, namespace=put.scope)
                took.append((time.perf_counter() - began) * 1000)
                ranked.append([names[memory.id] for memory in answer.memories])
            memory = memory_of(client.status().pid)
        return PeerOutcome(ranked, took, ingest, **memory, disk_bytes=disk_bytes(folder))


def model_folder() -> Path:
    service = EmbeddingService(ModelCatalogue(models_folder(os.environ)))
    manifest = service.manifest(DEFAULT_EMBEDDING)
    service.close()
    assert manifest is not None, f"{DEFAULT_EMBEDDING} is not here: `make models`"
    return models_folder(os.environ) / DEFAULT_EMBEDDING / manifest.files_folder


def can_be_alone() -> bool:
    if shutil.which(NO_NETWORK[0]) is None:
        return False
    return subprocess.run([*NO_NETWORK, "true"], capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    harness.run(main)

"""Fifty clients, two agents and a folder of notes write at once, and somebody asks: nothing is lost. SPEC 3.2, 17.6."""

import json
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.memories import NewMemory
from tests.support.running_daemon import RunningDaemon

CLIENTS = 50
WRITES = 30  # by each
AGENT_WRITES = 20  # by each of two
NOTES = 120
NOTES_SECONDS_MAX = 30.0


class WritingAgent:
    """An agent's end of `mnemo mcp`."""

    def __init__(self, daemon: RunningDaemon, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mnemo_client.cli.main", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**daemon.environ, "MNEMO_AUTOSTART": "0"}, cwd=daemon.folder,
        )  # fmt: skip
        self.number = 0
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                "clientInfo": {"name": name, "version": "1"}})  # fmt: skip

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.number += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert answer["id"] == self.number
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def end(self) -> int:
        self.process.communicate(timeout=15)
        return self.process.returncode


def write(daemon: RunningDaemon, number: int, begun: threading.Barrier) -> list[str]:
    """The memories that one client had acknowledged, some of them in batches of ten."""
    acknowledged: list[str] = []
    texts = [f"client {number} says {place}" for place in range(WRITES)]
    with daemon.client() as client:
        begun.wait(30.0)
        if number % 5 == 0:
            for start in range(0, WRITES, 10):
                batch = texts[start : start + 10]
                results = client.remember_many([NewMemory(content=text, key=text) for text in batch])
                acknowledged += [text for text, one in zip(batch, results, strict=True) if hasattr(one, "memory")]
            return acknowledged
        for text in texts:
            assert client.remember(text).outcome == "stored"
            acknowledged.append(text)
    return acknowledged


def converse(daemon: RunningDaemon, name: str, begun: threading.Barrier) -> list[str]:
    """Write what an agent reports as stored."""
    agent = WritingAgent(daemon, name)
    try:
        begun.wait(30.0)
        reported = []
        for number in range(AGENT_WRITES):
            text = f"agent {name} notes {number}"
            answers = [agent.call("memory_remember", content=text)]
            if number % 10 == 0:
                answers.append(agent.call("memory_recall", query=text))
            assert not any(answer.get("isError") for answer in answers), answers
            reported.append(text)
    finally:
        ended = agent.end()
    assert ended == 0
    return reported


def save_notes(folder: Path, begun: threading.Barrier) -> list[str]:
    begun.wait(30.0)
    texts = [f"note {number} stands in a file" for number in range(NOTES)]
    for number, text in enumerate(texts):
        (folder / f"note{number}.md").write_text(f"{text}\n")
    return texts


def ask_meanwhile(daemon: RunningDaemon, is_over: threading.Event) -> list[float]:
    """The durations of recalls, in milliseconds."""
    took = []
    with daemon.client() as client:
        while not is_over.is_set():
            began = time.perf_counter()
            client.recall("client 7 says 20", dry=True)
            took.append(1000 * (time.perf_counter() - began))
            time.sleep(0.05)
    return took


def contents(client: Client) -> Counter[str]:
    kept: Counter[str] = Counter()
    for line in client.export():
        change = msgspec.json.decode(line)
        if change.get("record_type") == "memory":
            kept[change["data"]["content"]] += 1
    return kept


def test_fifty_clients_two_agents_and_a_burst_of_notes_lose_nothing(started_daemon: RunningDaemon) -> None:
    notes = started_daemon.folder.parent / "notes"
    notes.mkdir()
    with started_daemon.client() as client:
        client.add_root(notes)
    begun = threading.Barrier(CLIENTS + 3)
    is_over = threading.Event()
    began = time.monotonic()
    with ThreadPoolExecutor(CLIENTS + 4) as threads:
        asking = threads.submit(ask_meanwhile, started_daemon, is_over)
        try:
            writing = [threads.submit(write, started_daemon, number, begun) for number in range(CLIENTS)]
            writing += [threads.submit(converse, started_daemon, name, begun) for name in ("ann", "ben")]
            writing.append(threads.submit(save_notes, notes, begun))
            reported = [text for future in writing for text in future.result(120.0)]
        finally:
            is_over.set()
        took = asking.result(30.0)
    seconds = time.monotonic() - began
    print(f"{len(reported)} writes in {seconds:.1f} s; recalls beside them p50 {statistics.median(took):.1f} ms, "
          f"max {max(took):.0f} ms of {len(took)}")  # fmt: skip
    assert len(reported) == CLIENTS * WRITES + 2 * AGENT_WRITES + NOTES
    with started_daemon.client() as client:
        deadline = time.monotonic() + NOTES_SECONDS_MAX
        while client.notes_status().roots[0].chunks < NOTES and time.monotonic() < deadline:
            time.sleep(0.1)
        assert contents(client) == Counter(reported)
        assert client.status().memories == len(reported)
        assert client.status().queue["writes"] == 0
    started_daemon.kill()
    started_daemon.start()
    with started_daemon.client() as client:
        assert contents(client) == Counter(reported)


def test_full_batches_at_once_are_stored_and_leave_room_for_single_writes(started_daemon: RunningDaemon) -> None:

    def remember_thousand(number: int) -> list[str]:
        with started_daemon.client() as client:
            batch = [NewMemory(content=f"batch {number} holds {place}") for place in range(1000)]
            results = client.with_long_timeout().remember_many(batch)  # a slow machine needs more than a minute for all
        assert [one for one in results if not isinstance(one, RememberAnswer)] == []
        return [memory.content for memory in batch]

    with ThreadPoolExecutor(2) as threads, started_daemon.client() as client:
        batches = [threads.submit(remember_thousand, number) for number in range(2)]
        alone: list[str] = []
        while not all(batch.done() for batch in batches):
            alone.append(client.remember(f"alone among batches {len(alone)}").memory.content)
        stored = [text for batch in batches for text in batch.result()]
        assert contents(client) == Counter([*stored, *alone])
    print(f"{len(alone)} single writes beside two batches of 1,000")


def test_a_client_that_reads_nothing_holds_up_nobody(started_daemon: RunningDaemon) -> None:
    import socket

    with started_daemon.client() as client:  # 600 KB: nearly three times what a socket holds
        client.remember_many([NewMemory(content=f"{number} " + "long " * 1500, dedup="off") for number in range(80)])
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.connect(str(started_daemon.socket))
            deaf.sendall(b"GET /v1/export HTTP/1.1\r\nHost: x\r\n\r\n")
            time.sleep(0.5)
            for number in range(5):
                client.recall("long")
                try:
                    client.remember(f"written beside it, {number}")
                except RefusalError as refused:
                    raise AssertionError(str(refused)) from refused
    assert started_daemon.stop() == 0

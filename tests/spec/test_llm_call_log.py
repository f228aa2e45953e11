"""The log of language-model calls: sums by task and model, and its retention. SPEC 12.2"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_client.protocol.status import LlmUsage
from mnemo_daemon.models.language.llm_worker import Completion
from mnemo_daemon.models.language.task_runner import DAY_MS, DROPPED_PER_SLICE, KEEP_DAYS, CallLog
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import LLM_CALLS

START = 1_800_000_000_000


class MovableClock:
    now = START


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def store(tmp_path: Path, clock: MovableClock) -> Iterator[Store]:
    opened = Store.open(tmp_path / "data", now=lambda: clock.now)
    yield opened
    opened.close()


def settle(store: Store) -> None:
    """Returns once everything that was recorded is durable."""
    store.transact(lambda _: WriteResult((), None), by="test", background=True).result()


def size(store: Store) -> int:
    with store.snapshot() as snapshot:
        return snapshot.size(LLM_CALLS)


def test_calls_are_summed_up_by_task_and_model_since_a_time(store: Store, clock: MovableClock) -> None:
    log = CallLog(store)
    log.record("answer", "a.gguf", "answered", Completion("x", 100, 10, False), 500)
    clock.now += 1000
    log.record("answer", "a.gguf", "rejected", Completion("x", 50, 5, False), 300, "unsupported name")
    log.record("answer", "b.gguf", "late", None, 200)
    clock.now += 1000
    log.record("naming", "a.gguf", "rejected", None, 1)
    settle(store)
    answer_a, answer_b, naming = log.usage(0)
    assert answer_a == LlmUsage(
        site="answer", model="a.gguf", calls=2, outcomes={"answered": 1, "rejected": 1}, tokens_in=150, tokens_out=15,
        milliseconds=800, last_at=START + 1000, rejections={"unsupported name": 1},
    )  # fmt: skip
    assert (answer_b.model, answer_b.outcomes) == ("b.gguf", {"late": 1})
    assert (answer_b.rejections, naming.rejections) == ({}, {"other": 1})
    assert (naming.site, naming.calls, naming.last_at) == ("naming", 1, START + 2000)
    assert [row.calls for row in log.usage(START + 1)] == [1, 1, 1]
    assert log.usage(START + 2001) == []


def test_old_calls_are_deleted_in_slices_and_younger_ones_stay(store: Store, clock: MovableClock) -> None:
    log = CallLog(store)
    for _ in range(DROPPED_PER_SLICE + 1):
        log.record("answer", "a.gguf", "answered", None, 1)
        settle(store)
    clock.now += KEEP_DAYS * DAY_MS
    log.record("answer", "a.gguf", "answered", None, 1)
    settle(store)
    assert not log.run_retention_slice()
    assert size(store) == DROPPED_PER_SLICE + 2
    clock.now += 1
    assert log.run_retention_slice()
    assert size(store) == 2
    assert not log.run_retention_slice()
    assert size(store) == 1
    assert not log.run_retention_slice()

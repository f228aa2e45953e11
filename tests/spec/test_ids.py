"""UUIDv7 ids. SPEC 2.1, RFC 9562."""

import threading
import uuid

from mnemo_store.codec import id_key
from mnemo_store.ids import IdSource, last_key_until, time_of_id


def test_an_id_says_its_version_variant_and_millisecond() -> None:
    source = IdSource(lambda: 0x0123456789AB, lambda count: b"\xff" * count)
    first = source.new()
    assert first == "01234567-89ab-7000-bfff-ffffffffffff"
    parsed = uuid.UUID(first)
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)


def test_ids_of_one_millisecond_sort_by_a_counter() -> None:
    source = IdSource(lambda: 1, lambda count: bytes(count))
    assert [source.new()[:18] for _ in range(3)] == ["00000000-0001-7000", "00000000-0001-7001", "00000000-0001-7002"]


def test_the_counter_runs_on_into_the_next_millisecond() -> None:
    source = IdSource(lambda: 1, lambda count: bytes(count))
    ids = [source.new() for _ in range(4097)]
    assert ids[4095][:18] == "00000000-0001-7fff"
    assert ids[4096][:18] == "00000000-0002-7000"
    assert ids == sorted(ids)


def test_ids_grow_when_the_clock_steps_back() -> None:
    times = iter([2000, 1000, 500, 3000])
    source = IdSource(lambda: next(times), lambda count: bytes(count))
    ids = [source.new() for _ in range(4)]
    assert ids == sorted(ids)
    assert ids[3][:18] == "00000000-0bb8-7000"  # 3000 ms, once the clock has caught up


def test_ids_from_many_threads_are_all_different() -> None:
    source = IdSource(lambda: 7)
    made: list[list[str]] = [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda own=own: own.extend(source.new() for _ in range(1000))) for own in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each for own in made for each in own}) == 4000
    assert all(own == sorted(own) for own in made)


def test_an_id_tells_when_it_was_given() -> None:
    assert time_of_id(IdSource(lambda: 1_700_000_000_123).new()) == 1_700_000_000_123


def test_the_last_key_of_a_time_is_between_its_ids_and_those_of_the_next_millisecond() -> None:
    at = 1_700_000_000_123
    assert id_key(IdSource(lambda: at).new()) <= last_key_until(at) < id_key(IdSource(lambda: at + 1).new())

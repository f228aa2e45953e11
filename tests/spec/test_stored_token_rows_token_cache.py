"""Token rows are read once, and what the cache gives is what the database has."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mnemo_daemon.indexing.vectors.stored_token_rows import TokenCache

DIMENSIONS = 4


class FakeTokenRows:
    """A database: of text `n` n % 5 rows that say n; of every seventh none yet."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.late: set[bytes] = {name(n) for n in range(0, 40, 7)}

    def read(self, hashes: Sequence[bytes]) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
        self.asked += hashes
        counts = np.array([-1 if each in self.late else int(each) % 5 for each in hashes], np.int64)
        rows = [np.full((max(0, count), DIMENSIONS), int(each), np.int8)
                for each, count in zip(hashes, counts.tolist(), strict=True)]  # fmt: skip
        return np.concatenate([np.empty((0, DIMENSIONS), np.int8), *rows]), counts

    def fresh(self, hashes: Sequence[bytes]) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
        """As it is read, without being counted."""
        asked = list(self.asked)
        found = self.read(hashes)
        self.asked = asked
        return found


def name(number: int) -> bytes:
    return b"%d" % number


def joined(cache: TokenCache, kept: FakeTokenRows, numbers: Sequence[int], space: str = "late") -> None:
    """Asks for them, and compares with what is kept."""
    hashes = list(map(name, numbers))
    rows, counts = cache.rows_of(space, DIMENSIONS, hashes, kept.read)
    expected, expected_counts = kept.fresh(hashes)
    assert counts.tolist() == expected_counts.tolist()
    assert rows.tolist() == expected.tolist()


@given(st.lists(st.lists(st.integers(0, 39), max_size=12), max_size=12), st.sampled_from([3, 20, 60, 1000]))
def test_whatever_is_asked_for_is_given_as_it_is_kept(questions: list[list[int]], tokens_max: int) -> None:
    cache, kept = TokenCache(tokens_max), FakeTokenRows()
    for numbers in questions:
        joined(cache, kept, numbers)


def test_processed_texts_are_not_read_again() -> None:
    cache, kept = TokenCache(), FakeTokenRows()
    joined(cache, kept, [1, 2, 3])
    joined(cache, kept, [3, 4, 1, 4])
    assert kept.asked == [b"1", b"2", b"3", b"4"]


def test_a_text_whose_rows_come_later_is_asked_for_until_they_are_there() -> None:
    cache, kept = TokenCache(), FakeTokenRows()
    joined(cache, kept, [7, 7])
    kept.late.clear()
    joined(cache, kept, [7])
    joined(cache, kept, [7])
    assert kept.asked == [b"7", b"7"]


def test_a_full_cache_starts_again_with_the_requested_entry() -> None:
    cache, kept = TokenCache(8), FakeTokenRows()
    joined(cache, kept, [3, 4])
    joined(cache, kept, [9])
    joined(cache, kept, [9])
    joined(cache, kept, [3])
    assert kept.asked == [b"3", b"4", b"9", b"9", b"3"], "read once more to begin anew, and then kept"


def test_texts_without_a_token_fill_it_too() -> None:
    cache, kept = TokenCache(2), FakeTokenRows()
    for number in (5, 10, 15, 5):
        joined(cache, kept, [number])
    assert kept.asked == [b"5", b"10", b"15", b"15", b"5"]


def test_an_erased_text_is_not_in_the_memory_of_the_process() -> None:
    cache, kept = TokenCache(), FakeTokenRows()
    joined(cache, kept, [1, 2])
    cache.clear()
    joined(cache, kept, [2])
    assert kept.asked == [b"1", b"2", b"2"]


def test_rows_of_another_space_are_never_given() -> None:
    cache, kept = TokenCache(), FakeTokenRows()
    joined(cache, kept, [1])
    joined(cache, kept, [1], space="other")
    joined(cache, kept, [1])
    assert kept.asked == [b"1"] * 3

"""Batches: any number of items in lists of limited size."""

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of up to `size` items, in order; `itertools.batched` from Python 3.12 on."""
    rest = iter(items)
    while batch := list(itertools.islice(rest, size)):
        yield batch

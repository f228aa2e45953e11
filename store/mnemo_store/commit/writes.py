"""Writes: what a caller hands in, what its decision comes to, and what the caller gets back. SPEC 3.2."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mnemo_store.backend import Snapshot
from mnemo_store.records import Change
from mnemo_store.recovery.supervisor import StateSupervisor

T = TypeVar("T")


class WriteResult(NamedTuple, Generic[T]):
    """The outcome of a decision: changes to make, all or none of them, and the result for the caller."""

    changes: Sequence[Change]
    result: T
    what: str = ""  # the operation as a person names it: "add", "edit", "rm"
    group: str = ""  # marks writes that are undone together


class WriteReceipt(NamedTuple, Generic[T]):
    """A durable write. `seq` is 0 where there was nothing to change."""

    seq: int
    result: T


class TextVectors(NamedTuple):
    """The vectors of one text, or its token rows, to be kept under its hash."""

    space: str
    text_hash: bytes
    rows: NDArray[np.float16] | NDArray[np.int8]  # shape (windows, dimensions), or (tokens, dimensions)


@dataclass(frozen=True)
class Write:
    """A write that waits for its turn."""

    decide: Callable[[Snapshot], WriteResult[Any]]
    by: str
    future: "Future[WriteReceipt[Any]]" = field(default_factory=Future)
    vectors: tuple[TextVectors, ...] = ()
    frees_space: bool = False  # accepted on a full disk too


@dataclass(frozen=True)
class Task:
    """Something that needs the writer thread for itself."""

    act: Callable[[StateSupervisor], Any]
    future: "Future[Any]" = field(default_factory=Future)

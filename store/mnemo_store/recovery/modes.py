"""The modes of a store: the backend that holds its state, and what is needed to get back to normal. SPEC 3.4.

`StoreMode` is a closed union of immutable values; `StateSupervisor` moves from one to the next.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, assert_never

from mnemo_store.backend import StateBackend
from mnemo_store.database.environment import Database
from mnemo_store.errors import StoreError
from mnemo_store.recovery.fallback_state import FallbackState
from mnemo_store.recovery.replay import CatchUp

RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 1.0, 60.0  # between two attempts to recover; doubles with each that fails


class RetryTimer(NamedTuple):
    """The time at which the next attempt is due, and the pause before it."""

    due_at: float  # monotonic seconds
    pause: float  # seconds

    @classmethod
    def due_now(cls) -> "RetryTimer":
        return cls(0.0, RETRY_SECONDS_MIN)

    @classmethod
    def after_first_pause(cls) -> "RetryTimer":
        return cls(time.monotonic() + RETRY_SECONDS_MIN, RETRY_SECONDS_MIN)

    def after_failure(self) -> "RetryTimer":
        """The timer of the attempt that follows a failed one."""
        pause = min(RETRY_SECONDS_MAX, 2 * self.pause)
        return RetryTimer(time.monotonic() + pause, pause)

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.due_at - time.monotonic())

    @property
    def is_due(self) -> bool:
        return self.seconds_left == 0.0


@dataclass(frozen=True)
class ClosedMode:
    """Nothing is open: before the start, while the database is reopened, and after `close`."""

    failure: StoreError | None = None  # the one that is being recovered from


@dataclass(frozen=True)
class DatabaseMode:
    """Normal: the database holds the state."""

    database: Database


@dataclass(frozen=True)
class FallbackMode:
    """Degraded: the journal's replay holds the state, and the database is tried again when the timer says so."""

    fallback: FallbackState
    cause: str  # why the database cannot be used
    retry: RetryTimer


@dataclass(frozen=True)
class CatchUpMode:
    """Degraded, and on the way back: the replay still serves while a database is brought up to the journal."""

    fallback: FallbackState
    cause: str
    retry: RetryTimer  # of the attempt that this one follows
    catch_up: CatchUp


@dataclass(frozen=True)
class FailureMode:
    """Nothing can be written until a recovery succeeds. Reads go on where there is still a backend."""

    error: StoreError
    backend: Database | FallbackState | None
    cause: str = ""  # why the database could not be used before already; "" where it was in use
    pending_vectors: Mapping[bytes, bytes] = field(default_factory=dict)  # rows that wait for a database
    retry: RetryTimer = field(default_factory=RetryTimer.due_now)


StoreMode = ClosedMode | DatabaseMode | FallbackMode | CatchUpMode | FailureMode


def backend_of(mode: StoreMode) -> Database | FallbackState | None:
    """The backend that serves reads in this mode; None where nothing can be read."""
    match mode:
        case ClosedMode():
            return None
        case DatabaseMode(database):
            return database
        case FallbackMode(fallback) | CatchUpMode(fallback):
            return fallback
        case FailureMode(backend=backend):
            return backend
        case _:
            assert_never(mode)


def resources_of(mode: StoreMode) -> list[StateBackend]:
    """Everything that is open in this mode."""
    backend = backend_of(mode)
    opened: list[StateBackend] = [backend] if backend is not None else []
    return [*opened, mode.catch_up.database] if isinstance(mode, CatchUpMode) else opened


def cause_of(mode: StoreMode) -> str:
    """Reason why the database does not hold the state; "" when it does."""
    return mode.cause if isinstance(mode, FallbackMode | CatchUpMode | FailureMode) else ""


def pending_vectors_of(mode: StoreMode) -> Mapping[bytes, bytes]:
    """Vectors that were written while there was no database, for the next one to take over."""
    if isinstance(mode, FailureMode):
        return {**mode.pending_vectors, **(mode.backend.vectors if isinstance(mode.backend, FallbackState) else {})}
    return mode.fallback.vectors if isinstance(mode, FallbackMode | CatchUpMode) else {}


def failure_after(before: StoreMode, error: StoreError, backend: Database | FallbackState | None) -> FailureMode:
    """The failure of a store that was in another mode, or in an earlier failure, whose timer then goes on."""
    retry = before.retry if isinstance(before, FailureMode) else RetryTimer.due_now()
    return FailureMode(error, backend, cause_of(before), pending_vectors_of(before), retry)

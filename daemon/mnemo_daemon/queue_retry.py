"""Background writes: a caller that finds the queue of writes full pauses and tries again."""

from collections.abc import Callable
from typing import TypeVar

from mnemo_store.errors import QueueFull

PAUSE_SECONDS = 0.05

T = TypeVar("T")


def retry_while_full(attempt: Callable[[], T], pause: Callable[[float], object]) -> T:
    """Return the result of the attempt once the queue has room. `pause` waits for seconds, and may raise to give up."""
    while True:
        try:
            return attempt()
        except QueueFull:
            pause(PAUSE_SECONDS)

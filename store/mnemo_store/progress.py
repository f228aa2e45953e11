"""The progress of long work, as the function that does it reports it."""

from collections.abc import Callable

Amount = int | Callable[[], int]  # a function is called when somebody asks, not more often

# The step under way, how much of it is done, and of how much (0: not known).
Progress = Callable[[str, Amount, int], None]


def unreported(step: str, done: Amount, total: int) -> None:
    """Ignore a report of progress: the default where none is requested."""

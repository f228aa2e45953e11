"""The memory of answers that their clients have not read yet. SPEC 16

An answer, or a piece of a streamed one, is in memory until its client has taken it. A client that asks for many large
ones and reads none gets no further turn until it reads, so that neither memory nor time is spent on what nobody takes.
"""

from collections import Counter
from collections.abc import Callable, Hashable

SMALL_BYTES = 64 << 10  # an answer up to this size is not counted: the number of connections bounds these
CLIENT_BYTES_MAX = 32 << 20  # of one client; the answer of each turn that runs may come on top
BYTES_MAX = 128 << 20  # of all clients; one that has read all of its own answers gets one nevertheless


class UnreadAnswers:
    """The bytes of large answers on their way to each client. `on_read` is called after some were read."""

    def __init__(self) -> None:
        self.bytes = 0
        self.on_read: Callable[[], None] = lambda: None
        self._by_client: Counter[Hashable] = Counter()

    def are_too_many(self, client: Hashable) -> bool:
        """Return whether a client has to read before it gets another answer."""
        own = self._by_client[client]
        return own >= CLIENT_BYTES_MAX or (own > 0 and self.bytes >= BYTES_MAX)

    def add(self, client: Hashable, count: int) -> int:
        """Count an answer of so many bytes; return how many to give back once it was read or given up."""
        if count <= SMALL_BYTES:
            return 0
        self.bytes += count
        self._by_client[client] += count
        return count

    def give_back(self, client: Hashable, count: int) -> None:
        if count:
            self.bytes -= count
            self._by_client[client] -= count
            if not self._by_client[client]:
                del self._by_client[client]
            self.on_read()

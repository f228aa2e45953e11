"""UUIDv7 ids that always ascend, also within one millisecond and when the clock steps back. RFC 9562."""

import os
import threading
from collections.abc import Callable

_SEQUENCE_BITS = 12  # of rand_a, used as a counter within one millisecond (RFC 9562, method 1)


class IdSource:
    """A source of ascending ids. Safe in any thread."""

    def __init__(self, now: Callable[[], int], random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._now = now
        self._random_bytes = random_bytes
        self._lock = threading.Lock()
        self._last = 0  # milliseconds and counter as one number

    def new(self) -> str:
        """The next id, 36 characters, lower case."""
        with self._lock:
            self._last = max(self._now() << _SEQUENCE_BITS, self._last + 1)
            stamp = self._last
        milliseconds, sequence = stamp >> _SEQUENCE_BITS, stamp & ((1 << _SEQUENCE_BITS) - 1)
        random_bits = int.from_bytes(self._random_bytes(8), "big") & ((1 << 62) - 1)
        text = f"{(milliseconds << 80) | (7 << 76) | (sequence << 64) | (2 << 62) | random_bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def time_of_id(id_text: str) -> int:
    """The time in an id, in ms: when it was made, or a little later where many were made at once."""
    return int(id_text[:8] + id_text[9:13], 16)


def last_key_until(at: int) -> bytes:
    """The greatest key that the id of a record made until then, in ms, can have."""
    return (((max(0, at) + 1) << 80) - 1).to_bytes(16, "big")

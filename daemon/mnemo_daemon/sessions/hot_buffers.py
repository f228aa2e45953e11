"""The hot buffers of the sessions of one daemon: in memory alone. SPEC 8 [T10]

Nothing of them is stored: a restart and an erasure empty them, and the next recalls fill them again.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable

from mnemo_core.sessions.tiered_recall import HotBuffer, HotItem
from mnemo_core.sessions.tiers import SessionScope

SESSIONS_MAX = 256  # the one that recalled longest ago goes first,
BYTES_MAX = 4 << 20  # also where all items are more: 150 sessions of usual turns, 24 of turns of 8192 characters


class HotBuffers:
    """A buffer for each session that recalled something. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buffers: OrderedDict[SessionScope, HotBuffer] = OrderedDict()
        self._bytes = 0  # of all

    def items(self, scope: SessionScope) -> tuple[HotItem, ...]:
        """The items of a session, the one that was recalled last first."""
        with self._lock:
            return self._buffers[scope].items() if scope in self._buffers else ()

    def put(self, scope: SessionScope, items: Iterable[HotItem]) -> None:
        """Make these items the ones that were recalled last, the last of them the very last."""
        with self._lock:
            buffer = self._buffers.setdefault(scope, HotBuffer())
            self._buffers.move_to_end(scope)
            self._bytes -= buffer.bytes
            for item in items:
                buffer.put(item)
            self._bytes += buffer.bytes
            while len(self._buffers) > SESSIONS_MAX or (self._bytes > BYTES_MAX and len(self._buffers) > 1):
                self._bytes -= self._buffers.popitem(last=False)[1].bytes

    def clear(self) -> None:
        """Forget every item: a vector tells what an erased text was about."""
        with self._lock:
            self._buffers.clear()
            self._bytes = 0

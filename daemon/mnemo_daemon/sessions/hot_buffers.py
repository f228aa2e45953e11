"""The hot buffers of the sessions of one daemon: in memory alone. SPEC 8 [T10]

Nothing of them is stored: a restart and an erasure empty them, and the next recalls fill them again.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable

from mnemo_core.sessions.hot_buffer import HotBuffer, HotItem
from mnemo_core.sessions.tiers import SessionScope

SESSIONS_MAX = 256  # the one that recalled longest ago goes first


class HotBuffers:
    """A buffer for each session that recalled something. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buffers: OrderedDict[SessionScope, HotBuffer] = OrderedDict()

    def items(self, scope: SessionScope) -> tuple[HotItem, ...]:
        """The items of a session, the one that was recalled last first."""
        with self._lock:
            return self._buffers[scope].items() if scope in self._buffers else ()

    def put(self, scope: SessionScope, items: Iterable[HotItem]) -> None:
        """Make these items the ones that were recalled last, the last of them the very last."""
        with self._lock:
            buffer = self._buffers.setdefault(scope, HotBuffer())
            self._buffers.move_to_end(scope)
            for item in items:
                buffer.put(item)
            while len(self._buffers) > SESSIONS_MAX:
                self._buffers.popitem(last=False)

    def clear(self) -> None:
        """Forget every item: a vector tells what an erased text was about."""
        with self._lock:
            self._buffers.clear()

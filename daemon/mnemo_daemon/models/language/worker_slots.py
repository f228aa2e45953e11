"""The bound of language models that are loaded at once. SPEC 4.2"""

import threading
from collections.abc import Callable


class WorkerSlots:
    """Places for loaded models; safe in any thread."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._lock = threading.RLock()  # unloading a model gives its place back
        self._unloading: dict[object, Callable[[], None]] = {}  # by owner, the one that was loaded first comes first

    def take(self, owner: object, unload_if_idle: Callable[[], None]) -> None:
        """Give the owner a place, if need be that of a model without a call. Raises OverflowError without one."""
        with self._lock:
            for unload_other in list(self._unloading.values()):
                if len(self._unloading) < self.count:
                    break
                unload_other()
            if len(self._unloading) >= self.count:
                raise OverflowError
            self._unloading[owner] = unload_if_idle

    def give_back(self, owner: object) -> None:
        """Free the place of the owner, if it has one."""
        with self._lock:
            self._unloading.pop(owner, None)

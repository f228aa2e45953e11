"""The hot buffer of a session: the items that were recalled last, with their vectors. SPEC 8 [T10]

It holds no text: an item is read again by its ids when it is found, so that what was erased or changed is not.
"""

from collections import OrderedDict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ITEMS_MAX = 20  # the one that was recalled longest ago goes first [T10]
ITEM_BYTES = 600  # of an item, besides its vectors


class HotItem(NamedTuple):
    """A recalled turn, or a pair of turns with the topic node that it was found by."""

    memory_ids: tuple[str, ...]  # of the turn, or of the turns of the pair
    space: str  # of the vectors
    digest: bytes  # the hash of the text that they are of
    windows: NDArray[np.float16]  # the vectors, one a row
    node: str = ""

    def similarity(self, query: NDArray[np.float32]) -> float:
        """The cosine of the query and the best window; both have unit length."""
        return float((self.windows.astype(np.float32) @ query).max())


class HotBuffer:
    """The items, least recently recalled first."""

    def __init__(self) -> None:
        self._items: OrderedDict[tuple[str, ...], HotItem] = OrderedDict()

    def put(self, item: HotItem) -> None:
        """Make an item the one that was recalled last."""
        self._items[item.memory_ids] = item
        self._items.move_to_end(item.memory_ids)
        while len(self._items) > ITEMS_MAX:
            self._items.popitem(last=False)

    @property
    def bytes(self) -> int:
        """The bytes of all items: a long turn has several vectors."""
        return sum(ITEM_BYTES + item.windows.nbytes for item in self._items.values())

    def items(self) -> tuple[HotItem, ...]:
        """The items, the one that was recalled last first."""
        return tuple(reversed(self._items.values()))

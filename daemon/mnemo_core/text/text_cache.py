"""A cache of what is read from texts, bounded by their characters and not by their number.

A text of 8192 characters takes as much as forty of the usual length, and what is read from it too: the set of its words
has 12 bytes for each character, its canonical form 20. A thousand such texts were 100 to 160 MB in each cache.
"""

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# Characters up to which a text is in the same part of the cache, and the eighths of all characters that the part has:
# most memories are short, and the neighbours of a new one come back with the next.
PARTS = ((256, 4), (1024, 2), (4096, 1), (16_384, 1))


class TextCache(Generic[T]):
    """A function of a text, and of what else it takes, which remembers the values that were asked for last.

    Texts of about the same length share a part of the cache, which has room for so many of the longest of them. So the
    bound holds, a long text displaces long ones alone, and each part is an `lru_cache`, which any thread may use.
    """

    def __init__(self, function: Callable[..., T], characters_max: int) -> None:
        """characters_max: of all texts together."""
        self._function = function
        room = characters_max // 8
        self._parts = [(length, functools.lru_cache(share * room // length)(function)) for length, share in PARTS]

    def __call__(self, text: str, *others: Any) -> T:
        for length, cached in self._parts:
            if len(text) <= length:
                return cached(text, *others)
        return self._function(text, *others)

    def __len__(self) -> int:
        """The number of texts in the cache."""
        return sum(cached.cache_info().currsize for _, cached in self._parts)

    @property
    def characters_max(self) -> int:
        """The most characters that the texts in the cache can have."""
        return sum(length * (cached.cache_info().maxsize or 0) for length, cached in self._parts)

    def clear(self) -> None:
        """Empty the cache: one of its texts may have been erased."""
        for _, cached in self._parts:
            cached.cache_clear()

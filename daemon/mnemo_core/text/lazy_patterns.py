"""Regular expressions that are compiled when they are first used.

The packages hold some 900 patterns, of which a start needs a handful: compiling all of them took a third of its CPU.
"""

import re
from typing import Any, cast

_METHODS = (
    "search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split", "flags", "groups", "groupindex",
)  # fmt: skip


class LazyPattern:
    """Stands for a compiled pattern. The first use of a method compiles it; from then on the instance holds the methods
    of the compiled pattern as its own attributes, and a call costs what it costs there."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = self.compiled()
        vars(self).update({each: getattr(compiled, each) for each in _METHODS})
        return getattr(compiled, name)

    def compiled(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return re.compile(self.pattern, self._flags)


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern that is compiled when it is first used, typed as the compiled one that it behaves like."""
    return cast("re.Pattern[str]", LazyPattern(pattern, flags))

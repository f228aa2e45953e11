"""Word lists, kept as data: one file a topic, one section a list.

A line `[name]` begins a section; every other line holds words of it, parted by blanks; a line that begins with `#` is a
comment. A list is read when it is first asked for.
"""

import functools
import pkgutil
from collections.abc import Mapping


def words(topic: str, section: str) -> frozenset[str]:
    """The words of a list. Raises KeyError for a list that is not there."""
    return _sections(topic)[section]


@functools.cache
def _sections(topic: str) -> Mapping[str, frozenset[str]]:
    data = pkgutil.get_data(__name__, f"{topic}.txt")
    if data is None:
        raise KeyError(topic)
    found: dict[str, list[str]] = {}
    listed: list[str] = []
    for line in data.decode().splitlines():
        if line.startswith("["):
            listed = found.setdefault(line.strip("[]"), [])
        elif not line.startswith("#"):
            listed += line.split()
    return {name: frozenset(listed) for name, listed in found.items()}

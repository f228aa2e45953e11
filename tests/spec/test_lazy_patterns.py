"""Patterns that are compiled on first use, so that a start compiles none that it does not need."""

import re
import subprocess
import sys

import pytest

from mnemo_core.text.lazy_patterns import lazy_pattern

AFTER_IMPORT = """
import gc
import mnemo_daemon.app
from mnemo_core.text.lazy_patterns import LazyPattern
made = [each for each in gc.get_objects() if isinstance(each, LazyPattern)]
print(len(made), *(each.pattern[:60] for each in made if "search" in vars(each)), sep="\\n")
"""


def test_a_lazy_pattern_does_what_the_compiled_one_does() -> None:
    text, flags = r"(?P<word>[a-z]+)-(\d)", re.IGNORECASE
    lazy, compiled = lazy_pattern(text, flags), re.compile(text, flags)
    said = "Ab-1, c-2"
    for _ in range(2):
        assert [each.span() for each in lazy.finditer(said)] == [each.span() for each in compiled.finditer(said)]
        assert lazy.sub("x", said) == compiled.sub("x", said) == "x, x"
        assert lazy.findall(said) == compiled.findall(said)
        assert (lazy.pattern, lazy.flags, dict(lazy.groupindex)) == (text, compiled.flags, {"word": 1})
    assert lazy.match(said, 4) is None


def test_a_broken_pattern_is_an_error_when_it_is_used() -> None:
    broken = lazy_pattern("(")
    with pytest.raises(re.error):
        broken.search("a")


def test_a_lazy_pattern_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        lazy_pattern("a").scanner  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_daemon_compiles_none_of_them() -> None:
    done = subprocess.run([sys.executable, "-c", AFTER_IMPORT], capture_output=True, text=True, check=True)
    made, *compiled = done.stdout.splitlines()
    assert int(made) > 300
    assert not compiled

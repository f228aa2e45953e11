"""The format of segment files: each frame has one place."""

from typing import Any

import pytest

from mnemo_daemon.sync.cipher import UnauthenticData
from mnemo_daemon.sync.frames import FramePlace, SegmentContent, open_entries, preamble, seal_entries, split
from mnemo_daemon.sync.group_keys import GroupKey

KEY = GroupKey(bytes(16), (bytes(range(32)), bytes(range(32))))
HERE = FramePlace("00000000000000aa", 7, 0, 5)


def content_of(frame: bytes) -> SegmentContent:
    return split(preamble(KEY) + frame)


def test_a_frame_opens_in_its_place() -> None:
    content = content_of(seal_entries(KEY, HERE, [b"a", b"", b"c"]))
    assert open_entries(KEY, content, HERE) == [b"a", b"", b"c"]
    assert (content.generation, content.problem, content.is_partial) == (2, "", False)


@pytest.mark.parametrize("other", [{"device": "00000000000000ab"}, {"segment": 8}, {"frame": 1}, {"preceding": 6}])
def test_a_frame_is_authentic_in_no_other_place(other: dict[str, Any]) -> None:
    elsewhere = HERE._replace(**other)
    sealed = content_of(seal_entries(KEY, HERE, [b"a"])).frames[0]
    content = SegmentContent(2, [sealed, sealed], [])
    with pytest.raises(UnauthenticData, match="not authentic"):
        open_entries(KEY, content, elsewhere)


@pytest.mark.parametrize("generation", [0, 1, 3])
def test_a_frame_is_authentic_with_no_other_generation_of_the_key(generation: int) -> None:
    sealed = content_of(seal_entries(KEY, HERE, [b"a"])).frames[0]
    with pytest.raises(UnauthenticData):
        open_entries(KEY, SegmentContent(generation, [sealed], []), HERE)


def test_a_frame_is_authentic_in_no_other_group() -> None:
    content = content_of(seal_entries(KEY, HERE, [b"a"]))
    with pytest.raises(UnauthenticData, match="not authentic"):
        open_entries(GroupKey(bytes(15) + b"\1", KEY.keys), content, HERE)

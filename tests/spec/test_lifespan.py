"""The daemon's process around its parts. SPEC 16."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from mnemo_daemon.lifespan import freeze_long_lived


@pytest.fixture(autouse=True)
def _nothing_stays_set_apart() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


class Knot:
    """An object that only a collection frees."""

    freed = 0

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        Knot.freed += 1


def test_objects_of_the_start_are_excluded_from_garbage_collection_after_warm_up() -> None:
    Knot.freed = 0
    Knot()
    seen = []

    def is_warming() -> bool:
        seen.append(gc.get_freeze_count())
        return len(seen) < 3

    asyncio.run(freeze_long_lived(is_warming, poll_seconds=0.001))
    assert seen == [0, 0, 0]
    assert gc.get_freeze_count() > 10_000
    assert Knot.freed == 1, "what nobody holds is freed before, not kept for ever"
    Knot()
    gc.collect()
    assert Knot.freed == 2, "and what comes later is freed as ever"


def test_a_start_that_never_ends_is_not_waited_for_for_ever() -> None:
    looks = []

    def is_warming() -> bool:
        looks.append(gc.get_freeze_count())
        return True

    asyncio.run(freeze_long_lived(is_warming, poll_seconds=0.001, seconds_max=0.004))
    assert looks == [0] * 4
    assert gc.get_freeze_count() > 10_000

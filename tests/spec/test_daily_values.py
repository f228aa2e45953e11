"""Values of each day of a year, kept in a file that may be missing. SPEC 13"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_daemon.maintenance.daily_values import DAYS_MAX, FILE, DailyValues
from mnemo_daemon.times import local_day
from mnemo_store.disk import Disk
from tests.support.samples import sample_memory, write
from tests.support.store_services import StoreServices, simulated_services_in

DAY = 86_400_000
NOON = 1_000 * DAY + DAY // 2


@pytest.fixture
def services(tmp_path: Path) -> Iterator[StoreServices]:
    with simulated_services_in(tmp_path, has_model=False) as made:
        made.at = NOON
        yield made


def values(services: StoreServices, *recalls: list[float]) -> DailyValues:
    """The service as it is after a start; each call gives it the next of these recalls."""
    left = iter(recalls)
    return DailyValues(services.store, services.views, Disk(), lambda: next(left, []))


def test_a_day_has_the_values_of_its_last_sample_and_all_of_its_recalls(services: StoreServices) -> None:
    daily = values(services, [0.010], [0.010, 0.400])
    daily.sample()
    write(services.store, sample_memory(1, "The kettle is on the shelf."))
    (today,) = daily.answer(10).days
    assert (today.memories, today.recalls, today.at) == (1, 3, NOON)
    assert today.recall_ms_median == pytest.approx(10, rel=0.05)
    assert today.recall_ms_p95 == pytest.approx(400, rel=0.05)
    assert today.disk.keys() == {"database", "journal", "views", "free"}


def test_days_survive_a_restart_and_a_file_that_cannot_be_read_is_no_loss(services: StoreServices) -> None:
    values(services, [0.010]).sample()
    services.at += DAY
    daily = values(services)
    daily.sample()
    first, second = daily.answer(10).days
    assert (first.recalls, second.recalls, second.recall_ms_median) == (1, 0, None)
    assert first.day < second.day
    assert [each.day for each in daily.answer(1).days] == [second.day]
    (services.store.folder / FILE).write_text("{")
    assert [each.day for each in values(services).answer(10).days] == [second.day]
    (services.store.folder / FILE).unlink()
    assert [each.day for each in values(services).answer(10).days] == [second.day]


def test_days_are_bounded_and_in_order_whatever_the_clock_does(services: StoreServices) -> None:
    daily = values(services)
    for days in [*range(1, DAYS_MAX + 3), DAYS_MAX + 9, DAYS_MAX + 5]:
        services.at = NOON + days * DAY
        daily.answer(1)
    daily.sample()
    kept = [each["day"] for each in json.loads((services.store.folder / FILE).read_text())]
    assert (len(kept), kept) == (DAYS_MAX, sorted(set(kept)))
    assert kept[-1] == local_day(NOON + (DAYS_MAX + 9) * DAY)

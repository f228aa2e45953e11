"""Values of each day of the last year: memories, sizes on the disk, times of recalls. SPEC 13

They are in a file of their own beside the journal, `daily.json`, which a job replaces every hour. It is no part of the
store: no backup has it, nothing is rebuilt from it, and where it is missing or cannot be read, the days begin anew.
What was recalled since the last run of the job is lost in a crash.
"""

import logging
import threading
from collections.abc import Callable, Sequence

import msgspec

from mnemo_client.protocol.status import DailyValuesView, StatsAnswer
from mnemo_core.retrieval.histograms import add_times, quantile_ms
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.times import local_day
from mnemo_store.disk import Disk, file_size
from mnemo_store.store import Store

FILE = "daily.json"
DAYS_MAX = 366

log = logging.getLogger("mnemo.daily")


class _Day(msgspec.Struct, frozen=True, omit_defaults=True):
    """A day; its sizes and counts are those of its last sample. `times`: number of recalls by bin."""

    day: str  # 2026-05-14
    at: int  # ms: of its last sample
    memories: int = 0
    disk: dict[str, int] = {}
    times: dict[int, int] = {}


class DailyValues:
    """The service. Its methods may be called on any thread."""

    def __init__(self, store: Store, views: Views, disk: Disk, new_recalls: Callable[[], Sequence[float]]) -> None:
        """new_recalls: the seconds of each recall since the last call."""
        self._store = store
        self._views = views
        self._disk = disk
        self._new_recalls = new_recalls
        self._path = store.folder / FILE
        self._lock = threading.Lock()
        self._days = self._loaded()

    def sample(self) -> None:
        """Bring the present day up to date, and replace the file."""
        with self._lock:
            self._take()
            self._disk.replace_file(self._path, [msgspec.json.encode(self._days)])

    def close(self) -> None:
        """Take a last sample, before the store is closed. A disk that fails costs no more than that."""
        try:
            self.sample()
        except OSError as error:
            log.warning("the values of the day were not written: %s", error)

    def answer(self, days: int) -> StatsAnswer:
        """The last days that have values, the oldest first, with those of the present moment."""
        with self._lock:
            self._take()
            return StatsAnswer(days=[_view(each) for each in self._days[-days:]])

    def _take(self) -> None:
        """Bring the present day up to date; the clock may have been set back to an earlier one."""
        now = self._store.now()
        today = local_day(now)
        known = {each.day: each for each in self._days}
        times = known[today].times if today in known else {}
        known[today] = _Day(
            day=today, at=now, memories=self._views.attributes.count_states(("active", "archived")),
            disk={
                **self._store.disk_bytes(),
                "views": sum(map(file_size, (self._store.folder / "views").glob("*"))),
            },
            times=add_times(times, self._new_recalls()),
        )  # fmt: skip
        self._days = [known[day] for day in sorted(known)][-DAYS_MAX:]

    def _loaded(self) -> list[_Day]:
        try:
            days = msgspec.json.decode(self._path.read_bytes(), type=list[_Day])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("%s cannot be read, and the daily values begin anew: %s", self._path, error)
            return []
        return days[-DAYS_MAX:]


def _view(day: _Day) -> DailyValuesView:
    median, slow = (quantile_ms(day.times, share) for share in (0.5, 0.95))
    return DailyValuesView(
        day=day.day, at=day.at, memories=day.memories, disk=day.disk, recalls=sum(day.times.values()),
        recall_ms_median=None if median is None else round(median, 2),
        recall_ms_p95=None if slow is None else round(slow, 2),
    )  # fmt: skip

"""Daily values of a real daemon: from its recalls, and over a restart. SPEC 13"""

from mnemo_daemon.maintenance.daily_values import FILE
from tests.support.running_daemon import RunningDaemon


def test_a_day_counts_memories_and_recalls_and_outlives_the_daemon(started_daemon: RunningDaemon) -> None:
    with started_daemon.client() as client:
        client.remember("The kettle is on the shelf.")
        client.recall("Where is the kettle?")
        before = client.stats().days[-1]
        assert (before.memories, before.recalls) == (1, 1)
        assert before.recall_ms_median is not None
        assert before.recall_ms_p95 == before.recall_ms_median
        assert before.disk["journal"] > 0
    started_daemon.stop()
    assert (started_daemon.folder / FILE).stat().st_mode & 0o777 == 0o600
    started_daemon.start()
    with started_daemon.client() as client:
        after = client.stats(days=1).days[-1]
        assert (after.memories, after.recalls) == (1, 1)

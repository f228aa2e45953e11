"""Counts of memories by day, week, month or hour, from the columns alone. SPEC 13"""

import datetime as dt

import numpy as np

from mnemo_client.protocol.choices import TimelineStep, TimelineTime
from mnemo_client.protocol.memories import TimelineAnswer, TimelineBucketView, TimelineSource
from mnemo_core.retrieval.timeline import (
    DAYS_MAX,
    HOURS,
    DaySpan,
    Moments,
    counts_by_group,
    counts_within,
    step_bounds,
    whole_steps,
)
from mnemo_core.text.dates.local_days import EPOCH, days_after, local_time
from mnemo_daemon.errors import bad_value
from mnemo_daemon.times import utc_offset
from mnemo_store.indexes.attributes import AttributeStore, MemoryFilter

COLUMN: dict[TimelineTime, str] = {"event": "event_at", "stored": "created_at", "changed": "modified_at"}
DAYS_DEFAULT: dict[TimelineStep, int] = {"hour": 1, "day": 365, "week": 730, "month": 3650}
SOURCES_MAX = 20  # that are named; the others are counted together


def range_of(since: int | None, until: int | None, step: TimelineStep, now: int) -> DaySpan:
    """The local days from one moment to another (ms), widened to whole steps. An open end is that of today, an open
    beginning DAYS_DEFAULT before the end. Raises a Refusal for a range that is too long."""
    end = days_after(_day_of(now if until is None else until - 1), 1)
    begin = days_after(end, -DAYS_DEFAULT[step]) if since is None else _day_of(since)
    if until is None:
        end = max(end, days_after(begin, 1))
    span = whole_steps(DaySpan(max(begin, EPOCH), end), step)
    if span.days > DAYS_MAX[step]:
        message = f"{span.days} days are too many for the step {step}, which takes {DAYS_MAX[step]}"
        raise bad_value(f"{message}: name `since` and `until` closer together, or a longer step", "since")
    return span


def read_timeline(
    columns: AttributeStore, wanted: MemoryFilter, by: TimelineTime, step: TimelineStep, span: DaySpan
) -> TimelineAnswer:
    """Count the memories of a filter, whose own times are not looked at, in a span of whole steps."""
    mask = columns.uncached_mask(wanted._replace(since=None, until=None))
    times, codes = (column[: len(mask)][mask] for column in columns.columns(COLUMN[by], "source"))
    bounds = step_bounds(span, step, utc_offset)
    by_source = counts_by_group(times, codes, bounds)
    totals = by_source.sum(axis=0)
    commonest = np.argsort(-totals, kind="stable")[:SOURCES_MAX]
    commonest = commonest[totals[commonest] > 0]
    counts, named = by_source.sum(axis=1), by_source[:, commonest]
    sources = [TimelineSource(name=columns.name("source", int(code)), count=int(totals[code])) for code in commonest]
    rest = counts - named.sum(axis=1)
    if rest.any():
        named = np.column_stack([named, rest])
        sources.append(TimelineSource(name="", count=int(rest.sum())))
    return TimelineAnswer(
        since=int(bounds[0]), until=int(bounds[-1]), total=int(counts.sum()), sources=sources,
        first=int(times.min()) if len(times) else None, last=int(times.max()) if len(times) else None,
        buckets=[
            TimelineBucketView(
                since=int(bounds[at]), until=int(bounds[at + 1]), count=int(counts[at]), sources=named[at].tolist()
            )
            for at in np.flatnonzero(counts)
        ],
        hours=_by_hour(times, span),
    )  # fmt: skip


def _day_of(at: int) -> dt.date:
    return local_time(at, utc_offset)[0]


def _by_hour(times: Moments, span: DaySpan) -> list[int] | None:
    """The counts by hour of the day; None of a span that is too long for it."""
    if span.days > DAYS_MAX["day"]:
        return None
    counts = counts_within(times, step_bounds(span, "hour", utc_offset))
    by_hour: list[int] = counts.reshape(-1, HOURS).sum(axis=0).tolist()
    return by_hour

"""GET /metrics: a page that Prometheus reads, with bounded labels and nothing that was remembered. SPEC 13"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.http import SocketConnection
from mnemo_client.protocol.memories import NewMemory
from mnemo_daemon.server.request_metrics import CONTENT_TYPE, Exposition
from tests.support.running_daemon import RunningDaemon

_HEAD = re.compile(r"# (HELP|TYPE) (mnemo_[a-z0-9_]+) (.+)")
_SAMPLE = re.compile(
    r"(mnemo_[a-z0-9_]+)(?:\{((?:[a-z_]+=\"(?:[^\"\\\n]|\\[\\\"n])*\",?)+)\})? (-?[0-9.e+-]+|\+Inf|NaN)"
)
_LABEL = re.compile(r"([a-z_]+)=\"((?:[^\"\\]|\\.)*)\"")
SUFFIXES = ("_bucket", "_sum", "_count")


class MetricsPage(NamedTuple):
    """A page of metrics: its families with their types, and its samples by name and labels."""

    types: dict[str, str]
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float]

    def value(self, name: str, **labels: str) -> float:
        return self.samples[name, frozenset(labels.items())]


def parse(text: str) -> MetricsPage:
    """The page, read strictly: help and type before the samples of each family, which stand together, each once."""
    assert text.endswith("\n")
    types: dict[str, str] = {}
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    helped = ""
    family = ""
    for line in text.splitlines():
        if line.startswith("#"):
            head = _HEAD.fullmatch(line)
            assert head, line
            if head[1] == "HELP":
                helped = head[2]
                continue
            assert helped == head[2], line
            assert head[2] not in types, f"{head[2]} stands twice"
            assert head[3] in ("gauge", "counter", "histogram"), line
            types[head[2]], family = head[3], head[2]
            continue
        found = _SAMPLE.fullmatch(line)
        assert found, line
        name = found[1]
        names = {f"{family}{suffix}" for suffix in SUFFIXES} if types[family] == "histogram" else {family}
        assert name in names, f"{name} stands among the samples of {family}"
        assert (types[family] == "counter") == name.endswith("_total"), name
        key = (name, frozenset(_LABEL.findall(found[2] or "")))
        assert key not in samples, f"{line} stands twice"
        samples[key] = float(found[3])
    return MetricsPage(types, samples)


@pytest.fixture
def client(daemon: RunningDaemon) -> Iterator[Client]:
    with daemon.client() as open_client:
        yield open_client


def fetch(daemon: RunningDaemon, path: str = "/metrics") -> tuple[str, str]:
    """The text and its content type."""
    connection = SocketConnection(daemon.socket, 30.0)
    try:
        response = connection.exchange("GET", path, {}, None)
        return response.read().decode(), response.headers["content-type"]
    finally:
        connection.close()


def test_the_page_counts_memories_and_requests_and_names_nothing_that_was_said(
    daemon: RunningDaemon, client: Client
) -> None:
    before = parse(fetch(daemon)[0])
    client.remember(NewMemory(content="The vault of Zanzibar opens at noon.", namespace="zanzibar-private"))
    client.search("vault", namespace="zanzibar-private")
    with pytest.raises(RefusalError):
        client.get("00000000-0000-7000-8000-000000000000")
    for path in ("/nowhere/zanzibar", "/v1/memories/zanzibar/too/deep"):
        fetch(daemon, path)
    text, content_type = fetch(daemon, "/v1/metrics")
    page = parse(text)
    assert content_type == CONTENT_TYPE
    assert "zanzibar" not in text.lower()
    assert (
        page.value("mnemo_memories", state="active")
        == before.samples.get(("mnemo_memories", frozenset({("state", "active")})), 0) + 1
    )
    assert page.value("mnemo_changes_total") > before.value("mnemo_changes_total")
    count = "mnemo_http_request_duration_seconds_count"
    assert page.value(count, method="POST", route="/v1/memories", status="201") >= 1
    assert page.value(count, method="GET", route="/v1/memories/{id}", status="404") == 1
    assert page.value(count, method="GET", route="other", status="404") == 2
    assert page.value("mnemo_http_requests_in_flight") == 1
    assert page.value("mnemo_resident_memory_bytes") > 10_000_000
    assert page.value("mnemo_disk_bytes", part="journal") > 0
    assert page.value("mnemo_model_state", role="embedding", state="absent") == 1
    assert sum(page.value("mnemo_state", state=state) for state in ("ready", "warming", "degraded")) == 1
    assert page.value("mnemo_view_lag_changes", view="words") == 0


def test_the_buckets_of_every_histogram_grow_and_end_with_the_count(daemon: RunningDaemon) -> None:
    page = parse(fetch(daemon)[0])
    series: dict[frozenset[tuple[str, str]], list[tuple[float, float]]] = {}
    for (name, labels), value in page.samples.items():
        if name.endswith("_bucket"):
            bound = dict(labels)["le"]
            rest = frozenset(each for each in labels if each[0] != "le")
            series.setdefault(rest, []).append((float(bound.replace("+Inf", "inf")), value))
    assert series
    for labels, buckets in series.items():
        numbers = [number for _, number in sorted(buckets)]
        assert numbers == sorted(numbers)
        assert numbers[-1] == page.samples["mnemo_http_request_duration_seconds_count", labels]
        assert len(buckets) == 14


def test_labels_and_help_are_escaped_and_a_family_without_samples_is_left_out() -> None:
    page = Exposition()
    page.family("mnemo_x", "gauge", "One\nline with \\.", [({"name": 'a"b\\c\nd'}, 0.5)])
    page.family("mnemo_y", "gauge", "Nothing.", [])
    page.histogram("mnemo_z_seconds", "Times.", (0.5, 2.0), [({}, (1, 2, 3), 12.25)])
    assert page.encode().decode() == (
        "# HELP mnemo_x One\\nline with \\\\.\n# TYPE mnemo_x gauge\n"
        'mnemo_x{name="a\\"b\\\\c\\nd"} 0.5\n'
        "# HELP mnemo_z_seconds Times.\n# TYPE mnemo_z_seconds histogram\n"
        'mnemo_z_seconds_bucket{le="0.5"} 1\nmnemo_z_seconds_bucket{le="2"} 3\nmnemo_z_seconds_bucket{le="+Inf"} 6\n'
        "mnemo_z_seconds_sum 12.25\nmnemo_z_seconds_count 6\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "mnemo_x 1\n",
        "# HELP mnemo_x A.\n# TYPE mnemo_x counter\nmnemo_x 1\n",
        "# HELP mnemo_x A.\n# TYPE mnemo_x gauge\nmnemo_x 1\nmnemo_x 2\n",
        "# HELP mnemo_x A.\n# TYPE mnemo_x gauge\nmnemo_y 1\n",
        '# HELP mnemo_x A.\n# TYPE mnemo_x gauge\nmnemo_x{a="b"c"} 1\n',
        "# HELP mnemo_x A.\n# TYPE mnemo_x gauge\nmnemo_x one\n",
    ],
)
def test_the_reader_of_these_tests_refuses_what_prometheus_would(text: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        parse(text)

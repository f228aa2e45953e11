"""The tree of topics of a real daemon, at its routes and in the command line. SPEC 10.1, 13"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.knowledge import TopicsAnswer
from mnemo_client.protocol.memories import NewMemory
from tests.support.running_daemon import RunningDaemon, running
from tests.support.samples import AT, WAIT_SECONDS, quick_folder

MUSIC = ("The xylophone quartet rehearses on Monday.", "The xylophone needs new mallets.", "The quartet plays in Bonn.")
GARDEN = ("We planted tomatoes behind the shed.", "The tomatoes need water every day.")
SECRET = "The tomatoes are paid for with the key of the vault."


def current(client: Client) -> TopicsAnswer:
    """The topics, once they are those of the present memories."""
    client.rebuild_topics()
    assert {each.name for each in client.jobs().operations} <= {"topics"}
    deadline = time.monotonic() + WAIT_SECONDS
    while not (answer := client.topics()).current:
        assert time.monotonic() < deadline, "the topics do not become current"
        time.sleep(0.05)
    assert client.jobs().operations == []
    return answer


def test_G51_topics_are_listed_expanded_and_free_of_what_is_erased(minilm_folder: Path) -> None:
    environ = {"MNEMO_MODELS_FOLDER": str(minilm_folder), "MNEMO_LLM_LEVEL": "off"}
    with quick_folder() as folder, running(folder, environ) as daemon, daemon.client() as client:
        texts = enumerate((*MUSIC, *GARDEN))
        ids = [client.remember(NewMemory(content=text, event_at=AT + at, dedup="off")).memory.id for at, text in texts]
        client.remember(NewMemory(content=SECRET, tags=["sensitive"], dedup="off"))
        daemon.wait_for_vectors()
        music, garden = sorted(current(client).topics, key=lambda topic: "tomatoes" in topic.name)
        assert ("xylophone" in music.name, music.count, "tomatoes" in garden.name, garden.count) == (True, 3, True, 3)

        check_that_members_come_in_pages(client, music.id, ids[:3])
        with daemon.client(entry_point="mcp") as agent:
            assert {topic.id: topic.count for topic in agent.topics().topics} == {music.id: 3, garden.id: 2}
            assert len(agent.expand_topics([garden.id]).topics[0].memories) == 2
        assert command(daemon, garden.id, "kb999").splitlines()[0].startswith(garden.id)

        report = client.erase_many(ids[:3])
        assert report.complete
        assert [topic.id for topic in client.topics().topics] == [garden.id]
        assert b"xylophone" not in (daemon.folder / "views" / "topics.view").read_bytes()


def test_a_person_names_a_topic_and_sees_its_members_by_nearness_and_month(minilm_folder: Path) -> None:
    environ = {"MNEMO_MODELS_FOLDER": str(minilm_folder), "MNEMO_LLM_LEVEL": "off"}
    with quick_folder() as folder, running(folder, environ) as daemon, daemon.client() as client:
        dates = ("2026-03-02", "2026-03-28", "2026-05-11", "2026-05-12", "2026-05-13")
        texts = zip((*MUSIC, *GARDEN), dates, strict=True)
        for text, date in texts:
            client.remember(NewMemory(content=text, event_at=f"{date}T12:00:00", dedup="off"))
        client.remember(NewMemory(content="The sauna is hot.", namespace="house"))
        daemon.wait_for_vectors()
        music, garden = sorted(current(client).topics, key=lambda topic: "tomatoes" in topic.name)

        named = client.rename_topic(music.id, name="The quartet")
        assert (named.topic.name, named.topic.method, named.topic.count) == ("The quartet", "user", 3)
        assert client.rename_topic(music.id, name="The quartet").seq is None
        client.remember(NewMemory(content="The quartet got new xylophone mallets from Bonn.", dedup="off"))
        daemon.wait_for_vectors()
        assert {topic.name for topic in current(client).topics} == {"The quartet", garden.name}  # built anew
        assert "The quartet" in client.resume().text
        daemon.stop()
        daemon.start()
        daemon.wait_for_vectors()
        assert {topic.name for topic in current(client).topics} == {"The quartet", garden.name}
        client.undo(seq=named.seq)
        assert music.name in {topic.name for topic in client.topics().topics}
        client.rename_topic(garden.id, name="Vegetables")
        last = client.rename_topic(garden.id, name=None)
        assert last.topic.name == garden.name
        client.undo()  # of the last change
        assert "Vegetables" in {topic.name for topic in client.topics().topics}
        check_that_names_are_refused(daemon, client, music.id)

        page = client.expand_topics([music.id], sort="nearest", months=True, limit=3).topics[0]
        assert page.months == {"2026-03": 2, "2026-05": 1, time.strftime("%Y-%m"): 1}
        assert page.nearness == sorted(page.nearness, reverse=True)
        assert 0 < page.nearness[-1] <= page.nearness[0] <= 1
        rest = client.expand_topics([music.id], sort="nearest", limit=3, cursor=page.cursor).topics[0]
        assert rest.nearness[0] <= page.nearness[-1]
        assert len({memory.id for memory in (*page.memories, *rest.memories)}) == 4
        plain = client.expand_topics([music.id]).topics[0]
        assert (plain.nearness, plain.months) == ([], {})
        assert {topic.namespace for topic in client.topics(namespace="*").topics} == {"default", "house"}


def check_that_names_are_refused(daemon: RunningDaemon, client: Client, topic: str) -> None:
    for topic_id, name, status in (("kb999", "x", 404), (topic, " ", 400), (topic, "x" * 81, 400)):
        with pytest.raises(RefusalError) as refused:
            client.rename_topic(topic_id, name=name)
        assert refused.value.status == status
    with daemon.client(entry_point="mcp") as agent, pytest.raises(RefusalError, match="only a person"):
        agent.rename_topic(topic, name="x")


def check_that_members_come_in_pages(client: Client, topic: str, ids: list[str]) -> None:
    first = client.expand_topics([topic, "kb999"], limit=2)
    assert first.unknown == ["kb999"]
    rest = client.expand_topics([topic], limit=2, cursor=first.topics[0].cursor)
    assert [memory.id for page in (first, rest) for memory in page.topics[0].memories] == ids[::-1]  # the newest first
    assert rest.topics[0].cursor is None
    for ids_, cursor in ([topic, "kb999"], "1.x"), ([topic], "nonsense"):
        with pytest.raises(RefusalError, match="cursor"):
            client.expand_topics(ids_, cursor=cursor)


def command(daemon: RunningDaemon, *ids: str) -> str:
    """The output of `mnemo topics`."""
    program = [sys.executable, "-m", "mnemo_client.cli.main", "topics", *ids]
    answer = subprocess.run(program, env=daemon.environ, capture_output=True, text=True, check=True)
    assert "there is no topic kb999" in answer.stderr
    return answer.stdout

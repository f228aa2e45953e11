"""The timeline, the facts, the topics and the map of the page, in a real browser. SPEC 18"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from mnemo_client.protocol.knowledge import NewFact, NewFacts
from mnemo_client.protocol.memories import NewMemory
from tests.support.browser import Browser, opened_page
from tests.support.page_process import served_page
from tests.support.running_daemon import PrestartedDaemons, RunningDaemon

ESCAPE, LEFT, RIGHT = "\ue00c", "\ue012", "\ue014"
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
DAYS_AGO = 40
READY_SECONDS = 60.0


@pytest.fixture(scope="module")
def window(daemon: RunningDaemon) -> Iterator[Browser]:
    long_ago = (NOON - timedelta(days=DAYS_AGO)).isoformat()
    with daemon.client("days") as client:
        client.remember_many([
            NewMemory(content="The roof was mended.", event_at=long_ago),
            NewMemory(content="The roofer was paid.", event_at=long_ago),
            NewMemory(content="A pigeon sits on the roof."),
        ])  # fmt: skip
    with daemon.client("people") as client:
        porto = NewFact(subject="Johan", predicate="lives in", object="Porto", valid_from="2025-10-11")
        harbor = NewFact(subject="Johan", predicate="works at", object="Harbor", valid_from="2025-02-01")
        braga = NewFact(subject="Johan", predicate="lives in", object="Braga", valid_from="2026-03-03")
        client.add_facts(NewFacts(facts=[porto, harbor]))
        client.add_facts(NewFacts(facts=[braga], agent_id="codex"))
    with served_page(daemon) as page, opened_page(page) as browser:
        yield browser


@pytest.fixture
def browser(window: Browser) -> Iterator[Browser]:
    window.press(ESCAPE, ESCAPE)
    window.complaints()
    yield window
    assert window.complaints() == []


# Timeline


def test_the_day_before_with_something_is_shown_in_order(browser: Browser) -> None:
    browser.go("#/timeline?ns=days")
    browser.sees("3 memories on 2 days", ".calendar-foot")
    browser.press("[")
    browser.sees("The roof was mended.", ".hit")
    assert browser.texts(".hit .body > .text") == ["The roof was mended.", "The roofer was paid."]
    day = (NOON - timedelta(days=DAYS_AGO)).astimezone().date()
    assert f"day={day.isoformat()}" in browser.run("return location.hash")
    browser.press(LEFT)
    browser.sees("Nothing happened on this day", ".day")
    assert f"day={(day - timedelta(days=1)).isoformat()}" in browser.run("return location.hash")


def test_the_calendar_can_be_read_as_a_table(browser: Browser) -> None:
    browser.go("#/timeline?ns=days")
    browser.sees("3 memories on 2 days", ".calendar-foot")
    browser.click_text("as a table")
    browser.until(lambda: len(browser.all(".table-place tbody tr")) == 2, "not a row for each day")
    assert sorted(browser.texts(".table-place td.number")) == ["1", "2"]
    browser.click_text("as a picture")


# Facts


def test_a_conflict_is_decided_and_taken_back_by_keys(browser: Browser, daemon: RunningDaemon) -> None:
    browser.go("#/facts?ns=people")
    browser.sees("both are said to hold", ".decision")
    assert browser.texts(".conflict-side h4") == ["Porto", "Braga"]
    assert browser.texts(".conflict-side .primary") == browser.texts(".conflict-side:first-child .primary")
    with daemon.client("people") as client:
        browser.press(RIGHT)
        browser.sees("Kept: lives in Braga", ".toast")
        assert [each.status for each in client.fact_history("Johan").history if each.object == "Porto"] == ["closed"]
        assert client.fact_conflicts().conflicts == []
        browser.press("u")
        browser.sees("Taken back", ".toast")
        browser.sees("both are said to hold", ".decision")
        assert len(client.fact_conflicts().conflicts) == 1
        browser.press("b")
        browser.sees("Both hold: Porto, Braga", ".toast")
        assert client.fact_conflicts().conflicts == []
        browser.press("u")
        browser.sees("Taken back", ".toast")


def test_what_is_not_a_fact_leaves_and_comes_back(browser: Browser, daemon: RunningDaemon) -> None:
    browser.go("#/facts?ns=people&predicate=works+at")
    browser.until(lambda: len(browser.all(".facts-table tbody tr")) == 1, "not one fact")
    browser.click(".facts-table tbody td.object")
    browser.press("x")
    browser.sees("Not a fact: works at Harbor", ".toast")
    with daemon.client("people") as client:
        assert "Harbor" not in [each.object for each in client.facts("Johan").facts]
        browser.press("u")
        browser.sees("Taken back", ".toast")
        assert "Harbor" in [each.object for each in client.facts("Johan").facts]


def test_the_chains_around_a_subject_can_be_read_as_a_table(browser: Browser) -> None:
    browser.go("#/facts?ns=people&subject=Johan")
    browser.until(lambda: len(browser.all(".chains .entity")) == 4, "not the subject and what three facts say")
    assert len(browser.all(".chains .disputed")) == 2
    browser.click_text("as a table")
    browser.until(lambda: len(browser.all(".pane .table-place tbody tr")) == 3, "not a row for each fact")


def test_a_chain_shows_where_it_goes_on_with_something_else_of_the_same_name(
    browser: Browser, daemon: RunningDaemon
) -> None:
    with daemon.client("chains") as client:
        client.add_facts(NewFacts(facts=[
            NewFact(subject="Mira", predicate="works at", object="Harbor"),
            NewFact(subject="the canteen of Harbor", predicate="closes on", object="Sunday"),
        ]))  # fmt: skip
    browser.go("#/facts?ns=chains&subject=Mira")
    names = "return [...document.querySelectorAll('.chains .entity title')].map((each) => each.textContent)"
    expected = ["Harbor", "Mira", "Sunday", "the canteen of Harbor"]
    browser.until(lambda: sorted(browser.run(names)) == expected, "not the chain of this subject")
    assert len(browser.all(".chains .link.named")) == 1
    assert len(browser.all(".chains .arrow")) == 2


# Topics and map


@pytest.fixture(scope="module")
def with_meaning(in_the_form_of_the_processor: PrestartedDaemons) -> Iterator[Browser]:
    """A page of a daemon with an embedding model and two things that are talked about."""
    with in_the_form_of_the_processor.taken() as daemon:
        with daemon.client() as client:
            client.remember_many([
                *(NewMemory(content=f"The sourdough bread number {n} was baked with rye flour.") for n in range(24)),
                *(NewMemory(content=f"The sail number {n} of the boat was sewn by the sailmaker.") for n in range(16)),
            ])  # fmt: skip
            daemon.wait_for_vectors()
            deadline = time.monotonic() + READY_SECONDS
            while not (client.map().state == "ready" and client.map().total >= 30 and client.topics().topics):
                assert time.monotonic() < deadline, "neither map nor topics"
                time.sleep(0.2)
        with served_page(daemon) as page, opened_page(page) as browser:
            yield browser
            assert browser.complaints() == []


def test_the_map_shows_opens_and_gathers_points(with_meaning: Browser) -> None:
    browser = with_meaning
    browser.go("#/map")
    browser.sees("near means alike", ".map-foot")
    browser.press(RIGHT)
    browser.until(lambda: "number" in browser.texts(".map-tip")[0], "the reticle shows no memory")
    browser.press("\n")
    browser.sees("number", ".card .memory")
    browser.press(ESCAPE, "l")
    browser.drag(".map-place", [(0.02, 0.12), (0.98, 0.12), (0.98, 0.9), (0.02, 0.9)])
    browser.sees("in the lasso", ".lasso-part")
    shown = browser.texts(".lasso-part .pane-title")[0]
    assert int(shown.split()[0]) >= 30
    browser.press("g")
    browser.type(".lasso-part input", "gathered\n")
    browser.sees("tagged #gathered", ".toast")
    browser.press("u")
    browser.sees("Taken back", ".toast")
    browser.click_text("as a table")
    browser.until(lambda: browser.all(".map-table tbody tr"), "no table")
    browser.click_text("as a picture")


def test_a_topic_is_chosen_and_renamed_by_keys(with_meaning: Browser) -> None:
    browser = with_meaning
    browser.go("#/topics")
    browser.sees("sourdough bread", ".view.topics .pane .hit")
    browser.press("j")
    browser.sees("sewn by the sailmaker", ".pane .hit")
    (given,) = browser.texts(".pane-title")
    browser.press("e")
    browser.type(".pane .prompt input", "The sails\n")
    browser.sees("The sails", ".topic-row[aria-selected=true]")
    browser.press("u")
    browser.sees(given, ".topic-row[aria-selected=true]")


def test_the_areas_of_topics_are_as_large_as_they_are(with_meaning: Browser) -> None:
    browser = with_meaning
    browser.go("#/topics?as=areas")
    browser.until(lambda: len(browser.all(".area")) == 2, "not an area for each topic")
    bread, sails = [each.size["width"] * each.size["height"] for each in browser.all(".area")]
    assert bread / sails == pytest.approx(24 / 16, rel=0.05)

"""The page as a person uses it, in a real browser, with memories that no one here wrote. SPEC 18"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Browser, opened_page
from tests.support.page_process import served_page
from tests.support.python_reference import write_reference
from tests.support.running_daemon import RunningDaemon, running
from tests.support.samples import quick_folder

MEMORIES = 10_000
VIEWS = (
    "search", "timeline", "map", "topics", "facts", "conversations", "lifecycle/layers", "lifecycle/review",
    "lifecycle/cycles", "lifecycle/changes", "lifecycle/trash", "agent", "machine",
)  # fmt: skip
ATTACKS = (
    "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">",
    "[click](javascript:document.title='owned') <a href=\"javascript:document.title='owned'\">here</a>",
    "\u202eevil\u202c \u2066hidden\u2069 \x1b[31mred\x1b[0m",
    "an-attack-of-one-word-" + "x" * 300,
    "تعمل خدمة المدفوعات على المنفذ 8443 an attack from right to left",
)


@pytest.fixture(scope="module")
def large() -> Iterator[RunningDaemon]:
    """A daemon without a model, on a store of many memories that it finds."""
    with quick_folder() as scratch:
        write_reference(scratch / "data", MEMORIES)
        environ = {"MNEMO_MODELS_FOLDER": str(scratch / "models"), "MNEMO_LIFECYCLE_INTERVAL_MINUTES": "0"}
        with running(scratch / "data", environ) as daemon:
            yield daemon


@pytest.fixture(scope="module")
def filled(large: RunningDaemon) -> RunningDaemon:
    with large.client("home") as client:
        client.remember("The payments service listens on port 8443.")
        client.remember("The payments service listens on port 9443 since 16 November.")
        client.remember("The spare key of the cabin is with Ines.", tags=["cabin"])
        client.remember("The PIN of the alarm is 2580.", tags=["sensitive"])
    with large.client("attacks") as client:
        for text in ATTACKS:
            client.remember(text, tags=["<b>bold</b>"])
    return large


@pytest.fixture(scope="module")
def window(filled: RunningDaemon) -> Iterator[Browser]:
    with served_page(filled) as page, opened_page(page) as browser:
        yield browser


@pytest.fixture
def browser(window: Browser) -> Iterator[Browser]:
    """The shared window at the beginning. Nothing may be left in its console."""
    window.press("\ue00c", "\ue00c")
    window.go("#/search?ns=home")
    window.sees("The last of", ".list-head")
    window.run("document.activeElement.blur()")
    window.complaints()
    yield window
    assert window.complaints() == []


def search(browser: Browser, text: str) -> None:
    browser.type("input[type=search]", text)
    asked = "return new URLSearchParams(location.hash.split('?')[1]).get('q')"
    browser.until(lambda: browser.run(asked) == text, "the address has no question")


# Search


def test_hits_come_as_one_types_with_the_old_value_below_the_new(browser: Browser) -> None:
    search(browser, "which port does the payments service listen on")
    browser.sees("9443 since 16 November", ".hit[aria-selected=true]")
    assert browser.texts(".hit .rank")[:2] == ["1", "was"]
    assert {"port", "payments", "service"} <= {each.lower() for each in browser.texts(".hit mark")}
    browser.sees("What it has of the question", ".side")
    browser.sees("9443", ".answer")
    browser.click(".cite")
    browser.sees("9443 since 16 November", ".card .memory")


def test_looking_counts_as_no_use_of_a_memory(browser: Browser, filled: RunningDaemon) -> None:
    with filled.client("home") as client:
        memory = client.search("9443").memories[0]
        before = client.get(memory.id).access_count
        search(browser, "on which port is the payments service")
        browser.sees("9443", ".answer")
        browser.click(".hit")
        browser.sees("9443", ".card .memory")
        browser.sees("8443", ".card .relations")
        assert browser.texts(".card .relations .label") == ["replaces"]
        assert client.get(memory.id).access_count == before
        assert client.shown(memory.id).shown == []


def test_of_many_memories_few_are_loaded(browser: Browser) -> None:
    browser.go("#/search?ns=reference&q=garbage+collection+of+weak+references")
    browser.until(lambda: len(browser.all(".hit")) == 20, "no hits")
    browser.sees(f"{MEMORIES // 1000},0", "#nav footer")  # with those of the other namespaces
    browser.press("j", "j")
    browser.until(lambda: browser.texts(".hit[aria-selected=true] .rank") == ["3"], "not the third")
    browser.press("\n")
    browser.one(".card .versions li")
    assert "id=" in browser.run("return location.hash")
    browser.press("\ue00c")
    browser.until(lambda: not browser.all(".card"), "the card is still there")


def test_what_is_typed_stays_in_the_field_while_a_card_is_open(browser: Browser, filled: RunningDaemon) -> None:
    search(browser, "payments")
    browser.sees("9443", ".hit")
    browser.click(".hit")
    browser.one(".card .actions")
    browser.click("input[type=search]")
    for key in " taxpex":
        browser.press(key)
        browser.until(lambda: browser.run("return document.activeElement.type") == "search", "the focus has left")
        time.sleep(0.15)  # the pause of a slow typist, in which an answer arrives
    assert browser.one("input[type=search]").get_property("value") == "payments taxpex"
    with filled.client("home") as client:
        assert {each.state for each in client.search("payments").memories} == {"active"}


def test_a_new_question_selects_its_first_hit(browser: Browser) -> None:
    browser.press("j", "j")
    search(browser, "where is the spare key")
    browser.sees("Ines", ".hit")
    browser.until(lambda: browser.texts(".hit[aria-selected=true] .rank") == ["1"], "another hit is selected")
    browser.sees("Hit 1", ".side h2")


def test_a_filter_is_a_chip_in_the_address(browser: Browser) -> None:
    search(browser, "spare key")
    browser.sees("Ines", ".hit")
    browser.click_text("+ tag", ".chip")
    browser.one("input.chip").send_keys("cabin\n")
    browser.until(lambda: "tag=cabin" in browser.run("return location.hash"), "no filter")
    browser.sees("Ines", ".hit")
    browser.go("#/search?ns=home&q=spare+key&tag=nothing")
    browser.sees("Nothing was found")
    browser.click_text("Without the filters")
    browser.sees("Ines", ".hit")


def test_a_sensitive_text_is_not_in_the_document_before_it_is_asked_for(browser: Browser) -> None:
    search(browser, "PIN of the alarm")
    browser.one(".hit .cover")
    assert "2580" not in browser.run("return document.documentElement.outerHTML")
    browser.click(".hit .cover")
    browser.sees("2580", ".hit")


def test_texts_that_attack_are_shown_as_text_in_every_view(browser: Browser) -> None:
    for view in (
        "search",
        "search?q=attack",
        "timeline",
        "topics",
        "facts",
        "lifecycle/layers",
        "lifecycle/changes",
        "agent",
    ):
        mark = "&" if "?" in view else "?"
        browser.go(f"#/{view}{mark}ns=attacks")
        browser.until(lambda: browser.all(".view > *"), view)
    browser.go("#/search?ns=attacks")
    browser.sees("<script>", ".hit")
    browser.sees("<b>bold</b>", ".hit .tag")
    hit = next(each for each in browser.all(".hit") if "evil" in each.text)
    assert "\u202e" not in hit.text
    assert "\x1b" not in hit.text
    assert "␛[31mred" in hit.text
    hit.click()
    browser.sees("evil", ".card .memory")
    assert browser.driver.title.endswith("mnemo")
    assert (
        browser.run("return document.querySelectorAll('main script, main img, main a[href^=javascript]').length") == 0
    )
    browser.resize(380, 800)
    assert browser.run("return document.documentElement.scrollWidth") <= 380
    browser.resize(1440, 900)


# The card


def test_an_edit_is_stored_shown_as_a_difference_and_taken_back(browser: Browser, filled: RunningDaemon) -> None:
    search(browser, "spare key cabin")
    browser.sees("Ines", ".hit")
    browser.press("\ue00c", "e")
    browser.one(".card textarea").send_keys(" She lives in Porto.")
    browser.run("location.reload()")
    browser.until(lambda: not browser.all(".card textarea"), "not reloaded")
    browser.one(".card .actions")
    browser.press("e")
    browser.until(lambda: "Porto" in str(browser.one(".card textarea").get_property("value")), "the draft is lost")
    browser.click_text("Save")
    browser.sees("Changed", ".toast")
    browser.sees("She lives in Porto.", ".card .versions ins")
    browser.press("u")
    browser.sees("Taken back", ".toast")
    browser.sees_no("Porto", ".card .memory")
    with filled.client("home") as client:
        assert client.search("spare key").memories[0].content == "The spare key of the cabin is with Ines."


def test_a_conflict_shows_both_texts_and_loses_neither(browser: Browser, filled: RunningDaemon) -> None:
    with filled.client("home") as client:
        memory = client.remember("The bakery opens at seven.").memory
        assert memory is not None
        browser.go(f"#/search?ns=home&id={memory.id}")
        browser.sees("bakery", ".card .memory")
        browser.press("e")
        browser.one(".card textarea").send_keys(" On Sundays at eight.")
        client.patch(memory.id, content="The bakery opens at six.")
        browser.click_text("Save")
        browser.sees("It was changed meanwhile", ".conflict")
        browser.click_text("Keep mine")
        browser.until(lambda: "Sundays" in client.get(memory.id).content, "mine is not kept")
        client.delete(memory.id)


def test_what_goes_to_the_trash_comes_back(browser: Browser, filled: RunningDaemon) -> None:
    with filled.client("home") as client:
        memory = client.remember("The bicycle pump is in the cellar.").memory
        assert memory is not None
        search(browser, "bicycle pump")
        browser.sees("cellar", ".hit")
        browser.press("\ue00c", "\n")
        browser.sees("cellar", ".card .memory")
        browser.press("x")
        browser.sees("In the trash", ".toast")
        browser.until(lambda: client.get(memory.id).state == "trashed", "not in the trash")
        browser.press("u")
        browser.until(lambda: client.get(memory.id).state == "active", "not restored")
        client.delete(memory.id)


def test_forgetting_wants_its_word_and_shows_the_proof(started_daemon: RunningDaemon) -> None:
    with started_daemon.client("home") as client:
        memory = client.remember("A secret of Zacharias that nobody is to know.").memory
        assert memory is not None
    with served_page(started_daemon) as page, opened_page(page) as browser:
        browser.go(f"#/search?ns=home&id={memory.id}")
        browser.sees("Zacharias", ".card .memory")
        browser.press("\ue00c", "m")  # out of the field, which a new page has the focus in
        browser.click_text("Forget for ever")
        browser.one("dialog.forget input")
        assert browser.one("dialog.forget button[type=submit]").get_property("disabled") is True
        browser.type("dialog.forget input", "forget")
        browser.click("dialog.forget button[type=submit]")
        browser.sees("were searched for its words", "dialog.forget")
        assert browser.texts("dialog.forget h2") == ["Forgotten"]
        browser.click_text("Close")
        browser.sees_no("Zacharias")
        assert browser.complaints() == []


def test_an_edit_is_marked_as_one_among_the_changes(browser: Browser, filled: RunningDaemon) -> None:
    with filled.client("edits") as client:
        memory = client.remember("The tram stops at the museum.").memory
        assert memory is not None
        client.patch(memory.id, content="The tram stops at the museum and the zoo.")
    browser.go("#/lifecycle/changes?ns=edits")
    browser.sees("and the zoo", ".member")
    assert browser.texts(".member .badge") == ["added, changed"]


def test_a_message_of_the_page_covers_no_control(browser: Browser, filled: RunningDaemon) -> None:
    with filled.client("home") as client:
        memory = client.remember("The ladder is behind the shed.").memory
        assert memory is not None
    rects = "return [...document.querySelectorAll(arguments[0])].map((each) => each.getBoundingClientRect().toJSON())"
    for width, controls in ((1440, "nav"), (380, ".card > .actions")):
        browser.resize(width, 800)
        browser.go(f"#/search?ns=home&id={memory.id}")
        browser.sees("ladder", ".card .memory")
        browser.press("p")
        browser.sees("Pinned", ".toast")
        (toast,) = browser.run(rects, ".toast")
        for each in browser.run(rects, controls):
            assert toast["left"] >= each["right"] or toast["bottom"] <= each["top"], (width, toast, each)
        browser.press("u")
        browser.sees("Taken back", ".toast")
        browser.sees_no("pinned", ".card > header")
    browser.resize(1440, 900)
    with filled.client("home") as client:
        client.delete(memory.id)


def test_the_head_of_a_card_is_one_line_in_a_narrow_window(browser: Browser, filled: RunningDaemon) -> None:
    with filled.client("a-namespace-with-a-very-long-name") as client:
        memory = client.remember("Never deploy on a Friday.", kind="procedural", pinned=True).memory
        assert memory is not None
    browser.resize(380, 800)
    browser.go(f"#/search?id={memory.id}")
    browser.sees("Friday", ".card .memory")
    assert browser.one(".card > header").size["height"] < 64
    assert browser.run("return document.documentElement.scrollWidth") <= 380
    browser.resize(1440, 900)


def test_what_is_below_the_cut_has_its_score_and_its_reason(browser: Browser) -> None:
    browser.go("#/agent?ns=reference&when=prompt&prompt=garbage+collection+of+weak+references")
    browser.sees("score", ".lines")
    browser.sees("the cut", ".below-cut")
    browser.until(lambda: all(browser.texts(".below-row .grow") or [""]), "a text is missing")
    assert all(browser.texts(".below-row .why"))
    scores = [float(each) for each in browser.texts(".below-row .number")]
    assert scores == sorted(scores, reverse=True)


def test_the_markdown_of_a_note_is_elements_and_never_markup(
    browser: Browser, filled: RunningDaemon, short_folder: Path
) -> None:
    lines = ("Ports are **fixed** by `ports.toml`:", "", "- one", "  - inner", "- R&D <3", "",
             "[the list](javascript:history.back) [more](javascript:alert(1))", "",
             "```", "**as it is**", "```")  # fmt: skip
    (short_folder / "ports.md").write_text("\n".join(lines), encoding="utf-8")
    with filled.client() as client:
        root = client.add_root(short_folder, "notes")
        found = browser.until(
            lambda: [each for each in client.search("ports", namespace="notes").memories if each.note], "no note"
        )
        browser.go(f"#/search?ns=notes&id={found[0].id}")
        browser.sees("fixed", ".card .markdown b")
        assert browser.texts(".card .markdown code") == ["ports.toml"]
        assert browser.texts(".card .markdown li li") == ["inner"]
        assert browser.texts(".card .markdown pre") == ["**as it is**"]
        browser.sees("R&D <3", ".card .markdown li")
        browser.sees("the list (javascript:history.back) [more](javascript:alert(1))", ".card .markdown p")
        assert browser.all(".card .markdown a, .card .markdown img") == []
        client.remove_root(id=root.id)


# The daemon and other pages


def test_a_page_outlives_the_daemon_and_goes_on(scratch_daemon: RunningDaemon) -> None:
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        client.remember("The ferry leaves at noon.")
    with served_page(scratch_daemon) as page, opened_page(page) as browser:
        search(browser, "when does the ferry leave")
        browser.sees("noon", ".hit")
        scratch_daemon.kill()
        browser.sees("The daemon is not running", "#notice")
        browser.sees("noon", ".hit")
        scratch_daemon.start()
        browser.sees_no("The daemon is not running", "#notice")
        with scratch_daemon.client() as client:
            client.remember("The ferry back leaves at six.")
        browser.sees("new", ".list-head")
        assert len(browser.texts(".hit")) == 1, "nothing moves by itself"
        browser.press("\ue00c", ".")
        browser.until(lambda: len(browser.all(".hit")) == 2, "the new one is not taken in")


def test_a_notice_can_come_before_the_first_view(started_daemon: RunningDaemon) -> None:
    with served_page(started_daemon) as page, opened_page(page) as browser:
        browser.sees("There is no memory yet")
        script = """return import("/app.js").then(({ Page }) => {
            document.getElementById("main").replaceChildren();
            const page = new Page();
            page.noteDaemon(false);
            return page.notice.textContent;
        });"""
        assert "The daemon is not running" in browser.run(script)


def test_an_empty_store_says_how_to_begin(started_daemon: RunningDaemon) -> None:
    with served_page(started_daemon) as page, opened_page(page) as browser:
        browser.sees("There is no memory yet")
        browser.sees("mnemo notes add", ".empty")
        browser.run("location.reload()")
        browser.sees("There is no memory yet")  # the cookie is enough


def test_a_page_that_is_read_only_has_no_way_to_write(filled: RunningDaemon) -> None:
    with served_page(filled, "--read-only") as page, opened_page(page) as browser:
        browser.sees("read only", "#nav")
        browser.go("#/search?ns=home&q=spare+key")
        browser.sees("Ines", ".hit")
        browser.press("\ue00c", "\n")
        browser.one(".card .versions li")
        browser.press("x", "p", "e")
        assert browser.texts(".card .actions button") == []
        assert browser.all(".card textarea") == []


def test_the_machine_says_whether_the_memory_is_shared_with_other_devices(browser: Browser) -> None:
    browser.go("#/machine?ns=home")
    browser.sees("This memory is on one device", ".panel.devices")
    assert browser.run("return document.querySelector('.panel.devices code').textContent") == "mnemo sync init FOLDER"


def test_no_request_leaves_this_machine(window: Browser) -> None:
    addresses = window.requested_addresses()
    assert addresses
    own = f"http://127.0.0.1:{window.page.port}/"
    inside = ("chrome:", "chrome-untrusted:", "data:", "blob:")  # the browser's own, which reach no network
    assert sorted(each for each in addresses if not each.startswith((own, *inside))) == []


# Looks


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", ["search?q=what+is+a+generator", *VIEWS])
def test_every_view_passes_the_rules_of_accessibility(window: Browser, view: str, theme: str) -> None:
    window.use_theme(theme)
    window.go(f"#/{view}")
    window.until(lambda: window.all(".view > *"), view)
    assert window.accessibility_faults() == []
    window.complaints()


@pytest.mark.parametrize("width", [380, 900, 1600])
def test_no_view_is_wider_than_its_window(window: Browser, width: int) -> None:
    window.resize(width, 900)
    wide = {}
    for view in (
        "search?q=what+is+a+generator",
        "timeline",
        "map",
        "topics",
        "facts",
        "conversations",
        "lifecycle/layers",
        "agent",
        "machine",
    ):
        window.go(f"#/{view}")
        window.until(lambda: window.all(".view > *"), view)
        wide[view] = window.run("return document.documentElement.scrollWidth")
    assert {view: each for view, each in wide.items() if each > width} == {}
    window.resize(1440, 900)

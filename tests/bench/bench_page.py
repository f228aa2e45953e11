"""The page in a real browser over a large store: first paint, hits after the last key, memory after many events.

    python -m tests.bench.bench_page [MEMORIES]

Memories by words alone, of Python's own reference, numbered where it is too short. Aims: first paint under 300 ms; the
hit list 100 ms after the last key, 60 ms of which the page waits for another key; a tab whose memory does not grow with
the events that it hears.
"""

import statistics
import tempfile
import time
from pathlib import Path

from tests.bench import harness
from tests.support.browser import Browser, opened_page
from tests.support.page_process import served_page
from tests.support.python_reference import write_reference
from tests.support.running_daemon import running

MEMORIES = 10_000
QUESTIONS = ("garbage collection of weak references", "how are decorators evaluated", "what is a context manager",
             "when is a finally clause executed", "import of a submodule")  # fmt: skip
EVENTS = 2000
PAINT = "return performance.getEntriesByType('paint').find((each) => each.name === 'first-contentful-paint')?.startTime"
HITS = """
const [question, done] = arguments;
const field = document.querySelector("input[type=search]");
field.value = question;
field.dispatchEvent(new Event("input", { bubbles: true }));
const began = performance.now();
const list = document.querySelector(".hits");
const watcher = new MutationObserver(() => {
  watcher.disconnect();
  requestAnimationFrame(() => done(performance.now() - began));
});
watcher.observe(list, { childList: true });
"""


def main(count: int = MEMORIES) -> None:
    with tempfile.TemporaryDirectory(prefix="m") as scratch:
        environ = {"MNEMO_MODELS_FOLDER": f"{scratch}/models"}
        write_reference(Path(scratch) / "data", count)
        with (
            running(Path(scratch) / "data", environ) as daemon,
            served_page(daemon) as page,
            opened_page(page) as browser,
        ):
            measure(browser, count)
            heap = heap_bytes(browser)
            with daemon.client() as client:
                for number in range(EVENTS):
                    client.remember(f"An event that the page hears, number {number}.")
            time.sleep(3.0)
            print(f"heap of the tab: {heap / 1e6:.1f} MB, after {EVENTS:,} changes {heap_bytes(browser) / 1e6:.1f} MB")


def measure(browser: Browser, count: int) -> None:
    paints = []
    for _ in range(5):
        browser.run("location.reload()")
        browser.one("#nav a")
        paints.append(browser.until(lambda: browser.run(PAINT), "nothing is painted"))
    print(f"{count:,} memories")
    print(f"first paint: median {statistics.median(paints):.0f} ms of {len(paints)}, most {max(paints):.0f} ms")
    browser.sees("The last of", ".list-head")
    waits = []
    for question in QUESTIONS * 4:
        waits.append(browser.driver.execute_async_script(HITS, question))
        time.sleep(0.6)
    print(
        f"hits after the last key: median {statistics.median(waits):.0f} ms of {len(waits)}, most {max(waits):.0f} ms"
    )


def heap_bytes(browser: Browser) -> int:
    """The memory of the page's scripts, after what is not used any more was given back."""
    browser.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    return int(browser.run("return performance.memory.usedJSHeapSize"))


if __name__ == "__main__":
    harness.run(main)

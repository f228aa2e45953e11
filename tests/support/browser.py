"""Headless Chromium, driven through WebDriver: what a person sees and presses on the page."""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.support.page_process import PageProcess

WAIT_SECONDS = 60.0
# Without these Chromium asks its maker's servers for updates and names.
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip
AXE = Path(__file__).resolve().parents[2] / "clients" / "vscode" / "node_modules" / "axe-core" / "axe.min.js"

Found = TypeVar("Found")


class Browser:
    """One window on the page. Everything that is waited for is a condition, with a limit of WAIT_SECONDS."""

    def __init__(self, driver: webdriver.Chrome, page: PageProcess) -> None:
        self.driver = driver
        self.page = page

    # To see

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.until(lambda: next(iter(self.all(selector)), None), f"there is no {selector}")

    def texts(self, selector: str) -> list[str]:
        """The texts of all such elements, as they are read at one moment."""
        script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.innerText)"
        return [str(text) for text in self.driver.execute_script(script, selector)]

    def sees(self, text: str, selector: str = "body") -> None:
        """Wait until such an element shows the text."""
        self.until(lambda: any(text in each for each in self.texts(selector)), f"{selector} does not show {text!r}")

    def sees_no(self, text: str, selector: str = "body") -> None:
        self.until(lambda: not any(text in each for each in self.texts(selector)), f"{selector} still shows {text!r}")

    def until(self, condition: Callable[[], Found | None], what: str) -> Found:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            try:
                if found := condition():
                    return found
            except StaleElementReferenceException:
                pass  # it was drawn again
            time.sleep(0.05)
        where = self.run(
            "return location.hash + ' with the focus on ' + document.activeElement.outerHTML.slice(0, 120)"
        )
        raise AssertionError(f"{what}; the page at {where} shows: {self.texts('body')[0][:2000]}")

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    # To do

    def go(self, hash_: str) -> None:
        self.run("location.hash = arguments[0]", hash_)

    def press(self, *keys: str) -> None:
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def type(self, selector: str, text: str) -> None:
        field = self.one(selector)
        field.clear()
        field.send_keys(text)

    def click(self, selector: str) -> None:
        def clicked() -> bool:
            try:
                self.one(selector).click()
            except (StaleElementReferenceException, WebDriverException):
                return False
            return True

        self.until(clicked, f"{selector} cannot be clicked")

    def drag(self, selector: str, line: Sequence[tuple[float, float]]) -> None:
        """Press at the first place, move along the others, and let go; places are shares of the element's size."""
        element = self.one(selector)
        size = element.size
        offsets = [(round((x - 0.5) * size["width"]), round((y - 0.5) * size["height"])) for x, y in line]
        chain = ActionChains(self.driver).move_to_element_with_offset(element, *offsets[0]).click_and_hold()
        for offset in offsets[1:]:
            chain = chain.move_to_element_with_offset(element, *offset)
        chain.release().perform()

    def click_text(self, text: str, selector: str = "button") -> None:
        def clicked() -> bool:
            for each in self.all(selector):
                if text in each.text:
                    self.run("arguments[0].click()", each)
                    return True
            return False

        self.until(clicked, f"no {selector} with {text!r}")

    def resize(self, width: int, height: int) -> None:
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def use_theme(self, theme: str) -> None:
        self.run("document.documentElement.dataset.theme = arguments[0]", theme)

    # To check

    def complaints(self) -> list[str]:
        """Return what stands in the console since the last call, but for refused requests, which tests provoke."""
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [each["message"] for each in entries if "Failed to load resource" not in each["message"]]

    def requested_addresses(self) -> set[str]:
        """The addresses that the browser's network log names since the last call."""
        entries = self.driver.get_log("performance")  # type: ignore[no-untyped-call]
        messages = [json.loads(each["message"])["message"] for each in entries]
        return {each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"}

    def accessibility_faults(self) -> list[str]:
        """The violations that axe finds, each with its rule and the first element."""
        if not self.run("return Boolean(window.axe)"):
            self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
        found = self.driver.execute_async_script(
            "const done = arguments[0];"
            "axe.run().then((found) => done(found.violations), (error) => done([{id: String(error), nodes: []}]))"
        )
        return [f"{each['id']}: {[node['html'][:160] for node in each['nodes'][:3]]}" for each in found]


@contextmanager
def opened_page(page: PageProcess, width: int = 1440, height: int = 900) -> Iterator[Browser]:
    """Open the page in a browser of its own and sign in; `page.address` is used up by it."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    with tempfile.TemporaryDirectory(prefix="chromium") as profile:
        for option in (*OPTIONS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        os.environ["SE_AVOID_STATS"] = "true"
        driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        try:
            browser = Browser(driver, page)
            browser.resize(width, height)
            driver.set_script_timeout(WAIT_SECONDS)
            driver.get(page.address)
            browser.one("#nav a")
            yield browser
        finally:
            driver.quit()

"""The picture of the page in the documents, taken of a live one: `make picture` writes it again."""

import os
import struct
from pathlib import Path

import pytest

from mnemo_client.protocol.memories import NewMemory
from tests.support.browser import opened_page
from tests.support.page_process import served_page
from tests.support.running_daemon import RunningDaemon

PICTURE = Path(__file__).resolve().parents[2] / "clients" / "docs" / "page.png"
SIZE = (1280, 800)
QUESTION = "which port does the payments service listen on"
MEMORIES = (
    ("The payments service listens on port 8443.", "2026-03-12", ["payments"]),
    ("Never deploy payments on a Friday.", "2026-03-12", ["payments"]),
    ("Health checks of the payments service go to port 9090, path /live.", "2026-09-02", ["payments", "ops"]),
    ("Ledger import listens on port 7070, in staging only.", "2026-05-21", ["ledger"]),
    ("The spare key of the cabin is with Ines, number 14.", "2026-07-02", ["cabin"]),
    ("Backups stay on the NAS for 90 days.", "2026-08-19", ["ops"]),
    ("The payments service listens on port 9443 since 16 November.", "2026-11-16", ["payments"]),
)


@pytest.mark.parametrize("daemon_of_each_form", ["in_float32"], indirect=True)
def test_the_picture_of_the_documents_is_one_of_this_page(daemon_of_each_form: RunningDaemon) -> None:
    with daemon_of_each_form.client("work") as client:
        for content, day, tags in MEMORIES:
            client.remember(NewMemory(content=content, event_at=day, tags=tags))
        daemon_of_each_form.wait_for_vectors()
    with served_page(daemon_of_each_form) as page, opened_page(page, *SIZE) as browser:
        browser.use_theme("light")
        browser.go(f"#/search?ns=work&q={QUESTION.replace(' ', '+')}")
        browser.sees("9443", ".answer")
        browser.sees("8443", ".hit.was")
        browser.sees("all together", ".why-bars")
        if os.environ.get("MNEMO_PICTURE"):
            assert browser.driver.save_screenshot(str(PICTURE))
    head = PICTURE.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", head[16:24]) == SIZE

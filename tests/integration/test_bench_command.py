"""`mnemo bench`: on a daemon of its own, with nothing left of it. SPEC 14"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import MnemoError
from mnemo_client.protocol.choices import RANKERS
from tests.support.erasure_services import wait_until

COMMAND = [sys.executable, "-m", "mnemo_client.cli.main", "bench"]
SECONDS_MAX = 300  # on a machine that is busy with other things

TALK = """# TWO FRIENDS · Ines and Otto
## 1 2026-03-13T10:20
1.1 Ines: I moved to Porto in January.
1.2 Otto: The ferry leaves at seven.
1.3 Ines: The spare key is in the blue tin.
## 2 2026-04-13T10:20
2.1 Otto: My sister bakes bread on Sundays.
2.2 Ines: The boiler was fixed by Rosa.
? single [1.3] Where is the spare key?
? single [1.2] When does the ferry leave?
? multi [1.1, 2.2] What became of Porto and of the boiler?
? none [] Who is the mayor?
"""

OTHERS = """# TWO OTHERS
## 1 2026-03-13T10:20
1.1 Kaja: I moved to Lima in May.
1.2 Nils: The ferry leaves at nine.
1.3 Kaja: The spare key is in a red box.
? single [1.3] Where is the spare key?
? single [1.2] When does the ferry leave?
"""


@pytest.fixture
def home(short_folder: Path) -> Path:
    """Of someone without a model, whose scratch folders are below `tmp`."""
    for name in ("tmp", "models", "talks"):
        (short_folder / name).mkdir()
    (short_folder / "talks" / "friends.txt").write_text(TALK)
    return short_folder


def environ(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MNEMO_", "XDG_"))}
    return {**kept, "HOME": str(home), "MNEMO_DATA_DIR": str(home / "data"), "TMPDIR": str(home / "tmp"),
            "MNEMO_MODELS_FOLDER": str(home / "models"), "TERM": "dumb", **more}  # fmt: skip


def give(home: Path, *words: str, code: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, env=environ(home, **more), cwd=home, timeout=SECONDS_MAX
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def nothing_is_left(home: Path) -> bool:
    return list((home / "tmp").iterdir()) == [] and not (home / "data").exists()


def test_quality_asks_every_question_that_has_evidence_of_every_ranker(home: Path, minilm_folder: Path) -> None:
    done = give(home, "quality", "--data", "talks", "--json", MNEMO_MODELS_FOLDER=str(minilm_folder))
    measured: dict[str, Any] = json.loads(done.stdout)
    assert (measured["conversations"], measured["memories"], measured["questions"]) == (1, 5, 3)
    assert measured["categories"] == {"multi": 1, "single": 2}
    assert measured["machine"]["model"] == "all-MiniLM-L6-v2"
    assert list(measured["rankers"]) == list(RANKERS)
    for ranker in ("auto", "words", "cosine"):  # both halves of the second kind of question at best: (1 + 1 + 0.5) / 3
        assert measured["rankers"][ranker]["R@1"]["mean"] == 83.33
        assert measured["rankers"][ranker]["all@10"] == {"mean": 100.0, "low": 100.0, "high": 100.0}
        assert measured["rankers"][ranker]["answered_by_other"] == 0
    assert nothing_is_left(home)


def test_quality_without_a_model_says_that_words_answered_for_the_others(home: Path) -> None:
    done = give(home, "quality", "--data", "talks", "--ranker", "cosine", "--ranker", "words", "--pooled")
    assert "5 memories" in done.stdout
    assert "no model, by words only" in done.stdout
    assert "cosine: 3 questions answered by another ranker or without vectors" in done.stdout
    assert "words: " not in done.stdout
    assert "mnemo models pull" in done.stderr
    assert nothing_is_left(home)


def test_pooled_conversations_differ_by_their_questions_alone(home: Path) -> None:
    (home / "talks" / "others.txt").write_text(OTHERS)
    apart, pooled = (
        json.loads(give(home, "quality", "--data", "talks", "--ranker", "words", "--json", *more).stdout)
        for more in ([], ["--pooled"])
    )
    assert apart["rankers"]["words"]["R@1"]["mean"] == 90.0  # of five questions one has two answers
    assert pooled["rankers"]["words"]["R@1"]["mean"] == 50.0  # of two questions that are the same, one is answered
    assert pooled["rankers"]["words"]["R@10"]["mean"] == 100.0


def test_an_invalid_conversation_is_refused_before_anything_is_started(home: Path) -> None:
    (home / "talks" / "readme.txt").write_text("These are conversations.\n")
    done = give(home, "quality", "--data", "talks", code=2)
    assert "readme.txt:1 is not a session, turn or question" in done.stderr
    assert "`1.1 Ines: What she said.`" in done.stderr
    assert give(home, "quality", code=2).stderr.startswith("mnemo: --data is missing")
    assert "mnemo bench quality --data FOLDER" in give(home, code=2).stderr
    assert nothing_is_left(home)


def test_speed_measures_each_size_with_each_number_of_clients(home: Path) -> None:
    measured = json.loads(give(home, "speed", "--sizes", "30,20", "--clients", "2,1", "--json").stdout)
    small, large = measured["sizes"]
    assert (small["memories"], small["remembered"]) == (20, 20)
    assert (large["memories"], large["remembered"]) == (120, 0)  # what was remembered one by one is there too
    for size in (small, large):
        assert [each["clients"] for each in size["recall"]] == [1, 2]
        for each in size["recall"]:
            assert 0 < each["new"]["p50"] <= each["new"]["p95"] <= each["new"]["p99"]
            assert each["per_second"] > 0
        assert size["indexed_seconds"] is None
        assert {"words", "fetch"} <= set(size["stages_ms"])
        assert size["disk_bytes"] > 0
    assert measured["machine"]["cores"] >= 1
    assert nothing_is_left(home)


def test_control_c_ends_it_and_leaves_neither_daemon_nor_folder(home: Path) -> None:
    running = subprocess.Popen([*COMMAND, "speed", "--sizes", "1000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=environ(home), cwd=home)  # fmt: skip
    pid = daemon_in(home / "tmp")
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=SECONDS_MAX)
    assert (running.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    assert nothing_is_left(home)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_control_c_while_the_daemon_starts_leaves_neither_daemon_nor_folder(home: Path) -> None:
    """The daemon listens and has not answered: it can neither be asked to end, nor is it known to have begun."""
    running = subprocess.Popen([*COMMAND, "speed", "--sizes", "1000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=environ(home), cwd=home)  # fmt: skip
    wait_until(lambda: any((home / "tmp").glob("*/mnemo.sock")))
    (pid,) = daemons_of(running.pid)
    os.kill(pid, signal.SIGSTOP)  # it never answers, however quick it is
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=SECONDS_MAX)
    assert (running.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    assert nothing_is_left(home)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def daemons_of(pid: int) -> list[int]:
    """The process ids of the daemons that the process has begun, whether they answer yet or not."""
    try:
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return [each for each in children if b"mnemo_daemon" in Path(f"/proc/{each}/cmdline").read_bytes()]
    except FileNotFoundError:
        return []


def daemon_in(folder: Path) -> int:
    """The process id of the daemon whose scratch folder is in this one, once it answers."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        for socket in folder.glob("*/mnemo.sock"):
            try:
                with Client(socket) as client:
                    return client.status().pid
            except MnemoError:
                pass
        time.sleep(0.02)
    raise AssertionError("no daemon was started")

"""Every failure of a process behind LanguageModel, and its handling: hang, die, babble, be slow, be idle.

The misbehaving workers are scripts that speak the real frames; the well-behaved one stands in tests/integration.
"""

import os
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mnemo_daemon.models.language.language_model import (
    FAILURE_PAUSE_S,
    FAILURES_MAX,
    WAITING_MAX,
    AnswerTimeout,
    CallCancellation,
    LanguageModel,
    LanguageModelError,
    ModelAbsent,
    ModelBusy,
    ModelFailureError,
    PromptTooLong,
)
from mnemo_daemon.models.language.llm_worker import Prompt
from mnemo_daemon.models.worker_protocol import FRAME_BYTES_MAX, BrokenFrame, take_frame, to_frame
from tests.conformance.conftest import ECHO, ModelOf

HUNG_S = 60.0  # far below what the hanging workers of these tests would take, and far above what a busy machine takes


def is_gone(pid: int | None) -> bool:
    """True if no process has this id, not even as a zombie."""
    assert pid
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_until(is_so: Callable[[], bool], limit_s: float = 30.0) -> None:
    until = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.01)


def test_a_frame_that_arrives_byte_by_byte_is_taken_when_it_is_whole() -> None:
    stream = to_frame(Prompt("first", 1, 1.0)) + to_frame(Prompt("second", 2, 2.0))
    received, bodies = bytearray(), []
    for byte in stream:
        received.append(byte)
        if (body := take_frame(received)) is not None:
            bodies.append(body)
    assert [b"first" in body and b"second" not in body for body in bodies] == [True, False]
    assert not received


@pytest.mark.parametrize("length", [0, FRAME_BYTES_MAX + 1, 0xFFFFFFFF])
def test_a_length_that_no_message_has_is_refused_before_anything_is_read(length: int) -> None:
    with pytest.raises(BrokenFrame, match=str(length)):
        take_frame(bytearray(length.to_bytes(4, "big")))


def test_the_worker_is_started_by_the_first_question_and_kept_for_the_next(model_of: ModelOf) -> None:
    model = model_of(ECHO)
    assert model.status().state == "off"
    assert model.answer("hello", 8, 10).text == "HELLO"
    first = model.status()
    assert first.state == "ready"
    assert model.answer("again", 8, 10).text == "AGAIN"
    assert model.status().pid == first.pid


def test_a_worker_that_hangs_is_killed_after_the_deadline(model_of: ModelOf) -> None:
    model = model_of(
        """
        ready()
        answer(prompt().text)
        prompt()
        time.sleep(600)
        """
    )
    model.answer("start it", 8, 10)
    pid = model.status().pid
    began = time.monotonic()
    with pytest.raises(AnswerTimeout, match="hung"):
        model.answer("hello", 8, 0.5)
    assert 0.5 <= time.monotonic() - began < HUNG_S
    assert is_gone(pid)


def test_a_worker_that_stops_reading_is_killed_too(model_of: ModelOf) -> None:
    model = model_of("ready()\ntime.sleep(600)")
    began = time.monotonic()
    with pytest.raises(AnswerTimeout, match="hung"):
        model.answer("x" * (FRAME_BYTES_MAX // 2), 8, 2.0)  # more than the wire holds
    assert time.monotonic() - began < HUNG_S
    assert model.status().pid is None


def test_the_next_question_continues_a_slow_start(model_of: ModelOf) -> None:
    model = model_of("time.sleep(1)" + ECHO)
    with pytest.raises(AnswerTimeout, match="still being loaded"):
        model.answer("hello", 8, 0.2)
    started = model.status()
    assert started.state == "starting"
    assert model.answer("hello", 8, 10).text == "HELLO"
    assert model.status().pid == started.pid


@pytest.mark.parametrize(
    "nonsense",
    ["b'Loading model ...' * 20", "b'\\0\\0\\0\\5abcde'", "b'\\0\\0\\0\\1\\xc0'"],
    ids=["text", "no msgpack", "no message"],
)
def test_invalid_frames_on_the_wire_are_reported_and_the_next_question_succeeds(
    model_of: ModelOf, tmp_path: Path, nonsense: str
) -> None:
    model = model_of(
        f"""
        before = pathlib.Path({str(tmp_path / "babbled")!r})
        ready()
        prompt_was = prompt()
        if not before.exists():
            before.touch()
            os.write(out, {nonsense})
            time.sleep(600)
        answer(prompt_was.text.upper())
        """
    )
    with pytest.raises(ModelFailureError, match="invalid message"):
        model.answer("hello", 8, 10)
    assert model.status().pid is None
    assert model.answer("hello", 8, 10).text == "HELLO"


def test_output_of_a_library_goes_to_standard_error_and_not_onto_the_wire(model_of: ModelOf) -> None:
    model = model_of(
        """
        out = claim_stdout()
        os.write(1, b"noise from native code")
        ready()
        print("noise from Python", flush=True)
        answer(prompt().text.upper())
        """
    )
    assert model.answer("hello", 8, 10).text == "HELLO"


def test_a_worker_that_dies_tells_how_and_its_last_words(model_of: ModelOf) -> None:
    model = model_of(
        """
        ready()
        prompt()
        sys.stderr.write("out of luck")
        sys.stderr.flush()
        os.abort()
        """
    )
    with pytest.raises(ModelFailureError, match=r"ended by SIGABRT; its last output: out of luck"):
        model.answer("hello", 8, 10)


def test_a_worker_that_died_unasked_is_replaced_by_the_next_question(model_of: ModelOf) -> None:
    model = model_of(ECHO)
    model.answer("hello", 8, 10)
    pid = model.status().pid
    assert pid
    os.kill(pid, 9)
    wait_until(lambda: model.status().state == "off")
    assert model.answer("hello", 8, 10).text == "HELLO"
    assert model.status().pid != pid


def test_after_too_many_failures_in_a_row_it_is_left_alone_for_a_while(model_of: ModelOf, tmp_path: Path) -> None:
    now = [0.0]
    starts = tmp_path / "starts"
    model = model_of(f"open({str(starts)!r}, 'a').write('x')\nsys.exit(7)", clock=lambda: now[0])
    for _ in range(FAILURES_MAX):
        with pytest.raises(ModelFailureError, match="exit code 7"):
            model.answer("hello", 8, 10)
    assert model.status().state == "failed"
    with pytest.raises(ModelFailureError, match="paused"):
        model.answer("hello", 8, 10)
    assert starts.read_text() == "x" * FAILURES_MAX
    for further in range(1, 4):  # each further failure doubles the pause
        now[0] += FAILURE_PAUSE_S * 2 ** (further - 1) - 1
        with pytest.raises(ModelFailureError, match="paused"):
            model.answer("hello", 8, 10)
        now[0] += 1
        with pytest.raises(ModelFailureError, match="exit code 7"):
            model.answer("hello", 8, 10)
        assert starts.read_text() == "x" * (FAILURES_MAX + further)


def test_one_question_at_a_time_is_served_and_waiting_has_an_end(model_of: ModelOf) -> None:
    model = model_of("ready()\nwhile True:\n    was = prompt()\n    time.sleep(1)\n    answer(was.text)")
    model.answer("start it", 8, 10)
    answers: list[str] = []
    first = threading.Thread(target=lambda: answers.append(model.answer("first", 8, 10).text))
    first.start()
    time.sleep(0.3)
    with pytest.raises(AnswerTimeout, match="busy"):
        model.answer("impatient", 8, 0.2)
    assert model.answer("patient", 8, 10).text == "patient"
    first.join()
    assert answers == ["first"]


# A worker that takes its time over "slow" until it is cancelled, and answers everything else at once.
PATIENT = """
from mnemo_daemon.models.language.llm_worker import Cancel
from mnemo_daemon.models.worker_protocol import ModelRefusal
ready()
while True:
    asked = prompt()
    if asked.text == "slow":
        pathlib.Path(sys.argv[0] + ".busy").touch()
        while (body := take_frame(received)) is None:
            received.extend(os.read(0, 65536))
        assert msgspec.msgpack.decode(body, type=Cancel).number == asked.number
        send(out, ModelRefusal("cancelled", "as asked"))
    else:
        answer(asked.text.upper())
"""


def begin(ask: Callable[[], object]) -> tuple[threading.Thread, list[LanguageModelError]]:
    """Starts a call in a thread; the list holds the error that it ends with."""
    errors: list[LanguageModelError] = []

    def run() -> None:
        try:
            ask()
        except LanguageModelError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


def test_an_interactive_call_stops_a_background_one_and_is_answered_by_the_same_worker(
    model_of: ModelOf, tmp_path: Path
) -> None:
    model = model_of(PATIENT)
    thread, errors = begin(lambda: model.answer("slow", 8, 60, is_interactive=False))
    wait_until((tmp_path / "worker0.py.busy").exists)
    pid = model.status().pid
    assert model.answer("hello", 8, 60).text == "HELLO"
    thread.join()
    assert [type(error) for error in errors] == [CallCancellation]
    assert model.status().pid == pid


def test_an_interactive_call_waits_for_another_one(model_of: ModelOf, tmp_path: Path) -> None:
    model = model_of(PATIENT)
    gives_up = threading.Event()
    thread, errors = begin(lambda: model.answer("slow", 8, 60, is_cancelled=gives_up.is_set))
    wait_until((tmp_path / "worker0.py.busy").exists)
    with pytest.raises(AnswerTimeout, match="busy"):
        model.answer("hello", 8, 0.5)
    assert errors == []
    gives_up.set()
    thread.join()
    assert [type(error) for error in errors] == [CallCancellation]
    assert model.answer("hello", 8, 60).text == "HELLO"


def test_a_worker_that_ignores_a_cancellation_is_killed_and_replaced(model_of: ModelOf, tmp_path: Path) -> None:
    busy = tmp_path / "busy"
    script = f"""
        ready()
        if pathlib.Path({str(busy)!r}).exists():
            answer(prompt().text.upper())
        prompt()
        pathlib.Path({str(busy)!r}).touch()
        time.sleep(600)
        """
    model = model_of(script)
    with pytest.raises(AnswerTimeout, match="hung"):
        model.answer("hello", 8, 60, is_cancelled=busy.exists)
    assert model.status().pid is None
    assert model.answer("hello", 8, 60).text == "HELLO"


def test_a_call_is_cancelled_while_the_model_is_loaded_which_goes_on(model_of: ModelOf, tmp_path: Path) -> None:
    begun, may_load = tmp_path / "begun", tmp_path / "may_load"
    model = model_of(
        f"""
        pathlib.Path({str(begun)!r}).touch()
        while not pathlib.Path({str(may_load)!r}).exists():
            time.sleep(0.01)
        """
        + textwrap.indent(ECHO, " " * 8)
    )
    with pytest.raises(CallCancellation):
        model.answer("hello", 8, 60, is_cancelled=begun.exists)
    started = model.status()
    assert started.state == "starting"
    may_load.touch()
    assert model.answer("hello", 8, 60).text == "HELLO"
    assert model.status().pid == started.pid


def test_too_many_waiting_calls_are_refused_and_the_other_priority_is_not(model_of: ModelOf, tmp_path: Path) -> None:
    model = model_of(PATIENT)
    gives_up = threading.Event()
    asks = [
        begin(lambda: model.answer("slow", 8, 60, is_interactive=False, is_cancelled=gives_up.is_set))
        for _ in range(WAITING_MAX + 1)
    ]
    wait_until((tmp_path / "worker0.py.busy").exists)
    wait_until(lambda: model.status().waiting == WAITING_MAX)
    with pytest.raises(ModelBusy, match=str(WAITING_MAX)):
        model.answer("one more", 8, 60, is_interactive=False)
    assert model.answer("hello", 8, 60).text == "HELLO"
    gives_up.set()
    for thread, errors in asks:
        thread.join()
        assert [type(error) for error in errors] == [CallCancellation]


def test_the_worker_can_reach_no_network(model_of: ModelOf) -> None:
    model = model_of(
        """
        from mnemo_daemon.models.language.llm_worker import forbid_network
        sys.addaudithook(forbid_network)
        import socket
        ready()
        prompt()
        try:
            socket.create_connection(("127.0.0.1", 1), timeout=1)
        except PermissionError as error:
            answer(str(error))
        """
    )
    assert "uses no network" in model.answer("hello", 8, 10).text


def test_closing_ends_a_running_answer_at_once_and_leaves_no_process(model_of: ModelOf) -> None:
    model = model_of("ready()\nprompt()\ntime.sleep(600)")
    errors: list[LanguageModelError] = []

    def ask() -> None:
        try:
            model.answer("hello", 8, 60)
        except LanguageModelError as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(lambda: model.status().state == "ready")
    pid = model.status().pid
    began = time.monotonic()
    model.close()
    asking.join()
    assert time.monotonic() - began < HUNG_S
    assert [type(error) for error in errors] == [ModelFailureError]
    assert is_gone(pid)
    with pytest.raises(ModelAbsent, match="stopping"):
        model.answer("hello", 8, 10)


def test_an_idle_model_is_unloaded_and_comes_back_when_asked(model_of: ModelOf) -> None:
    model = model_of("ready()\nwhile True:\n    answer(prompt().text + str(os.getpid()))", idle_s=0.2)
    first = int(model.answer("", 8, 10).text)
    wait_until(lambda: model.status().state == "off")
    wait_until(lambda: is_gone(first))
    assert int(model.answer("", 8, 10).text) != first


def test_a_prompt_that_no_wire_message_holds_is_refused_before_anything_starts(model_of: ModelOf) -> None:
    model = model_of(ECHO)
    with pytest.raises(PromptTooLong, match="bytes"):
        model.answer("x" * FRAME_BYTES_MAX, 8, 10)
    assert model.status().state == "off"


def test_every_reason_for_a_missing_model_is_given_in_plain_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "some.gguf"
    absent = {
        "no language model is chosen": LanguageModel(None),
        "the model file does not exist": LanguageModel(file, allow_unknown=True),
    }
    for words, model in absent.items():
        assert model.status().state == "absent"
        assert words in model.status().reason
        with pytest.raises(ModelAbsent, match=words):
            model.answer("hello", 8, 10)
    file.write_bytes(b"GGUF")
    assert "not in the catalogue" in LanguageModel(file).status().reason
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    assert "pip install 'mnemod[llm]'" in LanguageModel(file, allow_unknown=True).status().reason


@pytest.mark.parametrize(
    ("content", "sha256", "words"),
    [
        (b"PK\3\4 a zip file", None, "is not a GGUF file"),
        (b"GGUF but not the one", "0" * 64, "expected 0000"),
        (b"GGUF" + b"\xff" * 4096, None, "load model"),
    ],
    ids=["another format", "another hash", "damaged"],
)
def test_a_file_that_is_no_model_is_refused_by_the_real_worker(
    tmp_path: Path, content: bytes, sha256: str | None, words: str
) -> None:
    file = tmp_path / "some.gguf"
    file.write_bytes(content)
    model = LanguageModel(file, sha256=sha256, allow_unknown=True)
    try:
        with pytest.raises(ModelFailureError, match=words):
            model.answer("hello", 8, 30)
        assert model.status().pid is None
    finally:
        model.close()

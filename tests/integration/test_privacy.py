"""The promise of docs/operation.md, on system calls: nothing speaks to anybody, and nothing writes but where it says.

Every program is run with an environment that says nothing but HOME, PATH and TMPDIR: what continuous integration sets
would silence a library that speaks on a person's machine.
"""

import errno
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cross_encoder_files import write_cross_encoder
from tests.support.fastembed_files import write_export
from tests.support.syscall_trace import PROJECT, SystemCall, build_tracer, trace

LIFE_SECONDS_MAX = 240.0
ALLOWED = ("~/.local/share/mnemo", "~/.cache/mnemo/models", "~/.config/mnemo")
"""The folders of ours that this page names; below the home."""
BESIDE = ("mnemo.restoring", "mnemo.before-restore-")
"""What `restore` makes beside the data folder, which the page names."""
GIVEN = ("~/given",)
"""What the person names on the command line, to have something written there."""
SCRATCH = re.compile(r"mnemo-(try|bench)-\w+(/.*)?|[a-z0-9_]{8}")
"""What `try` and `bench` make in the temporary folder and remove, which the page names; and the file with which
Python itself tries whether it can write there."""
DEVICES = ("/dev/null", "/dev/tty")
HARMLESS = {-errno.ENOENT, -errno.EEXIST, -errno.ENOTDIR}
"""Where nothing was written, as nothing was there to write to."""


@pytest.fixture(scope="module")
def tracer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tracer(tmp_path_factory.mktemp("tracer"))


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="m")).resolve()
    (folder / "tmp").mkdir()
    yield folder
    shutil.rmtree(folder)


def bare_environment(home: Path) -> dict[str, str]:
    """Of a person on a new machine."""
    return {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TMPDIR": str(home / "tmp")}


def is_beyond(call: SystemCall) -> bool:
    """True if the call makes what could speak to another machine, or cannot be looked into."""
    if call.name in ("socket", "socketpair"):
        return call.what != socket.AF_UNIX
    return call.name in ("io_uring_setup", "open_by_handle_at", "foreign")


def is_outside(call: SystemCall, home: Path) -> bool:
    """True if the call wrote, or would have, to a file outside of what the page and the person name."""
    return call.is_file and call.result not in HARMLESS and not all(is_ours(path, home) for path in call.paths)


def is_ours(path: str, home: Path) -> bool:
    ours = [each.replace("~", str(home), 1) for each in (*ALLOWED, *GIVEN)]
    if any(path == each or path.startswith(f"{each}/") for each in ours) or path in DEVICES:
        return True
    if path.startswith(tuple(f"{home}/.local/share/{name}" for name in BESIDE)):
        return True
    if path.startswith(f"{home / 'tmp'}/") and SCRATCH.fullmatch(os.path.relpath(path, home / "tmp")):
        return True
    if any(each.startswith(f"{path}/") for each in ours):  # a folder that holds one of ours
        return path.startswith(f"{home}/")
    return "/__pycache__/" in f"{path}/" and path.startswith((str(PROJECT), sys.prefix, sys.base_prefix))


def told(calls: list[SystemCall]) -> str:
    return "\n".join(sorted({f"{call.name} {call.what} {call.result} {' '.join(call.paths)}" for call in calls}))


def test_a_whole_life_makes_no_connection_and_writes_nothing_elsewhere(
    tracer: Path, home: Path, minilm_source: Path, smollm_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "embedding").symlink_to(minilm_source)
    (tmp_path / "model.gguf").symlink_to(smollm_file)
    write_cross_encoder(tmp_path / "pairs")
    write_export(minilm_source, tmp_path / "export")
    command = [sys.executable, "-m", "tests.support.end_to_end_scenario", str(home), str(tmp_path)]
    # Without the kernel's filter, which would refuse a call before the tracer sees it: this is about the program.
    environ = {**bare_environment(home), "MNEMO_DAEMON_NETWORK_BLOCK": "off"}
    done, calls = trace(tracer, tmp_path / "record", command, environ, LIFE_SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(call.name == "socket" for call in calls) > 50, "the tracer saw too little"
    assert (home / ".local/share/mnemo/db/data.mdb").exists()
    beyond = [call for call in calls if is_beyond(call)]
    assert not beyond, "something that could leave this machine:\n" + told(beyond)
    outside = [call for call in calls if is_outside(call, home)]
    assert not outside, "written elsewhere:\n" + told(outside)


def test_the_page_about_files_names_every_folder_that_is_written_to() -> None:
    page = " ".join((PROJECT / "clients/docs/operation.md").read_text().split())
    assert [folder for folder in ALLOWED if f"`{folder}" not in page] == []
    assert "temporary folder" in page


@pytest.mark.parametrize(
    ("statement", "seen"),
    [
        ("import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", ["socket 2"]),
        ("import socket; socket.socket(socket.AF_INET6, socket.SOCK_STREAM)", ["socket 10"]),
        ("import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)", ["socket 16"]),
        ("import threading, socket; threading.Thread(target=lambda: socket.socket()).start()", ["socket 2"]),
        ("import socket; socket.socketpair(); socket.socket(socket.AF_UNIX)", []),
        ("import os; os.mkdir('new'); os.rmdir('new')", ["mkdir new", "rmdir new"]),
        ("import os; os.close(os.open('new', os.O_CREAT | os.O_WRONLY)); os.rename('new', 'other')",
         ["openat new", "rename new other"]),
        ("import os; os.symlink('x', 'link'); os.chmod('.', 0o700); os.unlink('link')",
         ["symlink link", "chmod .", "unlink link"]),
        ("import os; d = os.open('/', 0); os.symlink('x', os.environ['HOME'] + '/link', dir_fd=d)", ["symlinkat link"]),
        ("import subprocess, sys; subprocess.run([sys.executable, '-c', 'open(\"new\", \"a\")'])", ["openat new"]),
        ("import os; open('/etc/passwd').read(); open(os.devnull, 'w')", []),
        ("open('.local').read() if 0 else None; import os; os.makedirs('.cache/mnemo/models')", []),
    ],
)  # fmt: skip
def test_the_tracer_sees_what_it_should(statement: str, seen: list[str], tracer: Path, home: Path) -> None:
    program = f"import os, subprocess, sys; os.chdir({str(home)!r}); subprocess.run([sys.executable, '-B', '-c', "
    program += f"{statement!r}])"
    record = home.with_suffix(".record")
    done, calls = trace(tracer, record, [sys.executable, "-c", program], bare_environment(home), 60)
    record.unlink()
    assert done.returncode == 0, done.stderr
    found = [call for call in calls if is_beyond(call) or is_outside(call, home)]
    short = [
        " ".join([call.name, *([str(call.what)] if not call.paths else [os.path.relpath(p, home) for p in call.paths])])
        for call in found
    ]
    assert [name.replace("at2", "").replace("mkdirat", "mkdir") for name in short] == seen


def test_a_machine_that_refuses_tracing_is_reported_as_such(tracer: Path, tmp_path: Path) -> None:
    """A traced tracer cannot trace its child, which a third would trace a second time: it says so and fails."""
    done, _ = trace(tracer, tmp_path / "outer", [str(tracer), str(tmp_path / "inner"), "true"], os.environ, 60)
    assert done.returncode == 125
    assert "does not let a process be traced" in done.stderr

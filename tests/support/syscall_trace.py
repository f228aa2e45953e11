"""The sockets that a command and its children create, and the files they write: the record of `tracer.c`."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).absolute().parents[2]


class SystemCall(NamedTuple):
    """A system call that made a socket or could change a file."""

    process: int
    name: str
    what: int  # a socket's family, or the flags with which a file was opened
    result: int  # negative: the error's number
    paths: tuple[str, ...]

    @property
    def is_file(self) -> bool:
        return bool(self.paths)


def build_tracer(folder: Path) -> Path:
    """The tracer, compiled."""
    program = folder / "tracer"
    source = Path(__file__).with_name("tracer.c")
    command = [os.environ.get("CC", "cc"), "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(source)]
    subprocess.run(command, check=True)
    return program


def trace(
    tracer: Path, record: Path, command: Sequence[str], environ: Mapping[str, str], timeout: float
) -> tuple[subprocess.CompletedProcess[str], list[SystemCall]]:
    """The exit status of the command, and the calls of its processes until the last of them ended, except the first,
    which is the person's."""
    done = subprocess.run(
        [str(tracer), str(record), *command], env=environ, cwd=PROJECT, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False, timeout=timeout,
    )  # fmt: skip
    calls = list(read_record(record))
    return done, [call for call in calls[1:] if call.process != calls[0].process]


def read_record(record: Path) -> Iterator[SystemCall]:
    for line in record.read_text(errors="surrogateescape").splitlines():
        process, name, what, result, *paths = line.split("\t")
        yield SystemCall(int(process), name, int(what), int(result), tuple(os.path.normpath(path) for path in paths))

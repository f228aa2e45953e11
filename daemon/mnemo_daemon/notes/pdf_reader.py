"""Text of PDF files, read by pypdf (extra `pdf`) in a child process: `python -m mnemo_daemon.notes.pdf_reader`. SPEC 6

A PDF file is a program in part, and a small one can take unbounded memory and time. So each is read by a process of
its own that has limits, no network and a low priority, and that is killed at its deadline; the daemon never loads the
library. The child reads the file from standard input and writes the text of its pages, with a form feed between two,
to standard output; where it ends with EXIT_REFUSED, it has written the reason instead.
"""

import contextlib
import importlib.util
import io
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mnemo_daemon.process_memory import open_scratch_file

COMMAND = (sys.executable, "-P", "-m", "mnemo_daemon.notes.pdf_reader")
"""-P: a folder the daemon happens to be started in is no place to import from."""
EXTRA_MISSING = "install mnemod[pdf] to read PDF files"
EXIT_REFUSED = 3
NICENESS = 10
LOOK_SECONDS = 0.2  # between two looks at whether the daemon stops
REAP_SECONDS = 5.0
REASON_CHARS_MAX = 200
PAGE_BREAK = "\f"
_FORBIDDEN = ("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system")


class Limits(NamedTuple):
    """The resources that reading one file may take."""

    memory_bytes: int = 1 << 30  # of address space
    cpu_s: int = 30
    deadline_s: float = 120.0  # by the clock: the process has a low priority, and the machine may be busy
    text_bytes: int = 8 << 20


class UnreadablePdf(Exception):
    """A PDF file that is not read; the message says why."""


class ReadInterruption(Exception):
    """The daemon stops, or has something else to do first; the file may be read later."""


def is_installed() -> bool:
    """True if the extra `pdf` is installed. Does not load it."""
    return importlib.util.find_spec("pypdf") is not None


def read_pdf_file(data: bytes, limits: Limits | None = None, *, is_stopping: Callable[[], bool] = lambda: False) -> str:
    """The text of the pages, between two of them a line end and a form feed. Takes up to `limits.deadline_s`. Raises
    UnreadablePdf, and ReadInterruption once is_stopping says so."""
    limits = limits or Limits()
    options = [str(limits.memory_bytes), str(limits.cpu_s), str(limits.text_bytes)]
    with open_scratch_file("pdf-file") as source, open_scratch_file("pdf-text") as output:
        source.write(data)
        source.seek(0)
        try:
            process = subprocess.Popen(
                [*COMMAND, *options], stdin=source, stdout=output, stderr=subprocess.DEVNULL, process_group=0,
                env={**os.environ, "PATH": ""},  # pypdf would look for a program that decodes images
            )  # fmt: skip
        except OSError as error:
            raise UnreadablePdf(f"the process that reads PDF files could not be started: {error.strerror}") from None
        try:
            code = _wait(process, time.monotonic() + limits.deadline_s, is_stopping)
        finally:
            process.kill()
            process.wait(REAP_SECONDS)
        output.seek(0)
        written = output.read(limits.text_bytes + 1)[: limits.text_bytes].decode(errors="replace")
    if code == 0 and not written.strip():
        raise UnreadablePdf("a PDF file with no text in it (a scan?)")
    if code == 0:
        return written
    raise UnreadablePdf(_reason(code, written, limits))


def _wait(process: "subprocess.Popen[bytes]", until: float, is_stopping: Callable[[], bool]) -> int | None:
    """The exit code of the process, or None where it did not end in time."""
    while not is_stopping():
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(max(0.0, min(LOOK_SECONDS, until - time.monotonic())))
        if time.monotonic() >= until:
            return None
    raise ReadInterruption


def _reason(code: int | None, written: str, limits: Limits) -> str:
    if code is None:
        return f"a PDF file that was not read after {limits.deadline_s:g} s"
    if code == EXIT_REFUSED:
        return written
    if code == -signal.SIGXCPU:
        return f"a PDF file that takes more than {limits.cpu_s} s of processor time"
    return "a PDF file that cannot be read: it broke the process that read it"


# The child process


def main(arguments: Sequence[str]) -> int:
    """Write the text of the PDF file on standard input, or the reason why there is none."""
    memory_bytes, cpu_s, text_bytes = map(int, arguments)
    limits = Limits(memory_bytes=memory_bytes, cpu_s=cpu_s, text_bytes=text_bytes)
    os.nice(NICENESS)
    confine(limits)
    try:
        code, text = 0, _text_of(sys.stdin.buffer.read(), limits)
    except UnreadablePdf as error:
        code, text = EXIT_REFUSED, str(error)
    except MemoryError:
        code, text = EXIT_REFUSED, f"a PDF file that takes more than {limits.memory_bytes >> 20} MiB of memory"
    sys.stdout.buffer.write(text.encode(errors="replace"))
    sys.stdout.buffer.flush()
    return code


def confine(limits: Limits) -> None:
    """Limit this process, and keep it from the network and other programs."""
    for kind, soft, hard in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_FSIZE, limits.text_bytes, limits.text_bytes),
        (resource.RLIMIT_AS, limits.memory_bytes, limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 1),  # the soft one ends it by a signal that says why
    ):
        with contextlib.suppress(ValueError, OSError):  # a system without this limit, or with a narrower one
            resource.setrlimit(kind, (soft, hard))
    sys.addaudithook(_refuse_outside)


def _refuse_outside(event: str, _: object) -> None:
    if event.startswith(_FORBIDDEN):
        raise PermissionError(f"reading a PDF file needs no {event}")


def _text_of(data: bytes, limits: Limits) -> str:
    """The text of the pages with PAGE_BREAK between them. Raises UnreadablePdf, MemoryError, or whatever pypdf does."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError, PyPdfError

    pages: list[str] = []
    size = 0
    try:
        document = PdfReader(io.BytesIO(data))
    except PyPdfError as error:
        raise UnreadablePdf(f"no PDF file: {str(error)[:REASON_CHARS_MAX]}") from None
    try:
        for page in document.pages:
            text = page.extract_text().replace(PAGE_BREAK, " ").replace("\0", "").strip()
            size += len(text.encode(errors="replace")) + len(f"\n{PAGE_BREAK}")
            if size > limits.text_bytes:
                raise UnreadablePdf(f"a PDF file with more than {limits.text_bytes} bytes of text")
            pages.append(text)
    except (FileNotDecryptedError, DependencyError):
        raise UnreadablePdf("an encrypted PDF file") from None
    except PyPdfError as error:
        raise UnreadablePdf(f"a PDF file that cannot be read: {str(error)[:REASON_CHARS_MAX]}") from None
    return f"\n{PAGE_BREAK}".join(pages)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The server of llama.cpp's Python package, in a process of its own."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

START_SECONDS_MAX = 120.0
MODEL = "small"
_HIT = re.compile(r"(\d+) prefix-match hit, remaining (\d+) prompt tokens")


class CacheHit(NamedTuple):
    """Tokens of a prompt, by the server's own counter: those that its cache had, and those that it evaluated."""

    reused: int
    evaluated: int


class LlamaServer(NamedTuple):
    """A running server, and its log, which says how much of a prompt its cache had."""

    address: str
    log: Path

    def cache_hits(self) -> list[CacheHit]:
        """The prompts of which the cache had a part, the oldest first."""
        found = _HIT.findall(self.log.read_text(errors="replace"))
        return [CacheHit(int(reused), int(evaluated)) for reused, evaluated in found]


@contextlib.contextmanager
def llama_server(model: Path, context_tokens: int = 2048) -> Iterator[LlamaServer]:
    """A server of a GGUF file, on any free port. Ended with the context."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["--model", str(model), "--model_alias", MODEL, "--port", str(port), "--n_ctx", str(context_tokens)]
    environ = {**os.environ, "OTEL_SDK_DISABLED": "true"}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as file, subprocess.Popen(
            [sys.executable, "-m", "llama_cpp.server", *words], stdout=file, stderr=file, env=environ
        ) as process:  # fmt: skip
            try:
                deadline = time.monotonic() + START_SECONDS_MAX
                while True:
                    assert process.poll() is None, log.read_text()
                    assert time.monotonic() < deadline, log.read_text()
                    with contextlib.suppress(OSError):
                        urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5).close()
                        break
                    time.sleep(0.1)
                yield LlamaServer(f"http://127.0.0.1:{port}", log)
            finally:
                process.kill()

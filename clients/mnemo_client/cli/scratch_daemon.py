"""A temporary daemon on a scratch data folder, for `try` and `bench`, which must not touch the user's memories.

Installed models are used where they are, and only read.
"""

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mnemo_client import process
from mnemo_client.cli.admin.models import DEFAULT_MODEL
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.units import duration_text, percent
from mnemo_client.client import Client
from mnemo_client.errors import MnemoError
from mnemo_client.paths import config_file, socket_path

POLL_SECONDS = 0.2
STOP_SECONDS = 5.0


@contextmanager
def scratch_daemon(context: CommandContext, name: str) -> Iterator[Client]:
    """Run a daemon on a temporary data folder; both are removed afterwards, whatever happens. name: of the folder."""
    scratch = Path(tempfile.mkdtemp(prefix=f"mnemo-{name}-"))
    environ = {name: value for name, value in context.environ.items() if not name.startswith("XDG_RUNTIME")}
    environ = {
        **_models_folder(context),
        **environ,
        "MNEMO_DATA_DIR": str(scratch),
        "MNEMO_SOCKET": str(scratch / "mnemo.sock"),
        "MNEMO_CONFIG": str(scratch / "config.toml"),
        "TMPDIR": str(scratch),  # so that no temporary file of the daemon outlives it
    }
    (scratch / "config.toml").touch()
    client = Client(socket_path(environ), entry_point="cli")
    pids: list[int] = []  # known before the daemon has answered, so that ^C during its start ends it
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    try:
        process.start(environ, socket_path(environ), context.message, pids.append)
        yield client
    finally:
        context.terminal.clear_progress()
        client.timeout = STOP_SECONDS
        client.close()
        has_ended = False
        with contextlib.suppress(MnemoError):
            has_ended = process.stop(client, STOP_SECONDS)  # False where it does not listen yet
        for pid in () if has_ended else pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):  # it was waited for already
                os.waitpid(pid, 0)
        client.close()
        shutil.rmtree(scratch, ignore_errors=True)


def wait_for_vectors(context: CommandContext, client: Client, seconds: float) -> bool:
    """Wait until every text has its vector and the vector graph is built; return False, with a message, if that
    fails."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        status = client.status()
        model, vectors = status.models.get("embedding"), status.views.get("vectors")
        if model is None or model.state == "absent":
            context.message(f"To search by meaning too, download a model first: mnemo models pull {DEFAULT_MODEL}")
            return False
        if model.state == "failed":
            context.message(f"The embedding model cannot be used: {model.reason or 'see mnemo doctor'}")
            return False
        if model.state == "ready" and vectors is not None and vectors.share >= 1 and not vectors.reason:
            return True
        share = vectors.share if vectors is not None else 0.0
        context.terminal.progress(f"building the vectors: {percent(share)}   (^C to stop)")
        time.sleep(POLL_SECONDS)
    context.message(f"The vectors are not ready after {duration_text(seconds)}.")
    return False


def _models_folder(context: CommandContext) -> dict[str, str]:
    """Return the variable for the user's own models folder, if the configuration names one; the default needs none."""
    import tomllib

    try:
        section = tomllib.loads(config_file(context.environ).read_text(encoding="utf-8")).get("models", {})
    except (OSError, ValueError):
        return {}
    named = section.get("folder") if isinstance(section, dict) else None
    return {"MNEMO_MODELS_FOLDER": named} if isinstance(named, str) and named else {}

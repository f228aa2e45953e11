"""The locations of the data folder, the socket and the configuration file. SPEC 15.

The daemon and its clients use the same functions, so they always agree. The functions read no file and create nothing.
The folders are those of platformdirs. The socket has a rule of its own: without XDG_RUNTIME_DIR, platformdirs names a
folder in /tmp, which any user could have made first.
"""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from mnemo_client.errors import SocketPathError

# sockaddr_un holds 108 bytes on Linux and 104 on macOS, the closing zero byte included.
SOCKET_PATH_BYTES_MAX = 103 if sys.platform == "darwin" else 107
# By these a user moves them; a program that is started elsewhere does not have the variables of the user's shell.
LOCATION_VARIABLES = ("MNEMO_DATA_DIR", "MNEMO_SOCKET", "MNEMO_CONFIG")


def home_folder(environ: Mapping[str, str]) -> Path:
    """Return the user's home folder: HOME if it is set."""
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def data_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder that holds the store: MNEMO_DATA_DIR, else the platform's folder for data."""
    if chosen := environ.get("MNEMO_DATA_DIR"):
        return Path(chosen).expanduser().absolute()
    return _platform_folder(environ, "data")


def models_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of models unless the settings name another one: in the platform's folder for caches."""
    return _platform_folder(environ, "cache") / "models"


def config_file(environ: Mapping[str, str]) -> Path:
    """Return the configuration file, which need not exist: MNEMO_CONFIG, else the platform's location."""
    if chosen := environ.get("MNEMO_CONFIG"):
        return Path(chosen).expanduser().absolute()
    return _platform_folder(environ, "config") / "config.toml"


def run_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for the daemon's log, the last answer and, by default, the socket."""
    return data_folder(environ) / "run"


def log_file(environ: Mapping[str, str]) -> Path:
    """Return the log of a daemon that was started by a client."""
    return run_folder(environ) / "mnemod.log"


def socket_path(environ: Mapping[str, str]) -> Path:
    """Return the socket on which this user's daemon listens.

    MNEMO_SOCKET, else the run folder of MNEMO_DATA_DIR if that is set (so that a daemon on a scratch folder is never
    confused with the real one), else XDG_RUNTIME_DIR, else the run folder of the data folder. Raises SocketPathError.
    """
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if chosen := environ.get("MNEMO_SOCKET"):
        path = Path(chosen).expanduser().absolute()
    elif runtime.startswith("/") and not environ.get("MNEMO_DATA_DIR"):
        path = Path(runtime) / "mnemo" / "mnemo.sock"
    else:
        path = run_folder(environ) / "mnemo.sock"
    length = len(bytes(path))
    if length > SOCKET_PATH_BYTES_MAX:
        raise SocketPathError(
            f"the socket path {path} has {length} bytes; the system allows {SOCKET_PATH_BYTES_MAX}",
            "set MNEMO_SOCKET to a shorter path",
        )
    return path


def _platform_folder(environ: Mapping[str, str], kind: Literal["data", "cache", "config"]) -> Path:
    """Return the folder of mnemo as platformdirs has it; on macOS the one in ~/Library if it is there.

    platformdirs looks at XDG variables on macOS too, where mnemo did not always.
    """
    import platformdirs  # here, so that a command whose folder is set does not load it

    if sys.platform == "darwin":
        known = home_folder(environ) / "Library" / ("Caches" if kind == "cache" else "Application Support") / "mnemo"
        if known.exists():
            return known
    locate: Callable[[str], Path] = getattr(platformdirs, f"user_{kind}_path")
    if environ is os.environ:
        return locate("mnemo")
    own, os.environ = os.environ, environ  # type: ignore[assignment]  # it reads no other environment
    try:
        return locate("mnemo")
    finally:
        os.environ = own  # noqa: B003


def chosen_folder(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    """Return the folder that a variable names as an absolute path, else the one below the home folder.

    A relative path is ignored, as the specification of the XDG variables requires.
    """
    chosen = environ.get(variable, "")
    return Path(chosen) if chosen.startswith("/") else home_folder(environ) / below_home


def chosen_locations(environ: Mapping[str, str]) -> dict[str, str]:
    """Return those of LOCATION_VARIABLES that are set."""
    return {name: environ[name] for name in LOCATION_VARIABLES if environ.get(name)}


def claude_code_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder in which Claude Code keeps its settings and transcripts."""
    return chosen_folder(environ, "CLAUDE_CONFIG_DIR", ".claude")


def codex_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder in which Codex keeps its settings and transcripts."""
    return chosen_folder(environ, "CODEX_HOME", ".codex")

"""Where things are: the data folder, the socket, the configuration file. SPEC 15.

The daemon and its clients ask these same functions, so that they always meet. They read no file and create nothing.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from mnemo_client.errors import SocketPathError

# sockaddr_un holds 108 bytes on Linux and 104 on macOS, the closing zero byte included.
SOCKET_PATH_BYTES_MAX = 103 if sys.platform == "darwin" else 107


def home_folder(environ: Mapping[str, str]) -> Path:
    """The person's home folder, from HOME where it is set."""
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def data_folder(environ: Mapping[str, str]) -> Path:
    """Where the memories are kept: MNEMO_DATA_DIR, else the platform's own place for data."""
    if chosen := environ.get("MNEMO_DATA_DIR"):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "darwin":
        return home_folder(environ) / "Library" / "Application Support" / "mnemo"
    return _xdg(environ, "XDG_DATA_HOME", ".local/share") / "mnemo"


def cache_folder(environ: Mapping[str, str]) -> Path:
    """The platform's own place for what can be fetched again: the models."""
    if sys.platform == "darwin":
        return home_folder(environ) / "Library" / "Caches" / "mnemo"
    return _xdg(environ, "XDG_CACHE_HOME", ".cache") / "mnemo"


def config_file(environ: Mapping[str, str]) -> Path:
    """The configuration file, which need not exist: MNEMO_CONFIG, else the platform's own place."""
    if chosen := environ.get("MNEMO_CONFIG"):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "darwin":
        return home_folder(environ) / "Library" / "Application Support" / "mnemo" / "config.toml"
    return _xdg(environ, "XDG_CONFIG_HOME", ".config") / "mnemo" / "config.toml"


def run_folder(environ: Mapping[str, str]) -> Path:
    """What belongs to the running daemon and the person at it: its log, the last answer, perhaps the socket."""
    return data_folder(environ) / "run"


def socket_path(environ: Mapping[str, str]) -> Path:
    """The socket on which this person's daemon listens.

    MNEMO_SOCKET, else the run folder of MNEMO_DATA_DIR where that is set (so that a daemon on a scratch folder never
    meets the real one), else XDG_RUNTIME_DIR, else the run folder of the data folder. Raises SocketPathTooLong.
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
            f"the socket path {path} has {length} bytes, and the system takes at most {SOCKET_PATH_BYTES_MAX}",
            "set MNEMO_SOCKET to a shorter path",
        )
    return path


def _xdg(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    """XDG folders that are not absolute are to be passed over, says the specification of those variables."""
    chosen = environ.get(variable, "")
    return Path(chosen) if chosen.startswith("/") else home_folder(environ) / below_home

"""`mnemo service`: the daemon as a service of the person's own session, by systemd or launchd."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from mnemo_client import launch
from mnemo_client.errors import EXIT_DONE, EXIT_NOTHING, BadUsage, MnemoError
from mnemo_client.invocation import Invocation
from mnemo_client.places import home, socket_path

SERVICE, SOCKET = "mnemod.service", "mnemod.socket"
LABEL = "mnemod"  # of launchd
PASSED_ON = ("MNEMO_DATA_DIR", "MNEMO_SOCKET", "MNEMO_CONFIG")  # where the person keeps things, if not as usual
LOG_LINES = 50
# Where the unit files are: in an installation, else beside the packages of a working copy.
TEMPLATES = (Path(sys.prefix) / "share" / "mnemo" / "systemd", Path(__file__).parents[2] / "systemd")


def units(program: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The systemd units by their names: those that come with the distribution, with this program and these places."""
    folder = next((folder for folder in TEMPLATES if (folder / SERVICE).is_file()), None)
    if folder is None:
        raise MnemoError("the service's unit files are missing from this installation", "install mnemod again")
    passed_on = "".join(f'Environment="{name}={_escaped(environ[name])}"\n' for name in PASSED_ON if environ.get(name))
    start = f'{passed_on}ExecStart="{_escaped(str(program))}"\n'
    path = str(socket_path(environ)).replace("%", "%%")
    return {
        SERVICE: _with_line(folder / SERVICE, "ExecStart=", start),
        SOCKET: _with_line(folder / SOCKET, "ListenStream=", f"ListenStream={path}\n"),
    }


def _with_line(template: Path, beginning: str, line: str) -> str:
    """The template with its one line of that beginning replaced."""
    lines = template.read_text(encoding="utf-8").splitlines(keepends=True)
    if sum(each.startswith(beginning) for each in lines) != 1:
        raise MnemoError(f"{template} is not as it should be", "install mnemod again")
    return "".join(line if each.startswith(beginning) else each for each in lines)


def property_list(executable: str, environ: Mapping[str, str], log: Path) -> bytes:
    """The launchd job of the daemon."""
    import plistlib

    job = {
        "Label": LABEL,
        "ProgramArguments": [executable, "-m", "mnemo_daemon"],
        "EnvironmentVariables": {name: environ[name] for name in PASSED_ON if environ.get(name)},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "Umask": 0o077,
        "StandardOutPath": str(log),
        "StandardErrorPath": str(log),
    }
    return plistlib.dumps(job)


def _escaped(text: str) -> str:
    """As systemd reads it back: % begins a specifier, a backslash or quote needs one before it."""
    return text.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')


def units_folder(environ: Mapping[str, str]) -> Path:
    chosen = environ.get("XDG_CONFIG_HOME", "")
    base = Path(chosen) if chosen.startswith("/") else home(environ) / ".config"
    return base / "systemd" / "user"


def _job_file(environ: Mapping[str, str]) -> Path:
    return home(environ) / "Library" / "LaunchAgents" / f"{LABEL}.plist"


def install(invocation: Invocation) -> int:
    """The units are written and the service runs; a daemon that was started by hand stops first."""
    environ = invocation.environ
    if sys.platform == "darwin":
        job = _job_file(environ)
        launch.make_private_folder(launch.log_file(environ).parent)
        _write(job, property_list(sys.executable, environ, launch.log_file(environ)))
        launch.stop(invocation.connect())
        _run(["launchctl", "bootstrap", f"gui/{os.getuid()}", str(job)])
        written = [job]
    else:
        _need_systemd(environ)
        texts = units(Path(sys.executable).with_name("mnemod"), environ)
        written = [units_folder(environ) / name for name in texts]
        for path, text in zip(written, texts.values(), strict=True):
            _write(path, text.encode())
        launch.stop(invocation.connect())
        _run(["systemctl", "--user", "daemon-reload"])
        _run(["systemctl", "--user", "enable", "--now", SOCKET, SERVICE])
    if invocation.wants_json:
        invocation.say_value({"installed": [str(path) for path in written]})
    else:
        invocation.say("the daemon now starts with your session", *(f"  {path}" for path in written))
    return EXIT_DONE


def uninstall(invocation: Invocation) -> int:
    """The service is stopped and its units are gone; what is remembered stays."""
    environ = invocation.environ
    if sys.platform == "darwin":
        files = [_job_file(environ)]
        if files[0].exists():
            _run(["launchctl", "bootout", f"gui/{os.getuid()}/{LABEL}"])
    else:
        files = [units_folder(environ) / SERVICE, units_folder(environ) / SOCKET]
        if any(file.exists() for file in files):
            _need_systemd(environ)
            _run(["systemctl", "--user", "disable", "--now", SOCKET, SERVICE])
    gone = [file for file in files if file.exists()]
    for file in gone:
        file.unlink()
    if gone and sys.platform != "darwin":
        _run(["systemctl", "--user", "daemon-reload"])
    if invocation.wants_json:
        invocation.say_value({"removed": [str(path) for path in gone]})
    else:
        said = "the service is gone; what is remembered stays, and mnemo up starts the daemon" if gone else ""
        invocation.say(said or "no service was installed")
    return EXIT_DONE


def status(invocation: Invocation) -> int:
    """Exit 3 where no service is installed."""
    environ = invocation.environ
    file = _job_file(environ) if sys.platform == "darwin" else units_folder(environ) / SERVICE
    installed = file.exists()
    answers = launch.answers(socket_path(environ))
    if invocation.wants_json:
        invocation.say_value({"installed": installed, "daemon_answers": answers, "file": str(file)})
    else:
        if installed:
            invocation.say(f"installed: {file}")
        else:
            invocation.say("not installed; install it with: mnemo service install")
        invocation.say(f"the daemon {'answers' if answers else 'does not answer'} on {socket_path(environ)}")
    return EXIT_DONE if installed else EXIT_NOTHING


def logs(invocation: Invocation) -> int:
    """The service's own journal, else the log of a daemon that was started by a command."""
    environ, follow = invocation.environ, invocation.options.follow
    invocation.terminal.flush()
    if sys.platform != "darwin" and (units_folder(environ) / SERVICE).exists():
        words = ["journalctl", "--user", "-u", SERVICE, "-n", str(LOG_LINES), *(["-f"] if follow else ["--no-pager"])]
        return _run(words, environ=environ)
    log = launch.log_file(environ)
    if not log.exists():
        invocation.tell(f"there is no log yet: {log}")
        return EXIT_NOTHING
    if follow:
        return _run(["tail", "-n", str(LOG_LINES), "-F", str(log)])
    invocation.say(*launch.last_lines(log, count=LOG_LINES))
    return EXIT_DONE


def _need_systemd(environ: Mapping[str, str]) -> None:
    if shutil.which("systemctl", path=environ.get("PATH")) is None:
        raise BadUsage("this system has no systemd", "start the daemon with: mnemo up")


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    beside.write_bytes(data)
    beside.replace(path)


def _run(words: list[str], environ: Mapping[str, str] | None = None) -> int:
    try:
        ended = subprocess.run(words, check=False, env=dict(environ) if environ is not None else None)
    except OSError as failed:
        raise MnemoError(f"{words[0]} cannot be run: {failed.strerror}") from failed
    if ended.returncode:
        raise MnemoError(f"`{' '.join(words)}` ended with code {ended.returncode}", "what it said stands above")
    return EXIT_DONE

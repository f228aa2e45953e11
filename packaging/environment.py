"""Makes or repairs .venv for the Makefile: `python3 packaging/environment.py core|dev`.

Runs before anything is installed, so it needs the standard library only, and it parses on Pythons too old for the
project, to be able to say so. A stamp in .venv names what was installed, by which Python, from which pyproject.toml and
in which folder; where it is still true, nothing is done.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

OLDEST_PYTHON = (3, 11)
PROJECT = Path(__file__).resolve().parent.parent
EXTRAS = {"core": "", "dev": "[dev,llm,mcp,pdf,sync,zh]"}
EXPECTATION = {
    "core": "the packages it needs, about half a minute the first time",
    "dev": "everything the tests need; llama.cpp is compiled, some five minutes the first time",
}
STILL_WORKING_AFTER_S = 30
"""How often a long step says that it is alive: some CI systems stop a job that is silent."""


def main(arguments: "list[str]", project: Path = PROJECT) -> int:
    """Return 0 once the project's .venv holds what arguments[0] (core or dev) names."""
    if sys.version_info < OLDEST_PYTHON:
        wanted, found = (".".join(str(part) for part in version[:2]) for version in (OLDEST_PYTHON, sys.version_info))
        say(f"mnemod needs Python {wanted} or newer; {sys.executable} is {found}. Name another: make PYTHON=python3.12")
        return 1
    if len(arguments) != 1 or arguments[0] not in EXTRAS:
        say("usage: environment.py core|dev")
        return 2
    level = arguments[0]
    venv = project / ".venv"
    try:
        if not is_ready(project, level):
            say(f"setting up .venv: {EXPECTATION[level]}")
            began = time.monotonic()
            for each in EXTRAS:
                stamp(project, each).unlink(missing_ok=True)
            make_environment(venv)
            install(project, level)
            write_stamp(project, level)
            say(f".venv is ready after {time.monotonic() - began:.0f} s")
    except subprocess.CalledProcessError as error:
        command = " ".join(str(part) for part in error.cmd)
        say(f"this failed with exit code {error.returncode}, see above: {command}")
        return 1
    return 0


def fingerprint(project: Path) -> str:
    """The dependencies of an installation: the list of packages, the Python and the folder (a venv cannot move)."""
    digest = hashlib.sha256((project / "pyproject.toml").read_bytes())
    digest.update(f"\0{sys.version}\0{project}".encode())
    return digest.hexdigest()


def stamp(project: Path, level: str) -> Path:
    return project / ".venv" / f"installed-{level}"


def is_ready(project: Path, level: str) -> bool:
    """Return True if level was installed by this Python from this pyproject.toml, and its packages still run.

    What dev installs contains the core.
    """
    wanted = fingerprint(project)
    stamps = [stamp(project, each) for each in (("core", "dev") if level == "core" else ("dev",))]
    is_stamped = any(each.is_file() and each.read_text() == wanted for each in stamps)
    return is_stamped and runs(project / ".venv", "import msgspec, mnemo_store")


def runs(venv: Path, statement: str) -> bool:
    """Return True if the venv's own Python starts and can run the statement."""
    try:
        done = subprocess.run([python_of(venv), "-c", statement], capture_output=True, timeout=60, check=False)
    except OSError:
        return False
    return done.returncode == 0


def python_of(venv: Path) -> Path:
    return venv / "bin" / "python"


def make_environment(venv: Path) -> None:
    """Make a venv of this Python with a working pip; an existing one is kept, anything else is replaced."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    if runs(venv, f"import pip, platform; assert platform.python_version() == {version!r}"):
        return
    if venv.exists():
        say("the present .venv is broken or of another Python: making it again")
        shutil.rmtree(venv)
    made = subprocess.run([sys.executable, "-m", "venv", venv], capture_output=True, text=True, check=False)
    if made.returncode == 0:
        return
    # Some distributions leave out ensurepip; where Python itself has pip, that pip can fill the venv.
    shutil.rmtree(venv, ignore_errors=True)
    call([sys.executable, "-m", "venv", "--without-pip", venv])
    try:
        call([sys.executable, "-m", "pip", "--python", python_of(venv), "install", "--quiet", "pip"])
    except subprocess.CalledProcessError:
        say(made.stdout + made.stderr)
        raise


def install(project: Path, level: str) -> None:
    """Install the project for editing, with the extras of level, into its .venv.

    Without compiling every module to bytecode, which takes a third of the time and 50 MB for what is never imported.
    The core comes from wheels alone; of the extras, llama.cpp has none.
    """
    options = ["--quiet", "--progress-bar", "off", "--no-compile"]
    if level == "core":
        options += ["--only-binary", ":all:"]
    call([python_of(project / ".venv"), "-m", "pip", "install", *options, "--editable", f"{project}{EXTRAS[level]}"])


def write_stamp(project: Path, level: str) -> None:
    """Mark level as installed, as the last step and at once, so that an interrupted installation has no mark."""
    unfinished = stamp(project, level).with_suffix(".new")
    unfinished.write_text(fingerprint(project))
    unfinished.replace(stamp(project, level))


def call(command: "list[str | Path]") -> None:
    """Run the command to its end and report every few seconds that it runs. Raises CalledProcessError if it fails."""
    environment = {**os.environ, "PIP_USER": "0", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    began = time.monotonic()
    with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL) as process:
        while True:
            try:
                code = process.wait(STILL_WORKING_AFTER_S)
                break
            except subprocess.TimeoutExpired:
                say(f"still at it after {time.monotonic() - began:.0f} s")
    if code:
        raise subprocess.CalledProcessError(code, command)


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Provides the programs that the tests of the clients need, for `make test`: `python packaging/programs.py`.

The editors, the browser, the tracers and Syncthing come from Debian's packages, installed if the user is root, and
otherwise named with the command that installs them. The TypeScript compiler and the tools for the page come from npm,
as clients/vscode/package-lock.json pins them, into clients/vscode/node_modules; a stamp there has the hash of that
file. The program does and prints nothing if nothing is missing.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
DEBIAN_PACKAGES = {
    "chromedriver": "chromium-driver", "chromium": "chromium", "emacs": "emacs-nox", "nvim": "neovim",
    "strace": "strace", "syncthing": "syncthing", "systemd-socket-activate": "systemd",
}  # fmt: skip
"""By program: the Debian package that brings it."""
LINUX_ONLY = frozenset({"strace", "systemd-socket-activate"})
OLDEST_NODE = 20
LOCK_WAIT_SECONDS = 300
"""How long apt-get waits for another one that is running, such as the automatic updates of a new machine."""
NPM_OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-progress", "--loglevel=error")


class MissingProgramError(Exception):
    """A program is missing and could not be provided. The message says how to provide it."""


def main(project: Path = PROJECT) -> int:
    """Return 0 once every program is there."""
    try:
        provide_programs()
        check_node()
        provide_compiler(project / "clients" / "vscode")
    except MissingProgramError as missing:
        say(f"make test: {missing}")
        return 1
    return 0


def missing_programs() -> list[str]:
    """Return the names of the programs that are not on PATH."""
    wanted = [name for name in DEBIAN_PACKAGES if sys.platform == "linux" or name not in LINUX_ONLY]
    return [name for name in wanted if shutil.which(name) is None]


def provide_programs() -> None:
    """Install the missing programs with apt-get. The package lists are fetched if it does not work without."""
    if not (missing := missing_programs()):
        return
    packages = [DEBIAN_PACKAGES[name] for name in missing]
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    if shutil.which("apt-get") is None:
        raise MissingProgramError(f"install {', '.join(missing)} (Debian: {' '.join(command)}) and run it again")
    if os.geteuid() != 0:
        raise MissingProgramError(f"{', '.join(missing)} missing; run this and then it again: sudo {' '.join(command)}")
    say(f"installing {', '.join(packages)}")
    if apt_get(command[1:]) != 0:
        apt_get(["update"])
        apt_get(command[1:])
    if still := missing_programs():
        raise MissingProgramError(f"{', '.join(still)} missing, see above; this failed: {' '.join(command)}")


def apt_get(arguments: Sequence[str]) -> int:
    """Run apt-get without questions and return its exit code."""
    options = ["-qq", "-o", f"DPkg::Lock::Timeout={LOCK_WAIT_SECONDS}"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(
        ["apt-get", *options, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=False,
    ).returncode


def check_node() -> None:
    """Raise MissingProgramError unless node, new enough, and npm are there."""
    remedy = f"install Node.js {OLDEST_NODE} or newer with npm (nodejs.org, or your system's packages) and run it again"
    for name in ("node", "npm"):
        if shutil.which(name) is None:
            raise MissingProgramError(f"{name} is missing: {remedy}")
    printed = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    version = re.match(r"v(\d+)\.", printed)
    if version is None or int(version[1]) < OLDEST_NODE:
        raise MissingProgramError(f"node is {printed or 'broken'}: {remedy}")


def provide_compiler(folder: Path) -> None:
    """Install what the lock file in the folder pins, unless the stamp says that it is there."""
    wanted = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    stamp = folder / "node_modules" / ".installed"
    if stamp.is_file() and stamp.read_text() == wanted and (folder / "node_modules" / ".bin" / "tsc").exists():
        return
    say("installing the TypeScript compiler")
    stamp.unlink(missing_ok=True)
    command = ["npm", "ci", *NPM_OPTIONS]
    if subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, check=False).returncode != 0:
        raise MissingProgramError(f"this failed in {folder}, see above: {' '.join(command)}")
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(wanted)


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())

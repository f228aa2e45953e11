"""Installs the Debian package on this system, uses it as a new user would, removes it, and lists what is left.

python -m tests.bench.bench_deb FILE.deb        (as root, where no mnemod is installed)
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PLACES = ("/usr/lib/mnemod", "/usr/bin/mnemo", "/usr/bin/mnemod", "/usr/lib/systemd/user/mnemod.service",
          "/usr/share/man/man1/mnemo.1.gz", "/usr/share/bash-completion/completions/mnemo")  # fmt: skip
USES = (
    (["mnemo", "--version"], "mnemo "),
    (["mnemo", "add", "The spare key is with Ines, number 14"], "remembered"),
    (["mnemo", "recall", "where", "is", "the", "spare", "key"], "Ines"),
    (["man", "mnemo"], "long-term memory"),
    (["mnemo", "down"], "stopped"),
)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or os.geteuid() != 0 or any(Path(each).exists() for each in PLACES):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    problems = []
    print(f"installed in {_seconds(['dpkg', '-i', arguments[0]]):.1f} s")
    try:
        problems += [f"{each} is missing" for each in PLACES if not Path(each).exists()]
        with tempfile.TemporaryDirectory(prefix="mnemo-home-") as home:
            for words, expected in USES:
                began = time.perf_counter()
                shown = _run_as_new_user(words, home)
                print(f"{' '.join(words)}: {time.perf_counter() - began:.2f} s")
                if expected not in shown:
                    problems.append(f"`{' '.join(words)}` printed {shown!r}")
    finally:
        print(f"removed in {_seconds(['dpkg', '--purge', 'mnemod']):.1f} s")
    problems += [f"{each} is left" for each in PLACES if Path(each).exists()]
    print(*(problems or ["nothing is left of it"]), sep="\n")
    return 1 if problems else 0


def _run_as_new_user(words: list[str], home: str) -> str:
    environ = {"HOME": home, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "XDG_RUNTIME_DIR": home}
    ended = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    return ended.stdout + ended.stderr


def _seconds(words: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

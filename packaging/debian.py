"""Builds a Debian package of the wheel with everything that it needs: `python packaging/debian.py [--payload FOLDER]`.

The package installs a virtual environment of the system's Python to /usr/lib/mnemod, links `mnemo` and `mnemod` into
/usr/bin, and puts manual pages, completions and the units of the service where the system looks for them. Its
dependencies are wheels, so it is built for one version of Python and one processor architecture, those of this machine.
Installing or removing it neither starts a daemon nor touches anyone's memories.

FOLDER has the installed dependencies; without it pip installs them.
"""

import argparse
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
PREFIX = "usr/lib/mnemod"
SYSTEM_PYTHON = Path("/usr/bin/python3")
EXTRAS = "mcp,pdf,sync"  # whose dependencies have wheels
MAINTAINER = "mnemod maintainers <mnemod@localhost>"
PLACES = {  # folders of the wheel's shared files: in the wheel, and in the system
    "share/man/man1": "usr/share/man/man1",
    "share/bash-completion/completions": "usr/share/bash-completion/completions",
    "share/zsh/site-functions": "usr/share/zsh/vendor-completions",
    "share/fish/vendor_completions.d": "usr/share/fish/vendor_completions.d",
}
PROGRAM = """#!/{prefix}/bin/python
import sys

from {module} import main

sys.exit(main())
"""
PROGRAMS = {"mnemo": "mnemo_client.cli.main", "mnemod": "mnemo_daemon.__main__"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--payload", type=Path)
    parser.add_argument("--to", type=Path, default=PROJECT / "dist")
    parser.add_argument("--compression", choices=("xz", "gzip", "none"), default="xz")
    options = parser.parse_args()
    if shutil.which("dpkg-deb") is None or not SYSTEM_PYTHON.exists():
        sys.stderr.write("this needs a Debian system: dpkg-deb and /usr/bin/python3\n")
        return 2
    options.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mnemod-deb-") as folder:
        package = build(Path(folder), options.to, options.payload, options.compression)
    sys.stdout.write(f"{package}\n")
    return 0


def build(work: Path, target: Path, payload: Path | None, compression: str) -> Path:
    """Build the package in the folder `work` and return its file in `target`."""
    python, architecture = python_version(), printed(["dpkg", "--print-architecture"])
    root = work / "root"
    packages = root / PREFIX / "lib" / f"python{python}" / "site-packages"
    packages.parent.mkdir(parents=True)
    wheel = build_wheel(work / "wheel")
    install(wheel, packages, python, payload)
    make_environment(root / PREFIX, python)
    place_shared_files(root, packages)
    version = wheel.name.split("-")[1]
    write_control(root, version, architecture, python)
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    package = target / f"mnemod_{version}_{architecture}.deb"
    run(["dpkg-deb", "--root-owner-group", f"-Z{compression}", "-z1", "--build", root, package])
    return package


def build_wheel(folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=PROJECT, check=True,
        capture_output=True,
    )  # fmt: skip
    (wheel,) = folder.glob("mnemod-*.whl")
    return wheel


def install(wheel: Path, packages: Path, python: str, payload: Path | None) -> None:
    """Install the wheel and its dependencies for the system's Python, whichever Python runs this."""
    pip: list[str | Path] = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", packages]
    if payload is not None:
        shutil.copytree(payload, packages, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*mnemod*"))
        run([*pip, "--no-deps", wheel])
    else:
        run([*pip, "--only-binary", ":all:", "--python-version", python, f"{wheel}[{EXTRAS}]"])
    shutil.rmtree(packages / "bin", ignore_errors=True)  # with the shebang of another Python


def make_environment(prefix: Path, python: str) -> None:
    """Write the files of a virtual environment of the system's Python, and the two programs."""
    programs = prefix / "bin"
    programs.mkdir()
    (programs / "python").symlink_to(f"/usr/bin/python{python}")
    (prefix / "pyvenv.cfg").write_text(f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n")
    for name, module in PROGRAMS.items():
        file = programs / name
        file.write_text(PROGRAM.format(prefix=PREFIX, module=module))
        file.chmod(0o755)


def place_shared_files(root: Path, packages: Path) -> None:
    """Move the shared files of the wheel to the folders of the system, and the rest below the prefix."""
    for source, place in PLACES.items():
        shutil.copytree(packages / source, root / place)
        shutil.rmtree(packages / source)
    shutil.copytree(packages / "share", root / PREFIX / "share", dirs_exist_ok=True)
    shutil.rmtree(packages / "share")
    for page in (root / "usr/share/man/man1").iterdir():
        page.with_name(f"{page.name}.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()
    programs = root / "usr/bin"
    programs.mkdir(parents=True)
    for name in PROGRAMS:
        (programs / name).symlink_to(f"/{PREFIX}/bin/{name}")
    units = root / "usr/lib/systemd/user"
    units.mkdir(parents=True)
    for unit in (root / PREFIX / "share/mnemo/systemd").iterdir():
        text = unit.read_text(encoding="utf-8").replace("%h/.local/bin/mnemod", "/usr/bin/mnemod")
        (units / unit.name).write_text(text, encoding="utf-8")
    documents = root / "usr/share/doc/mnemod"
    documents.mkdir(parents=True)
    shutil.copy(PROJECT / "LICENSE", documents / "copyright")
    shutil.copy(PROJECT / "README.md", documents)
    changes = (PROJECT / "CHANGELOG.md").read_bytes()
    (documents / "changelog.gz").write_bytes(gzip.compress(changes, mtime=0))


def write_control(root: Path, version: str, architecture: str, python: str) -> None:
    major, minor = (int(part) for part in python.split("."))
    kilobytes = sum(path.lstat().st_size for path in root.rglob("*") if path.is_file()) // 1024
    fields = {
        "Package": "mnemod",
        "Version": version,
        "Architecture": architecture,
        "Maintainer": MAINTAINER,
        "Installed-Size": str(kilobytes),
        "Depends": f"python3 (>= {python}), python3 (<< {major}.{minor + 1}), libc6, libstdc++6",
        "Section": "utils",
        "Priority": "optional",
        "Description": "long-term memory for agents, editors and notes\n"
        " mnemod stores what people and their programs remember, watches folders of\n"
        " notes, and answers questions by meaning and by word, on this machine alone.",
    }
    control = root / "DEBIAN"
    control.mkdir()
    (control / "control").write_text("".join(f"{name}: {value}\n" for name, value in fields.items()))
    # Python writes bytecode next to the modules if root runs it; the removal of the package must remove that, too.
    (control / "prerm").write_text(
        f"#!/bin/sh\nset -e\nfind /{PREFIX} -name __pycache__ -type d -prune -exec rm -rf {{}} +\n"
    )
    (control / "prerm").chmod(0o755)


def python_version() -> str:
    return printed([SYSTEM_PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])


def printed(command: "list[str | Path]") -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def run(command: "list[str | Path]") -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())

"""Checks of the machine: Python and packages, disk, clock, limits of the kernel, service, shell."""

import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
import time
from pathlib import Path

from mnemo_client.cli.admin.service import SERVICE, service_file
from mnemo_client.cli.doctor.doctor_checks import DoctorCheck, Examination, fail, ok, warn
from mnemo_client.cli.format.units import number_text, size_text

PYTHON_MIN = (3, 11)
FREE_BYTES_WARN = 1_000_000_000
FREE_BYTES_FAIL = 100_000_000  # a few times the daemon's own reserve (SPEC 3.4)
FREE_INODES_WARN = 10_000
WATCHES_MIN = 8192  # one for each folder of notes; the kernel's usual minimum
WATCHES_FILE = Path("/proc/sys/fs/inotify/max_user_watches")
MOUNTS_FILE = Path("/proc/self/mounts")
OPEN_FILES_MIN = 2048  # connections, the store's own files, the watcher's
CLOCK_BEHIND_SECONDS = 86_400.0  # a file of the store may be that much younger than now, after a journey
RELEASED = 1_767_225_600.0  # 2026-01-01: a clock before the first release is wrong
NETWORK_FILE_SYSTEMS = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "fuse.sshfs", "fuse.glusterfs",
    "fuse.rclone", "fuse.s3fs", "davfs", "virtiofs", "vboxsf",
})  # fmt: skip
VOLATILE_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs"})
# With the module that each brings
EXTRAS = {"llm": "llama_cpp", "mcp": "mcp", "pdf": "pypdf", "sync": "nacl", "zh": "rjieba"}
COMPLETION_FILES = {
    "bash": (".bashrc", ".bash_profile", ".local/share/bash-completion/completions/mnemo"),
    "zsh": (".zshrc", ".zfunc/_mnemo"),
    "fish": (".config/fish/completions/mnemo.fish", ".config/fish/config.fish"),
}


def check_python(_: Examination) -> list[DoctorCheck]:
    """Check the version of Python and that every required package is there in a version that fits."""
    if sys.version_info < PYTHON_MIN:
        found = f"Python {platform.python_version()} is too old"
        return fail(found, "install mnemod with Python 3.11 or newer")
    missing = missing_packages()
    if missing:
        return fail(f"missing: {', '.join(missing)}", "install mnemod again: pip install mnemod")
    return ok(f"Python {platform.python_version()} with all required packages")


def missing_packages() -> list[str]:
    """Return the required distributions that are not installed."""
    try:
        required = importlib.metadata.requires("mnemod") or []
    except importlib.metadata.PackageNotFoundError:
        return []  # a working copy without an installation
    names = [match[0] for each in required if "extra ==" not in each and (match := re.match(r"[\w.-]+", each))]
    return [name for name in names if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def check_extras(examined: Examination) -> list[DoctorCheck]:
    """Report the extras; the language model needs `llm` once one is installed."""
    there = [name for name, module in EXTRAS.items() if importlib.util.find_spec(module) is not None]
    missing = [name for name in EXTRAS if name not in there]
    needs_llm = any(examined.models.glob("*/*/*.gguf"))
    if "llm" in missing and needs_llm:
        found = "a language model is installed, and llama.cpp is not"
        return warn(found, "pip install 'mnemod[llm]'")
    absent = f"; not installed: {', '.join(missing)} (pip install 'mnemod[all]')" if missing else ""
    return ok((", ".join(there) or "none") + absent)


def check_disk(examined: Examination) -> list[DoctorCheck]:
    system = os.statvfs(_existing(examined.data))
    free = system.f_bavail * system.f_frsize
    if free < FREE_BYTES_FAIL:
        return fail(f"{size_text(free)} free", "free some space; deleting memories still works")
    if free < FREE_BYTES_WARN:
        return warn(f"{size_text(free)} free", "free some space soon")
    return ok(f"{size_text(free)} free")


def check_inodes(examined: Examination) -> list[DoctorCheck]:
    """Check that new files can be created; some file systems have no limit, and report none."""
    system = os.statvfs(_existing(examined.data))
    if system.f_files and system.f_favail < FREE_INODES_WARN:
        found = f"only {number_text(system.f_favail)} more files can be created"
        return warn(found, "delete many small files on this disk")
    return ok(number_text(system.f_favail) + " free" if system.f_files else "no limit")


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())


def check_file_system(examined: Examination) -> list[DoctorCheck]:
    """Check that the store is on a local disk: LMDB maps its file, which network file systems do not keep in step."""
    try:
        mounts = MOUNTS_FILE.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ok("unknown")
    kind = file_system_of(_existing(examined.data).resolve(), mounts)
    if kind in NETWORK_FILE_SYSTEMS:
        found = f"the data folder is on {kind}, where a database can be damaged"
        return fail(found, "set MNEMO_DATA_DIR to a folder on a disk of this machine")
    if kind in VOLATILE_FILE_SYSTEMS:
        found = f"the data folder is on {kind}, which is empty after a restart of the machine"
        return warn(found, "set MNEMO_DATA_DIR to a folder on a disk")
    return ok(kind or "unknown")


def file_system_of(path: Path, mounts: str) -> str:
    """Return the kind of the file system that the path is on, by the kernel's table of mounts."""
    found = ("", "")
    for line in mounts.splitlines():
        _, point, kind, *_ = [*line.split(" "), "", ""]
        place = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point)
        if path.is_relative_to(place) and len(place) >= len(found[0]):
            found = (place, kind)
    return found[1]


def check_clock(examined: Examination) -> list[DoctorCheck]:
    """Check that the clock is not before the last change of the store, nor before this program was written."""
    now = time.time()
    journal = examined.data / "journal"
    newest = max((file.stat().st_mtime for file in journal.glob("*.jsonl")), default=0.0)
    if now < RELEASED or newest - now > CLOCK_BEHIND_SECONDS:
        found = f"it says {time.strftime('%Y-%m-%d', time.localtime(now))}, before the last change of the store"
        return fail(found, "set the clock: sudo timedatectl set-ntp true")
    return ok(time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(now)))


def check_watching(_: Examination) -> list[DoctorCheck]:
    """Check how many folders the kernel can watch for one user."""
    try:
        watches = int(WATCHES_FILE.read_text())
    except (OSError, ValueError):
        return warn("the kernel does not report how many folders it can watch", "see mnemo notes status")
    if watches < WATCHES_MIN:
        fix = "sudo sysctl fs.inotify.max_user_watches=524288"
        return warn(f"the kernel watches at most {watches} folders; others are polled", fix)
    return ok(f"up to {number_text(watches)} folders")


def check_open_files(_examined: Examination) -> list[DoctorCheck]:
    """Check the limit of open files, which the daemon raises to the hard one."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < OPEN_FILES_MIN:
        found = f"a process may open at most {hard} files"
        return warn(found, f"raise the hard limit to {OPEN_FILES_MIN} in limits.conf")
    return ok("no limit" if hard == resource.RLIM_INFINITY else f"up to {number_text(hard)}")


def check_service(examined: Examination) -> list[DoctorCheck]:
    """Check that an installed service starts a program that exists."""
    file = service_file(examined.environ)
    if not file.exists():
        return ok("not installed: the first command starts the daemon")
    program = re.search(r'^ExecStart="?([^"\n]+?)"?$', file.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    if file.name == SERVICE and (program is None or not os.access(program[1].replace("%%", "%"), os.X_OK)):
        found = f"{file} starts a program that does not exist"
        return fail(found, "mnemo service install")
    return ok(f"installed: {file}")


def check_completion(examined: Examination) -> list[DoctorCheck]:
    """Report if the user's shell completes commands; doing without is no fault."""
    shell = Path(examined.environ.get("SHELL", "")).name
    files = COMPLETION_FILES.get(shell)
    if files is None:
        return ok("for bash, zsh and fish: mnemo completion SHELL")
    if any(_sets_up_completion(examined.context.home / name) for name in files):
        return ok(f"set up for {shell}")
    return ok(f"not set up for {shell}; see: mnemo completion --help")


def _sets_up_completion(file: Path) -> bool:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "mnemo" in file.name or "mnemo completion" in text

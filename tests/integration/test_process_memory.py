"""The memory that the C allocator keeps after a free is bounded and returned. SPEC 16

Where the C library is not glibc, none of it can be told to it, and the functions say so.
"""

import platform
import re
import subprocess
import sys
import threading
from pathlib import Path

from mnemo_daemon import process_memory
from tests.support.running_daemon import RunningDaemon

IS_GLIBC = platform.libc_ver()[0] == "glibc"
HEAP_BYTES = 64 << 20  # by which glibc aligns the heaps of every arena but the first
FREED_KILOBYTES = 60_000

# Frees much, with something small left behind every piece, so that nothing is at the end of the heap.
FREES_IN_PIECES = f"""
import re
from pathlib import Path
from mnemo_daemon import process_memory
def private():
    found = re.findall(r"^Private_Dirty: +([0-9]+)", Path("/proc/self/smaps_rollup").read_text(), re.M)
    return sum(map(int, found))
pieces, kept = [], []
for _ in range({FREED_KILOBYTES} // 60):
    pieces.append(bytearray(b"x" * 60_000))
    kept.append(bytearray(b"x" * 600))
pieces.clear()
before = private()
print(process_memory.trim(), before - private())
"""


def test_memory_freed_in_pieces_is_returned_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", FREES_IN_PIECES], capture_output=True, text=True, check=True)
    was_done, given_back = done.stdout.split()
    assert was_done == str(IS_GLIBC)
    assert not IS_GLIBC or int(given_back) > FREED_KILOBYTES / 2


def arenas(pid: int) -> int:
    """The heaps beside the first: anonymous, aligned, and with room behind them that is reserved."""
    count = 0
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        found = re.fullmatch(r"([0-9a-f]+)-[0-9a-f]+ rw-p 00000000 00:00 0 *", line)
        count += found is not None and int(found[1], 16) % HEAP_BYTES == 0
    return count


def test_a_daemon_of_many_threads_has_few_heaps(started_daemon: RunningDaemon) -> None:
    def use(number: int) -> None:
        with started_daemon.client(entry_point="cli") as client:
            for each in range(10):
                client.remember(f"Thread {number} says {each} things about kettles.")
                client.recall("what is said about kettles?")
            client.status()

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with started_daemon.client(entry_point="cli") as client:
        client.compact()
        pid = client.status().pid
    assert not IS_GLIBC or arenas(pid) <= process_memory.ARENAS_MAX

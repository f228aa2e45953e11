"""Many kills under writers, and what a restart takes.

python -m tests.bench.bench_crash [--rounds 1000] [--daemons 2] [--seed 1]
"""

import tempfile
from pathlib import Path

from tests.bench import harness
from tests.support.kill_rounds import kill_several


def main(*, rounds: int = 1000, daemons: int = 2, seed: int = 1) -> int:
    with tempfile.TemporaryDirectory(prefix="m") as folder:
        tally = kill_several(Path(folder), daemons, rounds, seed)
    print(tally.said())
    for wrong in tally.wrong[:20]:
        print(f"  {wrong}")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    harness.run(main)

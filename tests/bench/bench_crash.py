"""Many kills under writers, and what a restart takes.

python -m tests.bench.bench_crash [--rounds 1000] [--daemons 2] [--seed 1]
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.support.kill_rounds import kill_several


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--daemons", type=int, default=2, help="killed side by side, each on a folder of its own")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="m") as folder:
        tally = kill_several(Path(folder), chosen.daemons, chosen.rounds, chosen.seed)
    print(tally.said())
    for wrong in tally.wrong[:20]:
        print(f"  {wrong}")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

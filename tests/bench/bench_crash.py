"""Many kills under writers, and what a restart takes.

python -m tests.bench.bench_crash [--rounds 200] [--seed 1]
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.crashes import kill_in_rounds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="m") as folder:
        tally = kill_in_rounds(Path(folder), chosen.rounds, chosen.seed)
    print(tally.said())
    for wrong in (*tally.lost, *tally.doubled, *tally.unasked, *tally.other_answers)[:20]:
        print(f"  {wrong}")
    return 1 if tally.lost or tally.doubled or tally.unasked or tally.other_answers else 0


if __name__ == "__main__":
    sys.exit(main())

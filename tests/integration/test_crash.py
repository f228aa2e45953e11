"""kill -9 of the daemon under up to sixteen clients that remember, edit, delete, restore and take back. SPEC 17.1.

MNEMO_CRASH_ROUNDS says how often (8 when unset); `python -m tests.bench.bench_crash` does 1,000.
"""

import os
from pathlib import Path

from tests.support.kill_rounds import kill_several

ROUNDS = int(os.environ.get("MNEMO_CRASH_ROUNDS", "8"))
DAEMONS = 1  # in eight rounds of one, all happens that can
SEED = int(os.environ.get("SEED", "1"))


def test_kills_under_many_clients_lose_and_double_nothing_and_bring_nothing_refused_back(short_folder: Path) -> None:
    tally = kill_several(short_folder, DAEMONS, ROUNDS, SEED)
    print(f"seed {SEED}: {tally.said()}")
    assert tally.rounds == ROUNDS
    assert tally.acknowledged > 20 * ROUNDS
    assert tally.refused
    assert tally.lost == [], f"seed {SEED}"
    assert tally.doubled == [], f"seed {SEED}"
    assert tally.unasked == [], f"seed {SEED}"
    assert tally.other_answers == [], f"seed {SEED}"
    assert tally.unclean == [], f"seed {SEED}"

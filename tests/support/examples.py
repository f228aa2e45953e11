"""The number of examples of a test that Hypothesis drives: few in the suite, more in each round of `make soak`."""

import os

SOAK_TIMES = 4


def examples(count: int) -> int:
    """The suite has the same examples in each run, so that more of them find something only when the code changes."""
    return count * SOAK_TIMES if os.environ.get("MNEMO_EXAMPLES") == "soak" else count

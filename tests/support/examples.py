"""The share of all examples that the suite tries. `make soak` and `make simulate` try more of them."""

import os

SOAK_TIMES = 4
IS_SWEEP = os.environ.get("MNEMO_SWEEP") == "1"
"""Everything is tried of which the suite tries a part."""


def examples(count: int) -> int:
    """The number of examples of a test that Hypothesis drives: more in each round of `make soak`. The suite has the
    same ones in each run, so that more of them find something only when the code changes."""
    return count * SOAK_TIMES if os.environ.get("MNEMO_EXAMPLES") == "soak" else count

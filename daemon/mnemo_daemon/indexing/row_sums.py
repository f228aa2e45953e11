"""Order-independent sums over what an index holds of a memory, by which two indexes are compared."""

import numpy as np
from numpy.typing import NDArray

# A mixing of 64 bits (Steele, Lea and Flood 2014): sums of mixed values are equal by accident only.
_SPREAD, _FIRST, _SECOND = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))

Sums = NDArray[np.uint64]


def mixed(values: Sums) -> Sums:
    found = values + _SPREAD
    found = (found ^ (found >> np.uint64(30))) * _FIRST
    found = (found ^ (found >> np.uint64(27))) * _SECOND
    return found ^ (found >> np.uint64(31))

"""One hit for each note: the best passage of a file stands for all of them. SPEC 7.5"""

import numpy as np
from numpy.typing import NDArray

from mnemo_daemon.retrieval.candidates.candidate_retrieval import SearchScope
from mnemo_daemon.retrieval.result_builder import RankedCandidates


def group_by_note(ranked: RankedCandidates) -> RankedCandidates:
    """Leaves the first candidate of each file in `rows`, and counts the others by the number of the one that is left.

    A memory that is in no file stands for itself.
    """
    numbers = ranked.channels.numbers
    files = files_of(ranked.scope, numbers[ranked.rows])
    first: dict[int, int] = {}  # by file, its best candidate
    others: dict[int, int] = {}
    rows: list[int] = []
    for row, file in zip(ranked.rows, files.tolist(), strict=True):
        best = first.setdefault(file, int(numbers[row])) if file else int(numbers[row])
        if best == int(numbers[row]):
            rows.append(row)
        else:
            others[best] = others.get(best, 0) + 1
    return ranked._replace(rows=rows, grouped_counts=others)


def files_of(scene: SearchScope, numbers: NDArray[np.uint32]) -> NDArray[np.int32]:
    """The file of notes that each stands in, by the code that it has now; 0: none."""
    files: NDArray[np.int32] = scene.column("managed", numbers).astype(np.int32)
    if scene.historical is not None:  # versions of another time have codes of their own
        gone: dict[str, int] = {}  # files that nothing is of any more
        for place in np.flatnonzero(numbers >= scene.base).tolist():
            path = scene.historical.memories[int(numbers[place]) - scene.base].managed
            code = scene.columns.code("managed", path)
            files[place] = code if code >= 0 else gone.setdefault(path, -1 - len(gone))
    return files

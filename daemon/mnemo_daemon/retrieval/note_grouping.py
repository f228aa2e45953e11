"""One hit for each note: the best passage of a file stands for all of them. SPEC 7.5"""

from mnemo_daemon.retrieval.context import RecallContext


def group_by_note(context: RecallContext) -> None:
    """Leave the first candidate of each file in `rows`, and count the others by the number of the one that is left.

    A memory that is in no file stands for itself.
    """
    numbers = context.found.numbers[context.rows]
    files = context.corpus.files(numbers)
    first: dict[int, int] = {}  # by file, its best candidate
    rows: list[int] = []
    for row, number, file in zip(context.rows, numbers.tolist(), files.tolist(), strict=True):
        best = first.setdefault(file, number) if file else number
        if best == number:
            rows.append(row)
        else:
            context.grouped_counts[best] = context.grouped_counts.get(best, 0) + 1
    context.rows = rows

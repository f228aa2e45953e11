"""Token rows as numbers of the entries of a codebook. SPEC 2.3"""

import numpy as np

from mnemo_daemon.models.embedders.token_rows import ENTRIES, Codebook, LateForm, Projection, part_widths
from mnemo_daemon.models.embedders.token_rows import read_projection as read

ROWS = np.zeros((ENTRIES, 10), np.int8)  # of parts of two, four and four dimensions
ROWS[7, :2], ROWS[200, :2] = (100, 0), (0, 100)
ROWS[255, 2:6], ROWS[3, 6:] = (0, 0, 0, 75), (50, 0, 0, 0)
BOOK = Codebook(ROWS)


def test_the_first_dimensions_are_stored_more_exactly() -> None:
    assert part_widths(10) == [2, 4, 4]
    assert part_widths(64) == [2] * 8 + [4] * 12


def test_each_part_of_a_row_is_the_number_of_its_nearest_entry() -> None:
    rows = np.array([(90, 10, 0, 0, 0, 60, 9, 0, 0, 0), (10, 90, 3, 3, 3, 3, 40, 0, 0, 0), (51,) + 9 * (0,)], np.int8)
    packed = BOOK.pack(rows)
    assert packed.view(np.uint8).tolist() == [[7, 255, 0], [200, 0, 3], [7, 0, 0]]
    assert BOOK.pack(rows.repeat(16, axis=0)).tolist() == packed.repeat(16, axis=0).tolist()
    assert BOOK.pack(rows[:0]).shape == (0, 3)
    assert BOOK.unpack(packed[:0]).shape == (0, 10)


def test_rows_come_back_with_unit_length() -> None:
    packed = np.array([(7, 255, 0), (7, 0, 0), (0, 0, 0)], np.uint8).view(np.int8)
    # Of length 125 are (100, 75): in codes of 1/127, 101.6 and 76.2. What has no entry stays zero.
    assert BOOK.unpack(packed)[:, [0, 5]].tolist() == [[102, 76], [127, 0], [0, 0]]


def test_a_form_without_a_codebook_stores_rows_as_they_are() -> None:
    rows = np.zeros((1, 10), np.int8)
    plain, packed = LateForm("space", 10, 64), LateForm("space", 10, 64, BOOK)
    assert (plain.stored_width, packed.stored_width) == (10, 3)
    assert plain.unpack(plain.pack(rows)) is rows
    assert packed.pack(rows).shape == (1, 3)


def test_rows_of_another_codebook_are_of_another_space() -> None:
    matrix = np.eye(20, 10, dtype=np.float16)
    other = ROWS.copy()
    other[0, 0] = 1
    forms = [Projection(matrix, book).form("space") for book in (None, BOOK, Codebook(other), Codebook(ROWS))]
    assert [form.space for form in forms].index(forms[3].space) == 1
    assert len({form.space for form in forms}) == 3


def test_the_codebook_that_comes_with_the_program_gives_rows_back_nearly_as_they_were() -> None:
    form = read("all-MiniLM-L6-v2").form("space")
    assert (form.dimensions, form.stored_width) == (64, 20)
    numbers = np.arange(ENTRIES, dtype=np.uint8).view(np.int8)[:, None].repeat(20, axis=1)
    rows = form.unpack(numbers).astype(np.float64)
    again = form.unpack(form.pack(form.unpack(numbers))).astype(np.float64)
    cosines = (rows * again).sum(axis=1) / np.linalg.norm(rows, axis=1) / np.linalg.norm(again, axis=1)
    assert cosines.min() > 0.95

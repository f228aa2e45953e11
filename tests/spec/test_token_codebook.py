"""Token rows as numbers of the entries of a codebook. SPEC 2.3"""

import numpy as np

from mnemo_daemon.models.embedders.token_rows import ENTRIES, Codebook, LateForm, Projection, read_projection

ENTRY_AT = np.zeros((2, ENTRIES, 2), np.int8)  # of two parts of two dimensions
ENTRY_AT[0, 7], ENTRY_AT[0, 200], ENTRY_AT[1, 255] = (100, 0), (0, 100), (-127, 127)
BOOK = Codebook(ENTRY_AT)


def test_each_part_of_a_row_is_the_number_of_its_nearest_entry() -> None:
    rows = np.array([(90, 10, -120, 120), (10, 90, 3, 3), (51, 0, 0, 0), (49, 0, 0, 0)], np.int8)
    packed = BOOK.pack(rows)
    assert packed.view(np.uint8).tolist() == [[7, 255], [200, 0], [7, 0], [0, 0]]
    assert BOOK.unpack(packed).tolist() == [[100, 0, -127, 127], [0, 100, 0, 0], [100, 0, 0, 0], [0, 0, 0, 0]]
    nothing = np.empty((0, 4), np.int8)
    assert BOOK.pack(nothing).shape == (0, 2)
    assert BOOK.unpack(BOOK.pack(nothing)).shape == (0, 4)


def test_a_form_without_a_codebook_stores_rows_as_they_are() -> None:
    rows = np.array([(1, 2, 3, 4)], np.int8)
    plain, packed = LateForm("space", 4, 64), LateForm("space", 4, 64, BOOK)
    assert (plain.stored_width, packed.stored_width) == (4, 2)
    assert plain.unpack(plain.pack(rows)).tolist() == rows.tolist()
    assert packed.pack(rows).shape == (1, 2)


def test_rows_of_another_codebook_are_of_another_space() -> None:
    matrix = np.eye(8, 4, dtype=np.float16)
    other = ENTRY_AT.copy()
    other[0, 0, 0] = 1
    forms = [Projection(matrix, book).form("space") for book in (None, BOOK, Codebook(other), Codebook(ENTRY_AT))]
    assert [form.space for form in forms].index(forms[3].space) == 1
    assert len({form.space for form in forms}) == 3


def test_the_codebook_that_comes_with_the_program_keeps_most_of_a_row() -> None:
    projection = read_projection("all-MiniLM-L6-v2")
    form = projection.form("space")
    assert form.codebook is not None
    entries = np.arange(ENTRIES, dtype=np.uint8).view(np.int8)[:, None].repeat(form.stored_width, axis=1)
    assert form.pack(form.unpack(entries)).tolist() == entries.tolist(), "no two entries are alike"

"""The sentences shown for a question. SPEC 7.5"""

from pathlib import Path

import numpy as np
import pytest

from mnemo_core.retrieval.excerpts import (
    EXCERPT_CHARS_MAX,
    OMISSION,
    TokenRows,
    join,
    select_excerpt,
    sentence_spans,
)
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue
from mnemo_daemon.models.embedders.embedding import load_embedder
from mnemo_daemon.settings import Numerics
from tests.support.examples import IS_SWEEP
from tests.support.labelled_passages import TERMS, made, notes, shown, token_rows

FILLER = "The boat was painted green again, which took all of us until the evening of the second day and more. "


def read(text: str, query: str, rows: TokenRows | None = None) -> str:
    marks = TERMS.highlight_spans(text, query)
    return join(text, select_excerpt(text, query, marks, rows).sentences, marks)[0]


@pytest.mark.parametrize("numerics", ["int8", "float32"] if IS_SWEEP else ["int8"])
def test_an_excerpt_shows_the_answer(minilm_folder: Path, numerics: Numerics) -> None:
    manifest = ModelCatalogue(minilm_folder).installed(DEFAULT_EMBEDDING)
    assert manifest is not None
    embedder = load_embedder(manifest, numerics=numerics)
    for items, share in ((made(), 33 / 36), (notes(), 0.9)):
        rows = token_rows(embedder, items)
        is_shown = [item.is_in(shown(item, own)) for item, own in zip(items, rows, strict=True)]
        assert sum(is_shown) >= share * len(items), [
            item.question for item, is_right in zip(items, is_shown, strict=True) if not is_right
        ]
        if items[0] == made()[0]:
            held_out = is_shown[::2]
            assert sum(held_out) >= share * len(held_out)


def test_the_sentence_nearest_in_meaning_is_the_best_whatever_words_another_shares() -> None:
    text = f"The phone rang. {FILLER}Reach her at this: call."
    starts = [text.index("phone"), text.index("boat"), text.index("Reach")]
    found = np.array([[0, 127], [0, -127], [127, 0]], np.int8)
    rows = TokenRows(np.array([[1, 0]], np.float32), found, starts)
    marks = TERMS.highlight_spans(text, "phone")
    assert text[slice(*select_excerpt(text, "phone", marks, rows).best)] == "Reach her at this: call."
    assert text[slice(*select_excerpt(text, "phone", marks).best)] == "The phone rang."


def test_sentences_are_shown_in_their_order_with_a_mark_for_omitted_text() -> None:
    text = f"The key is blue. {FILLER * 3}The key\nis lost."
    assert read(text, "key")[: len("The key is blue.")] == "The key is blue."
    marks = TERMS.highlight_spans(text, "key")
    found, inside = join(text, [(0, 16), (text.rindex("The key"), len(text))], marks)
    assert found == f"The key is blue.{OMISSION}The key is lost."
    assert [found[start:end] for start, end in inside] == ["key", "key"]


def test_sentences_side_by_side_have_a_blank_between_them() -> None:
    assert read("- one: tea\n- two: milk", "tea") == "- one: tea - two: milk"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: Ines; phone: 555\nname: Ada; phone: 777", "name: Ines; phone: 555 · name: Ada; phone: 777"),
        ("Ines; Porto; 41\nAda; Riga; 39", "Ines; Porto; 41 · Ada; Riga; 39"),
        ("The ferry leaves\nat seven.", "The ferry leaves at seven."),
        ("Note: it leaves at seven; be early.\nIt is late.", "Note: it leaves at seven; be early. It is late."),
    ],
)
def test_rows_of_a_table_are_separated_and_lines_of_a_sentence_are_not(text: str, expected: str) -> None:
    assert join(text, sentence_spans(text), [])[0] == expected


def test_a_question_of_how_many_prefers_a_number() -> None:
    text = f"Guests like music. {FILLER}We laid the table for 40."
    best = select_excerpt(text, "how many guests", TERMS.highlight_spans(text, "guests")).best
    assert text[slice(*best)] == "We laid the table for 40."


def test_an_excerpt_is_short_and_never_markup() -> None:
    text = f"```\n{FILLER * 20}\n```\n---"
    found = read(text, "boat")
    assert "boat" in found
    assert len(found) <= EXCERPT_CHARS_MAX
    assert "`" not in found
    assert read("---", "boat") == "---"

"""Late interaction, worked out by hand. SPEC 7.3, `rerank`"""

import numpy as np
import pytest

from mnemo_core.retrieval.ranking.late_interaction import max_sims, quantize, token_weights, weighted

EAST, NORTH = (1.0, 0.0), (0.0, 1.0)
BETWEEN = (0.6, 0.8)  # of unit length
QUERY = np.array([EAST, NORTH], np.float32)


def codes(*rows: tuple[float, float]) -> np.ndarray:
    return quantize(np.array(rows, np.float32).reshape(-1, 2))


def best(query: np.ndarray, texts: list[np.ndarray]) -> np.ndarray:
    """Of each text, whose tokens stand behind those of the text before it."""
    rows = np.concatenate([codes(), *texts])
    return max_sims(query, rows, np.array([len(text) for text in texts], np.int64))


def test_a_component_of_1_has_the_code_127() -> None:
    assert codes(EAST, (0.0, -1.0)).tolist() == [[127, 0], [0, -127]]
    assert codes(BETWEEN).tolist() == [[76, 102]]  # 76.2, 101.6
    assert codes().dtype == np.int8


def test_each_token_of_the_query_counts_with_its_best_match() -> None:
    sims = best(QUERY, [codes(BETWEEN), codes((0.0, -1.0), EAST), codes(NORTH, BETWEEN, NORTH)])
    assert sims.dtype == np.float32
    # 76/127 = 0.5984 and 102/127 = 0.8031
    assert sims.tolist() == [
        pytest.approx([0.5984, 0.8031], abs=1e-4),
        [1.0, 0.0],
        pytest.approx([0.5984, 1.0], abs=1e-4),
    ]


def test_an_opposite_vector_has_a_negative_match() -> None:
    assert best(QUERY, [codes((-1.0, 0.0))]).tolist() == [[-1.0, 0.0]]


def test_a_text_without_tokens_has_0_and_shifts_no_other() -> None:
    nothing = codes()
    sims = best(QUERY, [nothing, codes(EAST), nothing, nothing, codes(NORTH), nothing])
    assert sims.tolist() == [[0, 0], [1, 0], [0, 0], [0, 0], [0, 1], [0, 0]]


def test_a_missing_text_has_0_and_shifts_no_other() -> None:
    sims = max_sims(QUERY, codes(EAST, NORTH), np.array([1, -1, 1]))
    assert sims.tolist() == [[1, 0], [0, 0], [0, 1]]


def test_no_texts_and_no_tokens_have_their_shapes() -> None:
    assert best(QUERY, []).shape == (0, 2)
    assert best(QUERY, [codes(), codes()]).tolist() == [[0, 0], [0, 0]]
    assert best(QUERY[:0], [codes(EAST)]).shape == (1, 0)
    assert best(np.empty((0, 0), np.float32), [codes(EAST)]).shape == (1, 0)


def test_a_mean_by_weights() -> None:
    sims = np.array([[1.0, 0.5], [0.0, 1.0]], np.float32)
    # (1 · 3 + 0.5 · 1) / 4 and (0 · 3 + 1 · 1) / 4
    assert weighted(sims, np.array([3.0, 1.0], np.float32)).tolist() == [0.875, 0.25]
    assert weighted(sims, np.array([0.0, 2.0], np.float32)).tolist() == [0.5, 1.0]


def test_weights_that_come_to_nothing_give_0() -> None:
    sims = np.array([[1.0, 0.5]], np.float32)
    assert weighted(sims, np.zeros(2, np.float32)).tolist() == [0.0]
    assert weighted(np.zeros((3, 0), np.float32), np.zeros(0, np.float32)).tolist() == [0.0, 0.0, 0.0]


def test_a_token_counts_as_much_as_its_word_is_rare() -> None:
    def terms(word: str) -> list[str]:
        return word.lower().split("-")

    found = token_weights(("Wi-Fi", "Wi-Fi", "key", "unheard"), {"wi": 1.0, "fi": 3.0, "key": 2.0}, terms)
    assert found.tolist() == pytest.approx([3 / 9, 3 / 9, 2 / 9, 1 / 9])  # what no term stands for as the commonest
    assert token_weights(("a", "b"), {}, terms).tolist() == [0.5, 0.5]
    assert token_weights((), {}, terms).tolist() == []

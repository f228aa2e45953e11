"""The cutoff of an answer, and abstention. SPEC 7.5 `cut: gap`."""

import numpy as np
import pytest

from mnemo_core.retrieval import abstention
from mnemo_core.retrieval.abstention import (
    FEATURES,
    MEASURED,
    CutoffInputs,
    CutoffModel,
)
from mnemo_core.similarity.thresholds import DEFAULT_MODEL, SOURCE, Thresholds, of_model
from tests.bench import fit_cutoff

NAN = float("nan")


def evidence(scores: list[float], sims: list[float], words: list[float], words_full: float = 10.0) -> CutoffInputs:
    return CutoffInputs(
        np.array(scores, np.float32), np.array(sims, np.float32), np.array(words, np.float32), words_full
    )


def test_features_are_closeness_and_words_held_and_how_far_behind_the_best_each_is() -> None:
    # on its source's model a cosine of 0.65 is read as 0.65, and of the query's ten words' worth four are held
    found = abstention.features(evidence([0.8, 0.2], [0.65, 0.325], [4.0, 1.0]), SOURCE, "learned")
    half = float(np.interp(0.325, [0.30, 0.35], [0.30, 0.35]))
    assert found[0].tolist() == pytest.approx([0.65, 0.4, 1.0, 1.0, 0.8, 1.0])
    assert found[1].tolist() == pytest.approx([half, 0.1, half / 0.65, 0.25, 0.2, 0.25])


def test_without_the_projects_own_scores_the_features_are_of_vectors_and_words_and_without_vectors_of_words() -> None:
    known = evidence([0.9, 0.1], [0.65, 0.30], [4.0, 1.0])
    assert abstention.features(known, SOURCE, "vectors")[1].tolist() == pytest.approx([0.30, 0.1, 0.30 / 0.65, 0.25])
    assert abstention.features(known, SOURCE, "words")[1].tolist() == pytest.approx([0.1, 0.25])


def test_unknown_values_count_as_nothing() -> None:
    found = abstention.features(evidence([0.0, 0.0], [NAN, -0.4], [0.0, 0.0], 0.0), SOURCE, "learned")
    assert found.tolist() == [[0.0] * 6] * 2


def test_a_memory_without_a_vector_is_as_close_as_it_holds_the_words() -> None:
    known = evidence([0.02, 0.3], [NAN, 0.5], [8.1, 0.0])
    found = abstention.features(known, SOURCE, "learned")
    assert found[0, :2].tolist() == pytest.approx([0.9, 0.81])
    assert abstention.kept_candidates(found, abstention.MEASURED[DEFAULT_MODEL]["learned"], "learned").tolist()[0]


def test_a_text_that_says_more_of_the_query_than_the_query_does_holds_all_of_it() -> None:
    assert abstention.features(evidence([1.0], [NAN], [14.0]), SOURCE, "words").tolist() == [[1.0, 1.0]]


def test_a_strength_is_the_chance_that_the_weights_come_to() -> None:
    # 1/(1 + e^-(2·1 - 1)) = 0.7311 and 1/(1 + e^1) = 0.2689
    found = abstention.strengths(np.array([[1.0], [0.0]]), CutoffModel((2.0, -1.0), 0.5, 0.0))
    assert found.tolist() == pytest.approx([0.7311, 0.2689], abs=1e-4)


@pytest.mark.parametrize(
    ("strengths", "expected"),
    [
        ([0.9, 0.8, 0.4, 0.3], [0, 1]),
        ([0.9, 0.4, 0.8], [0, 2]),  # what is weak may stand between two that answer,
        ([0.3, 0.9, 0.8], [1, 2]),  # or before them
        ([0.9, 0.45], [0, 1]),
        ([0.2], [0]),
        ([0.4, 0.39, 0.38], [0, 1, 2]),
        ([], []),
    ],
)
def test_kept_candidates_have_their_share_of_the_strongest(strengths: list[float], expected: list[int]) -> None:
    # of the features none but the second counts, with the weight 1: its logit is the chance
    chances = np.array(strengths)
    rows = np.stack([np.zeros(len(chances)), np.log(chances / (1 - chances))], axis=1)
    found = abstention.kept_candidates(rows, CutoffModel((0.0, 1.0, 0.0), share=0.5, floor=0.0), "words")
    assert np.flatnonzero(found).tolist() == expected


def test_a_list_goes_on_to_a_tenth_of_the_share() -> None:
    rows = np.log([[1e-9, each / (1 - each)] for each in (0.8, 0.05, 0.039)])
    cut = CutoffModel((0.0, 1.0, 0.0), share=0.5, floor=-1e9)
    assert abstention.kept_candidates(rows, cut, "words").tolist() == [True, False, False]
    assert abstention.kept_candidates(rows, cut, "words", of_list=True).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("closeness", "coverage", "left"), [(0.30, 0.0, True), (0.29, 0.0, False), (0.2, 0.5, True), (0.2, 0.49, False)]
)
def test_there_is_no_answer_where_not_one_is_near_by_itself_however_far_it_is_ahead(
    closeness: float, coverage: float, left: bool
) -> None:
    # closeness + 0.2 · coverage has to be 0.3
    rows = np.array([[closeness, coverage, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    sure = CutoffModel((9.0, 9.0, 9.0, 9.0, 0.0), share=0.9, floor=0.3)
    assert abstention.kept_candidates(rows, sure, "vectors").tolist() == [left, False]


@pytest.mark.parametrize(
    ("closest", "others", "coverage", "left"),
    [
        (0.40, [0.32] * 5, 0.0, False),  # 0.08 ahead: the nearest of thousands to no question at all
        (0.40, [0.32] * 5, 0.1, True),  # one that holds a word is no chance
        (0.43, [0.32] * 5, 0.0, True),  # 0.11 ahead
        (0.46, [0.45] * 5, 0.0, True),  # nearer than anything is by chance
        (0.40, [0.40] * 4, 0.0, True),  # of five candidates nothing can be told
        (0.40, [0.32] * 5 + [0.01] * 90, 0.0, False),  # the next five count
    ],
)
def test_without_a_shared_word_the_closest_memory_has_to_stand_out(
    closest: float, others: list[float], coverage: float, left: bool
) -> None:
    rows = np.array([[near, 0.0, 0.0, 0.0] for near in [*others, closest]])
    rows[0, 1] = coverage
    sure = CutoffModel((9.0, 9.0, 9.0, 9.0, 0.0), share=0.1, floor=0.3)
    assert abstention.kept_candidates(rows, sure, "vectors").any() == left


def test_without_vectors_the_words_have_to_suffice() -> None:
    assert abstention.standalone_strengths(np.array([[0.5, 1.0]]), "words").tolist() == [pytest.approx(0.1)]


def example(closeness: list[float], right: list[int], answers: int | None = None) -> fit_cutoff.CutoffExample:
    rows = np.array([[each, 0.0, each / max(closeness), 0.0] for each in closeness])
    is_right = np.array([place in right for place in range(len(closeness))])
    return fit_cutoff.CutoffExample(rows, is_right, len(right) if answers is None else answers)


def test_an_outcome_is_the_mean_over_the_questions_that_have_an_answer() -> None:
    keep_all = CutoffModel((1.0, 0.0, 0.0, 0.0, 0.0), share=0.0, floor=0.0)
    asked = [example([0.9, 0.5], [0]), example([0.9, 0.5, 0.4], [1], answers=2), example([0.3], [])]
    # one of two right and all found; one of three, and one of two found; nothing to find does not count
    found = fit_cutoff.evaluate_cutoff(asked, keep_all, "vectors", top_k=3)
    assert found == pytest.approx(((1 / 2 + 1 / 3) / 2, (1 + 1 / 2) / 2, 0.0))
    # cut to one: right in the first, wrong in the second
    assert fit_cutoff.evaluate_cutoff(asked, keep_all, "vectors", top_k=1) == pytest.approx((0.5, 0.5, 0.0))


def test_a_question_that_is_given_no_answer_has_found_nothing() -> None:
    never = CutoffModel((0.0, 0.0, 0.0, 0.0, 0.0), share=0.0, floor=0.95)
    assert fit_cutoff.evaluate_cutoff([example([0.9], [0])], never, "vectors", top_k=3) == (0.0, 0.0, 1.0)


def made_examples() -> list[fit_cutoff.CutoffExample]:
    """Forty questions whose one answer is far ahead, and ten about what nothing is near to."""
    chance = np.random.default_rng(7)
    sure = [example([*chance.uniform(0.7, 0.9, 1), *chance.uniform(0.2, 0.35, 6)], [0]) for _ in range(40)]
    return sure + [example([*chance.uniform(0.1, 0.3, 7)], []) for _ in range(10)]


def test_a_fit_cuts_where_the_right_ones_end_and_knows_what_it_has_no_answer_for() -> None:
    examples = made_examples()
    found = fit_cutoff.fit(examples, "vectors", top_k=5)
    assert fit_cutoff.evaluate_cutoff(examples, found, "vectors", 5).precision > 0.9
    assert fit_cutoff.evaluate_cutoff(examples, found, "vectors", 5).recall > 0.9
    assert not any(abstention.kept_candidates(each.features, found, "vectors").any() for each in examples[40:])


def test_a_fit_gives_no_more_false_abstentions_than_it_may() -> None:
    examples = made_examples()
    assert (
        fit_cutoff.evaluate_cutoff(examples, fit_cutoff.fit(examples, "vectors", top_k=5), "vectors", 5).abstained
        <= 1 / 40 + fit_cutoff.FALSE_ABSTENTIONS_MAX
    )


def test_a_fit_leaves_the_recall_it_has_to_where_right_and_wrong_look_alike() -> None:
    chance = np.random.default_rng(3)
    blurred = [example(sorted(chance.uniform(0.4, 0.6, 5), reverse=True), [place % 3]) for place in range(60)]
    found = fit_cutoff.fit(blurred, "vectors", top_k=5)
    assert fit_cutoff.evaluate_cutoff(blurred, found, "vectors", 5).recall >= fit_cutoff.RECALL_MIN - 1e-9


def test_the_same_examples_give_the_same_cut() -> None:
    assert fit_cutoff.fit(made_examples(), "vectors", 5) == fit_cutoff.fit(made_examples(), "vectors", 5)


def test_every_cut_that_is_shipped_has_a_weight_for_each_feature_and_sane_limits() -> None:
    for model, cuts in MEASURED.items():
        assert of_model(model).calibrated
        assert cuts.keys() == FEATURES.keys()
        for basis, each in cuts.items():
            assert len(each.weights) == len(FEATURES[basis]) + 1
            assert 0 < each.share < 1
            assert 0 <= each.floor < 1


def test_a_model_without_a_fitted_cutoff_has_that_of_the_default_model() -> None:
    assert abstention.of_model("somebody/else") == MEASURED[DEFAULT_MODEL]


def test_closeness_is_read_on_one_scale_whatever_the_model() -> None:
    narrow = Thresholds(near=0.9, near_with_words=0.95, merge=0.94)
    sims = evidence([1.0], [0.9], [0.0])
    assert abstention.features(sims, narrow, "vectors")[0, 0] == pytest.approx(0.65)

"""The tables of thresholds, and cosines as the sources would read them. SPEC 4.5, 7.4"""

import pytest

from mnemo_core.similarity.thresholds import (
    COSINES,
    DEFAULT_MODEL,
    MEASURED,
    OF_G,
    OF_T,
    OWN,
    SOURCE,
    of_model,
    relevance,
)

TABLES = {"the sources": SOURCE} | {" in ".join(key): table for key, table in MEASURED.items()}


@pytest.mark.parametrize("name", TABLES)
def test_G48_thresholds_rise_from_proxy_over_insert_and_triage_to_merge_in_every_table(name: str) -> None:
    table = TABLES[name]
    assert table.near_proxy < table.near < table.triage < table.merge


@pytest.mark.parametrize("name", TABLES)
def test_stricter_decisions_have_higher_thresholds_in_every_table(name: str) -> None:
    table = TABLES[name]
    assert table.relevance_expand < table.relevance_floor < table.relevance_gate < table.relevance_touch
    assert table.relevance_touch < table.reconcile < table.near < table.core_overlap < table.triage
    assert table.merge < table.insert_merge < table.near_with_words
    assert table.topic_assign < table.topic_inside < table.topic_absorb < table.topic_merge
    assert table.fused_floor < table.node_join < table.node_split < table.turn_repeat < table.node_merge
    assert table.near < table.same
    assert all(0.0 < getattr(table, each) < 1.0 for each in COSINES)


def test_L8_G48_T2_T8_T10_T13_the_sources_keep_their_own_values() -> None:
    values = {name: getattr(SOURCE, name) for name in COSINES if name not in OWN}
    assert values == {
        "near": 0.65, "near_proxy": 0.60, "near_with_words": 0.85, "turn_repeat": 0.92, "reconcile": 0.55,
        "core_overlap": 0.70, "triage": 0.75, "merge": 0.78, "insert_merge": 0.80, "relevance_expand": 0.25,
        "relevance_floor": 0.30, "relevance_gate": 0.45, "relevance_touch": 0.50, "fused_floor": 0.60,
        "topic_assign": 0.30, "topic_inside": 0.35, "topic_absorb": 0.40, "topic_merge": 0.55, "node_join": 0.70,
        "node_split": 0.75, "node_merge": 0.93,
    }  # fmt: skip


def test_every_threshold_belongs_to_one_source_or_to_the_project() -> None:
    assert sorted(COSINES) == sorted([*OF_G, *OF_T, *OWN])
    assert len(COSINES) == len(OF_G) + len(OF_T) + len(OWN)
    assert {"turn_repeat", "fused_floor", "node_join", "node_split", "node_merge"} == OF_T


def test_a_model_that_nobody_measured_has_the_defaults_and_says_so() -> None:
    default = of_model(DEFAULT_MODEL)
    assert default.calibrated
    for name in ("BAAI/bge-large-en-v1.5", "my own", ""):
        assert of_model(name) == default._replace(calibrated=False)


def test_each_threshold_of_a_model_is_as_relevant_as_its_source_says() -> None:
    for table in TABLES.values():
        for name in OF_G:
            assert relevance([getattr(table, name)], table)[0] == pytest.approx(getattr(SOURCE, name)), name


def test_between_two_thresholds_relevance_is_linear_and_it_stays_in_0_to_1() -> None:
    made = SOURCE._replace(relevance_floor=0.20, topic_assign=0.20, topic_inside=0.40, relevance_expand=0.10)
    # from 0.20 to 0.40 relevance goes from 0.30 to 0.35; from 0 to 0.10 it goes to 0.25
    found = relevance([-0.5, 0.0, 0.05, 0.20, 0.25, 0.30, 1.0, 1.2], made)
    assert found.tolist() == pytest.approx([0.0, 0.0, 0.125, 0.30, 0.3125, 0.325, 1.0, 1.0])


def test_on_a_sources_own_model_relevance_is_the_cosine() -> None:
    assert relevance([0.1, 0.33, 0.777], SOURCE).tolist() == pytest.approx([0.1, 0.33, 0.777])

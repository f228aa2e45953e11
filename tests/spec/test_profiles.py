"""Rules of each source for ingestion and recall. SPEC 15

Every expected value is read off the source's text, named beside it, not off the program.
"""

from typing import Any

import pytest

from mnemo_core.documents import chunking
from mnemo_core.ingest.classification import classify
from mnemo_core.ingest.policies import (
    OWN_POLICY,
    POLICIES,
    EntryPoint,
    default_importance,
    final_importance,
    is_discarded,
    preference_source_l,
    salience_source_l,
)
from mnemo_core.retrieval.recall_defaults import RecallDefaults
from mnemo_daemon.settings import RecallSettings, Settings
from mnemo_store.records import Kind


def test_there_is_one_row_for_each_source_and_one_for_this_page() -> None:
    assert list(POLICIES) == ["own", "L", "M", "E", "G", "T"]
    assert all(profile.name == name for name, profile in POLICIES.items())
    assert POLICIES["own"] is OWN_POLICY


# Recall


def test_a_profile_sets_the_recall_parameters_that_a_request_leaves_out() -> None:
    settings = Settings(
        recall=RecallSettings(ranker="words", top_k=7, token_budget=0, cut="gap", rerank=True),
        profiles={"l": "L", "m": "M", "e": "E", "g": "G", "t": "T", "mine": "own"},
    )
    own = RecallDefaults(ranker="words", top_k=7, token_budget=None, cut="gap", rerank=True, list_top_k=20)
    assert settings.recall_defaults("mine") == settings.recall_defaults("any other") == own
    assert settings.recall_defaults("l") == RecallDefaults(
        ranker="cosine", top_k=5, token_budget=2000, preferences="first", min_importance=0.2
    )  # [L 2.1, 2.4, 2.5, 2.6]
    assert settings.recall_defaults("m") == RecallDefaults(ranker="hybrid", top_k=10, token_budget=None)  # [M3, M8]
    assert settings.recall_defaults("e") == RecallDefaults(ranker="cosine", top_k=10, token_budget=None)  # [E7]
    assert settings.recall_defaults("g") == RecallDefaults(ranker="layered", top_k=20, token_budget=2000)  # [G41]
    assert settings.recall_defaults("t") == RecallDefaults(ranker="fused", top_k=10, token_budget=2000)  # [T12]


# L


@pytest.mark.parametrize(
    ("text", "salience"),
    [
        ("nothing here", 0.0),
        ("we met Anna", 0.3),  # a capital word of three letters
        ("we met Al", 0.0),  # two letters are none
        ("we met NASA", 0.0),  # all capitals are none
        ("call 112", 0.2),
        ("on 12/03/2026", 0.2),
        ("serial 1234567", 0.0),  # five digits and more are no figure
        ("i hate tabs", 0.4),  # in any case
        ("MY FAVORITE tea", 0.4),
        ("i rather like tea", 0.0),  # four signals, and no fifth
        ("anodising passivated titanium", 0.1),  # rare words, on average
        ("the anodising was late today", 0.0),  # one of several
        ("Anna paid 12 euros, i prefer cash", 0.9),
        ("Anna passivated titanium with 2 anodising baths, i always do", 1.0),
    ],
)
def test_L12_salience_by_the_letter(text: str, salience: float) -> None:
    rare = {"anna", "anodising", "baths", "passivated", "titanium"}
    assert salience_source_l(text, lambda words: [word in rare for word in words]) == pytest.approx(salience)


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        ("I prefer tea", "I prefer"),
        ("i always win", "i always"),
        ("I hate rain", "I hate"),
        ("My favorite tea", "My favorite"),
        ("I like tea", ""),
        ("my favourite tea", ""),
        ("Delhi always wins", ""),
    ],
)
def test_L13_the_four_preference_signals_and_no_other(text: str, signal: str) -> None:
    assert preference_source_l(text) == signal


def test_L14_what_scores_under_three_tenths_is_discarded_and_three_tenths_is_kept() -> None:
    profile = POLICIES["L"]
    # "i hate tabs", novelty 0.23: 0.6 · 0.23 + 0.4 · 0.4 = 0.298
    assert is_discarded(profile, "ingest", 0.298, None)
    assert not is_discarded(profile, "ingest", 0.3, None)
    assert is_discarded(profile, "remember", 0.298, None)  # L has one way in
    assert not is_discarded(profile, "note", 0.0, None)  # no profile discards notes
    assert not is_discarded(profile, "ingest", 0.0, 0.1)  # what the caller gave wins
    assert final_importance(profile, "remember", 0.31) == 0.31


@pytest.mark.parametrize(
    ("text", "given", "kind"),
    [
        ("I prefer tea right now.", None, "procedural"),  # the preference comes first
        ("The build is red right now.", None, "working"),
        ("Currently Anna is away.", None, "working"),
        ("I live in Berlin now.", None, "working"),  # by the letter, `now` is enough
        ("What a day today!", None, "working"),
        ("Anna is a cardiologist.", None, "semantic"),
        ("We went home late and tired.", None, "episodic"),
        ("I prefer tea.", "semantic", "semantic"),  # the hint wins
    ],
)
def test_L15_routing_in_its_order(text: str, given: Kind | None, kind: str) -> None:
    assert classify(text, session_id="s1", kind=given, policy=POLICIES["L"]).kind == kind


def test_L16_working_needs_a_session_and_is_never_a_note() -> None:
    text = "The build is red right now, sadly and loudly."
    assert classify(text, session_id="s1", policy=POLICIES["L"]).kind == "working"
    assert classify(text, policy=POLICIES["L"]).kind != "working"
    assert classify(text, session_id="s1", from_note=True, policy=POLICIES["L"]).kind != "working"


def test_L17_a_preference_is_procedural_and_a_preference() -> None:
    found = classify("I always take the stairs.", policy=POLICIES["L"])
    assert found[:3] == ("procedural", "preference", "preference")


def test_L5_pieces_have_fifty_to_three_hundred_tokens() -> None:
    assert POLICIES["L"].split == "paragraphs"
    assert (chunking.TOKENS_MIN, chunking.TOKENS_MAX) == (50, 300)


# M, E, G, T

ROWS: list[tuple[str, dict[str, Any]]] = [
    ("L", {"on_equal": "stored", "on_similar": "stored", "infer": False, "filters_turns": False, "salience": "L"}),
    (
        "M",
        {"on_equal": "stored", "on_similar": "stored", "infer": False, "filters_turns": False, "scored": frozenset()},
    ),
    (
        "E",
        {"on_equal": "skipped", "on_similar": "stored", "infer": True, "filters_turns": False, "scored": frozenset()},
    ),
    (
        "G",
        {
            "on_equal": "reinforced",
            "on_similar": "merged",
            "infer": False,
            "filters_turns": False,
            "scored": frozenset(),
        },
    ),
    ("T", {"on_equal": "stored", "on_similar": "stored", "infer": False, "filters_turns": True, "scored": frozenset()}),
    (
        "own",
        {"on_equal": "reinforced", "on_similar": "linked", "infer": False, "filters_turns": True, "is_guarded": True},
    ),
]


@pytest.mark.parametrize(("name", "switches"), ROWS)
def test_each_source_has_its_own_switches(name: str, switches: dict[str, Any]) -> None:
    assert {field: getattr(POLICIES[name], field) for field in switches} == switches


@pytest.mark.parametrize(
    ("name", "entry_point", "kind", "tags", "importance"),
    [
        ("M", "remember", "semantic", (), 0.5),  # M2
        ("M", "turn", "episodic", (), 0.2),  # M2: what a hook writes
        ("M", "remember", "procedural", ("lesson",), 0.5),
        ("G", "remember", "semantic", (), 0.5),  # G1
        ("G", "remember", "semantic", ("lesson",), 0.75),  # G1
        ("G", "remember", "semantic", ("trigger:deploy",), 0.75),  # G1
        ("G", "remember", "procedural", (), 0.75),  # G1
        ("G", "remember", "semantic", ("lessons",), 0.5),  # another word
        ("T", "turn", "episodic", (), 0.5),  # T1
        ("E", "remember", "semantic", (), 0.5),
        ("own", "turn", "episodic", ("lesson",), 0.5),  # SPEC 8
    ],
)
def test_M2_G1_T1_an_unscored_text_has_the_default_of_its_source(
    name: str, entry_point: EntryPoint, kind: Kind, tags: tuple[str, ...], importance: float
) -> None:
    assert default_importance(POLICIES[name], entry_point, kind, tags) == importance


def test_E5_duplicates_are_looked_for_within_user_agent_and_run() -> None:
    assert POLICIES["E"].compared == ("namespace", "user_id", "agent_id", "run_id")


def test_E6_no_profile_compares_across_users_or_namespaces() -> None:
    assert all({"namespace", "user_id"} <= set(profile.compared) for profile in POLICIES.values())


def test_G5_a_similar_text_strengthens_the_earlier_by_the_thresholds_of_the_source() -> None:
    assert (POLICIES["G"].thresholds, POLICIES["G"].reinforcement) == ("source", 0.05)
    assert not POLICIES["G"].is_guarded


def test_T2_a_repeated_turn_is_dropped_without_a_guard() -> None:
    assert (POLICIES["T"].filters_turns, POLICIES["T"].is_guarded, POLICIES["T"].thresholds) == (True, False, "source")


@pytest.mark.parametrize(
    ("name", "role", "expected"),
    [
        ("M", "", ("semantic", "fact")),
        ("M", "user", ("semantic", "crumb")),  # M23: a hook writes crumbs
        ("E", "", ("semantic", "fact")),
        ("G", "", ("semantic", "fact")),  # G3: semantic is the default
        ("T", "user", ("episodic", "fact")),
    ],
)
def test_M1_E1_G3_sources_without_rules_use_their_defaults(name: str, role: Any, expected: tuple[str, str]) -> None:
    found = classify("I prefer tea. We decided to buy a kettle.", role=role, policy=POLICIES[name])
    assert (found.kind, found.category) == expected


def test_E2_a_step_of_a_run_is_procedural_in_every_profile_without_rules() -> None:
    for name in ("M", "E", "G", "T"):
        assert classify("Opened the file.", has_trace=True, policy=POLICIES[name])[:2] == ("procedural", "step")


# own


def test_a_deliberate_statement_is_never_discarded_and_starts_at_one_half() -> None:
    assert not is_discarded(OWN_POLICY, "remember", 0.0, None)
    assert not is_discarded(OWN_POLICY, "turn", 0.0, None)
    assert not is_discarded(OWN_POLICY, "note", 0.0, None)
    assert is_discarded(OWN_POLICY, "ingest", 0.299, None)
    assert not is_discarded(OWN_POLICY, "ingest", 0.3, None)
    assert final_importance(OWN_POLICY, "remember", 0.31) == 0.5
    assert final_importance(OWN_POLICY, "remember", 0.8) == 0.8
    assert final_importance(OWN_POLICY, "ingest", 0.31) == 0.31

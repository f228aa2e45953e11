"""From ranked candidates to the answer, through the socket of a real daemon with the real model. SPEC 7.5, 7.6, 11"""

import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from mnemo_client.client import Client
from mnemo_client.protocol.memories import NewMemory
from mnemo_client.protocol.retrieval import RecallAnswer
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue
from mnemo_daemon.models.embedders.embedding import load_embedder
from mnemo_daemon.retrieval.candidates.candidate_retrieval import CANDIDATES_MIN
from mnemo_daemon.settings import Numerics
from tests.support.labelled_passages import made, shown, token_rows
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import AT

DAY = 86_400_000
HOME = "I live in Lisbon."
MOVED = "I moved to Porto."
ASKED_HOME = "where do I live?"
FACTS = (
    "The ferry to the island leaves at seven in the morning.",
    "Sourdough wants a hot oven and a long night in the fridge.",
    "The printer on the second floor takes A4 only.",
    "Ines keeps the spare key of the green boat in a blue tin.",
    "The tax return is due at the end of May.",
)
BOATS = (
    "The kayak is in the boathouse.",
    "A kayak wants dry storage.",
    "The boathouse roof leaks.",
    "Whoever paints the boathouse gets the kayak for a week.",
    "Dry storage costs forty euros a month.",
)
BOATS_MANY = CANDIDATES_MIN + 20
PURCHASES = [*zip(range(3, 25), (
    "apples", "boats", "chairs", "drums", "envelopes", "forks", "gloves", "hats", "irons", "jackets", "kettles",
    "lamps", "mirrors", "nails", "oars", "pillows", "quilts", "ropes", "saws", "tents", "umbrellas", "violins",
), strict=True)]  # fmt: skip
TASTES = ("coffee", "tea", "bread", "mail", "music", "maps", "films")


@pytest.fixture
def client(model_daemon: RunningDaemon) -> Iterator[Client]:
    """In a namespace of the test's own."""
    with model_daemon.client(f"ns-{uuid.uuid4().hex[:8]}") as open_client:
        yield open_client


def remember(client: Client, *contents: str, **fields: Any) -> None:
    for content in contents:
        client.remember(content, wait="indexed", **fields)


def ask(client: Client, query: str, **fields: Any) -> RecallAnswer:
    return client.recall(query, dry=True, **fields)


def contents(answer: RecallAnswer) -> list[str]:
    return [memory.content for memory in answer.memories]


def remember_move(client: Client) -> None:
    """Remember where someone lives, and a day later where to they moved: the newer updates the older."""
    client.remember(HOME, event_at=AT, wait="indexed")
    moved = client.remember(MOVED, event_at=AT + DAY, wait="indexed")
    assert moved.updates


# Values and what replaced them


def test_the_current_value_comes_before_the_stale_one_whichever_fits_the_question_better(client: Client) -> None:
    remember_move(client)
    for ranker in ("auto", "cosine"):
        answer = ask(client, ASKED_HOME, ranker=ranker)
        assert [(memory.content, memory.was) for memory in answer.memories] == [(MOVED, False), (HOME, True)]
    # By cosine alone the stale one fits better.
    assert answer.memories[0].score == answer.memories[1].score, "it is worth the place that it takes"


def test_the_current_value_comes_with_a_stale_one_that_alone_was_found(client: Client) -> None:
    remember_move(client)
    answer = ask(client, "Lisbon", ranker="words")
    assert [(memory.content, memory.channels) for memory in answer.memories] == [
        (MOVED, ["updates"]), (HOME, ["words"])
    ]  # fmt: skip


def test_a_filter_keeps_the_current_value_out_that_it_does_not_allow(client: Client) -> None:
    client.remember(HOME, event_at=AT, tags=["seen"], wait="indexed")
    assert client.remember(MOVED, event_at=AT + DAY, wait="indexed").updates
    assert contents(ask(client, ASKED_HOME, tags=["seen"])) == [HOME]


def test_before_the_change_was_known_the_older_value_stands_alone(client: Client) -> None:
    first = client.remember(HOME, event_at=AT, wait="indexed")
    time.sleep(0.02)
    client.remember(MOVED, event_at=AT + DAY, wait="indexed")
    answer = ask(client, ASKED_HOME, as_of=first.memory.created_at + 5)
    assert [(memory.content, memory.was) for memory in answer.memories] == [(HOME, False)]


def test_before_the_date_of_an_announced_change_the_older_value_is_first(client: Client) -> None:
    now = int(time.time() * 1000)
    client.remember(HOME, event_at=AT, wait="indexed")
    moved = client.remember(MOVED, event_at=now + 30 * DAY, wait="indexed")
    assert moved.updates
    answer = ask(client, ASKED_HOME, as_of=now + DAY)
    assert [(memory.content, memory.was) for memory in answer.memories] == [(HOME, False), (MOVED, False)]


def test_in_an_order_by_time_nothing_is_moved(client: Client) -> None:
    remember_move(client)
    answer = ask(client, ASKED_HOME, sort="recent")
    assert [(memory.content, memory.was) for memory in answer.memories] == [(MOVED, False), (HOME, False)]


def test_a_block_dates_and_marks_an_older_value(client: Client) -> None:
    remember_move(client)
    lines = client.context(ASKED_HOME, dates="none").block.splitlines()
    assert lines[1:-1] == [f"[SEMANTIC] {MOVED}", f"[SEMANTIC] (was) 2023-11-14: {HOME}"]
    block = client.context(ASKED_HOME, dates="none", cut="none").block  # asked for whole
    lines = [re.sub(r"\d\.\d\d", "SCORE", line) for line in block.splitlines()]
    assert lines[1:-1] == [f"[SEMANTIC] (SCORE) {MOVED}", f"[SEMANTIC] (was · SCORE) 2023-11-14: {HOME}"]


# Copies


def test_of_near_copies_the_best_comes_and_one_that_adds_a_specific(client: Client) -> None:
    whole, part = "My sister lives in Lisbon, near the river.", "My sister lives in Lisbon, near a river!"
    more = "My sister lives in Lisbon, near the river, on floor 3."
    remember(client, part, whole, more)
    answer = ask(client, "My sister lives in Lisbon, near the river.", explain=True)
    assert contents(answer) == [whole, more]
    assert answer.trace is not None
    assert sorted(each.dropped or "" for each in answer.trace.candidates) == ["", "", "near_copy"]


# Budget and pages


def test_pages_go_on_where_the_one_before_ended(client: Client, model_daemon: RunningDaemon) -> None:
    stories = [f"The boat number {n} has a mast of {n} metres{' and a very long story' * n}." for n in range(23)]
    client.remember_many([NewMemory(content=content) for content in stories])
    model_daemon.wait_for_vectors()
    whole = contents(ask(client, "which boat has a mast", top_k=100, token_budget=None))
    assert len(whole) == 23
    for budget in (None, 150):
        seen: list[str] = []
        while page := contents(ask(client, "which boat has a mast", top_k=4, offset=len(seen), token_budget=budget)):
            seen += page
        assert sorted(seen) == sorted(whole)
        if budget is None:
            assert seen == whole


def test_pages_go_on_farther_than_one_search_looks(client: Client, model_daemon: RunningDaemon) -> None:
    client.remember_many([NewMemory(content=f"The boat number {n} has a mast of wood.") for n in range(BOATS_MANY)])
    model_daemon.wait_for_vectors()
    seen: list[str] = []
    while page := contents(ask(client, "which boat has a mast", top_k=25, offset=len(seen))):
        seen += page
    assert len(set(seen)) == len(seen) == BOATS_MANY


def test_a_question_that_asks_for_a_list_gets_more_where_no_number_is_requested(client: Client) -> None:
    client.remember_many([NewMemory(content=f"Anna bought {count} {thing}.") for count, thing in PURCHASES])
    for query, fields, returned, used in (
        ("What things has Anna bought?", {}, 20, 20),
        ("What things has Anna bought?", {"default_top_k": 3}, 20, 20),
        ("What things has Anna bought?", {"default_top_k": 21}, 21, None),
        ("What things has Anna bought?", {"top_k": 4, "default_top_k": 3}, 4, None),
        ("What things has Anna bought?", {"limit": 4}, 4, None),
        ("What thing did Anna buy?", {}, 5, None),
        ("What thing did Anna buy?", {"default_top_k": 3}, 3, None),
    ):  # fmt: skip
        answer = ask(client, query, **fields)
        assert (len(answer.memories), answer.list_top_k) == (returned, used), fields
    within = ask(client, "What things has Anna bought?", token_budget=30)
    assert within.list_top_k == 20
    assert 0 < within.total_tokens <= 30


def test_when_nothing_fits_the_budget_the_answer_says_which_budget_would_do(client: Client) -> None:
    remember(client, *FACTS)
    answer = ask(client, "when does the ferry leave", token_budget=3)
    assert (answer.memories, answer.abstained) == ([], False)
    assert answer.needs_tokens is not None
    assert answer.needs_tokens > 3
    assert len(ask(client, "when does the ferry leave", token_budget=answer.needs_tokens).memories) == 1
    block = client.context("when does the ferry leave", token_budget=3)
    assert (block.block, block.cut, block.abstained) == ("", True, False)


def test_of_a_hit_larger_than_the_budget_the_lines_around_its_best_sentence_are_answered(client: Client) -> None:
    rows = [f"2026-03-{n % 28 + 1:02},till {n % 7},{n * 37 % 1000}.{n % 100:02},EUR,ref{n:05}" for n in range(200)]
    rows[140] = "2026-03-05,walrus deposit,512.40,EUR,ref99999"
    remember(client, "date,what,amount,currency,reference\n" + "\n".join(rows))
    answer = ask(client, "how much was the walrus deposit", token_budget=500)
    (memory,) = answer.memories
    assert memory.content_cut
    lines = memory.content.split("\n")
    assert rows[140] in lines
    assert set(lines) <= set(rows)
    assert len(lines) > 5
    assert 0 < answer.total_tokens <= 500 < (answer.needs_tokens or 0)
    assert memory.best is None
    block = client.context("how much was the walrus deposit", token_budget=500, cut="none")
    assert rows[140] in block.block
    assert block.cut
    assert not ask(client, "how much was the walrus deposit", token_budget=None).memories[0].content_cut


def test_the_best_sentence_of_a_note_is_chosen_by_words_that_its_title_lacks(
    client: Client, model_daemon: RunningDaemon, tmp_path: Path
) -> None:
    namespace, folder = f"ns-{uuid.uuid4().hex[:8]}", tmp_path / "people"
    folder.mkdir()
    (folder / "ines.md").write_text(
        "---\ntitle: Ines Duarte\naliases: [In\u00eas, Ines]\nbirthday: 1988-04-17\nphone: 912 555 014\n---\n\n"
        "Ines Duarte came from Porto.\nInes likes chocolate.\nShe hates coriander.\n"
    )
    root = client.add_root(folder, namespace)
    client.rescan()
    for query, says, line in (
        ("when is Ines' birthday", "birthday: 1988-04-17", 2),  # the second of its passage, which begins in line 1
        ("what does Ines Duarte hate", "She hates coriander.", 10),
        ("Ines Duarte", "Ines Duarte came from Porto.", 8),
    ):
        answer = ask(client, query, namespace=namespace, ranker="words", highlight=True)
        found = [memory.best for memory in answer.memories if memory.best is not None]
        assert any(says in best.text and best.line == line for best in found), (query, found)
    client.remove_root(id=root.id)


def test_min_score_cuts_one_by_one(client: Client) -> None:
    remember(client, *FACTS)
    for question in ("when does the ferry leave", "what is there to eat", "the harbour", "Kofi"):
        whole = ask(client, question, ranker="cosine").memories
        assert whole
        for limit in [memory.score for memory in whole]:  # as it is shown, so some were rounded up
            answer = ask(client, question, ranker="cosine", min_score=limit)
            assert contents(answer) == [memory.content for memory in whole if memory.score >= limit]
            assert answer.total == len(answer.memories)


# Preferences


def remember_tastes(client: Client) -> None:
    remember(client, *FACTS)
    for taste in TASTES:
        client.remember(f"I prefer {taste} in the morning.", kind="procedural", form="preference", wait="indexed")


def test_preferences_come_first_in_a_quota_of_their_own(client: Client) -> None:
    remember_tastes(client)
    inline = ask(client, "in the morning", top_k=3)
    first = ask(client, "in the morning", top_k=3, preferences="first")
    assert len(inline.memories) == 3
    assert [memory.form for memory in first.memories[:5]] == ["preference"] * 5
    assert len(first.memories) == 8
    rest = contents(ask(client, "in the morning", top_k=3, offset=3, preferences="first"))
    assert set(rest).isdisjoint(contents(first))


def test_preferences_come_first_in_a_block_unless_requested_otherwise(client: Client) -> None:
    remember_tastes(client)
    block = client.context("when does the ferry leave in the morning", top_k=1, cut="none", dates="none").block
    assert [line.split("]")[0] for line in block.splitlines()[1:-1]] == ["[PROCEDURAL"] * 5 + ["[SEMANTIC"]
    block = client.context("ferry to the island", top_k=1, cut="none", dates="none", preferences="inline").block
    assert block.count("\n") == 2


def test_preferences_come_whatever_is_asked_and_are_not_counted_out_by_the_cut(client: Client) -> None:
    remember(client, *FACTS, "Please always answer me in metric units.")
    block = client.context("when does the ferry to the island leave")
    assert block.block.splitlines()[1].endswith("in metric units.")
    assert len(block.memories) == 2
    answer = ask(client, "what is my blood type?", preferences="first", cut="gap")
    assert answer.abstained
    assert [(each.content, each.preference) for each in answer.memories] == [
        ("Please always answer me in metric units.", True)
    ]


def test_preferences_that_no_channel_found_stand_ahead_by_importance(client: Client) -> None:
    for number, taste in enumerate(TASTES):
        client.remember(f"I prefer {taste} in the morning.", importance=number / 10)
    client.remember("The ferry to the island leaves at seven.")
    answer = ask(client, "ferry island", ranker="words", preferences="first")
    expected = [f"I prefer {taste} in the morning." for taste in TASTES[:1:-1]]
    assert contents(answer) == [*expected, "The ferry to the island leaves at seven."]
    assert answer.memories[0].channels == ["preferences"]
    assert ask(client, "ferry island", ranker="words", preferences="first", kinds=["semantic", "episodic"]).total == 1


def test_a_preference_in_documentation_is_no_preference_of_a_person(client: Client) -> None:
    client.ingest("I prefer tabs over spaces.\n\nPlease always use tabs in Makefiles, never spaces.", wait="indexed")
    kept = client.list_memories(limit=10).memories
    assert {each.kind for each in kept} == {"procedural"}
    remember(client, FACTS[0])
    assert contents(ask(client, "when does the ferry leave", preferences="first", top_k=1)) == [FACTS[0]]


# What is touched


def test_G40_relevant_answers_are_counted_as_used_and_those_with_only_a_high_score_are_not(client: Client) -> None:
    remember(client, *FACTS)
    scored = client.recall("the second floor of the boat", explain=True, ranker="hybrid")
    fitting = client.recall("The ferry leaves at seven in the morning.", explain=True, top_k=1)
    assert scored.trace is not None
    assert fitting.trace is not None
    relevance = {each.id: each.relevance for each in (*scored.trace.candidates, *fitting.trace.candidates)}
    best, least = fitting.memories[0], scored.memories[0]
    assert least.score > 0.5 > relevance[least.id]
    assert relevance[best.id] > 0.5
    client.recall("the second floor of the boat", ranker="hybrid")
    client.recall("The ferry leaves at seven in the morning.", top_k=1)
    deadline = time.monotonic() + 30
    while client.get(best.id).access_count == 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (client.get(best.id).access_count, client.get(least.id).access_count) == (1, 0)


# Where the list ends


def test_rerank_drops_candidates_that_do_not_bear_on_the_question(client: Client) -> None:
    remember(client, *FACTS)
    answer = ask(client, "when does the ferry to the island leave", rerank=True)
    assert contents(answer) == [FACTS[0]]


def test_a_gap_ends_the_list_after_the_right_answers(client: Client) -> None:
    remember(client, *FACTS)
    assert len(ask(client, "when does the ferry to the island leave").memories) == 5
    answer = ask(client, "when does the ferry to the island leave", cut="gap")
    assert contents(answer) == [FACTS[0]]
    assert (answer.abstained, answer.total) == (False, 5)


def test_a_question_about_something_never_stored_abstains(client: Client) -> None:
    remember(client, *FACTS)
    answer = ask(client, "what is my blood type?", cut="gap")
    assert (answer.memories, answer.abstained, answer.total_tokens) == ([], True, 0)
    assert answer.total > 0
    assert not ask(client, "what is my blood type?").abstained


def test_a_block_is_cut_at_the_gap_unless_it_is_asked_otherwise(client: Client) -> None:
    remember(client, *FACTS)
    block = client.context("what is my blood type?")
    assert (block.block, block.abstained, block.cut) == ("", True, False)
    assert client.context("what is my blood type?", cut="none").block.count("\n") > 1
    assert client.context("when does the ferry to the island leave").memories == [
        ask(client, "when does the ferry to the island leave", top_k=1).memories[0].id
    ]


def test_without_a_model_the_words_alone_say_where_the_list_ends(client: Client) -> None:
    remember(client, *FACTS)
    assert contents(ask(client, "ferry island", ranker="words", cut="gap")) == [FACTS[0]]
    assert ask(client, "xylophone", ranker="words", cut="gap").abstained


# Expansion


def test_a_question_that_finds_next_to_nothing_is_expanded_and_names_the_added_words(client: Client) -> None:
    remember(client, *BOATS)
    answer = ask(client, "qwrtz vbnmk")
    assert answer.expanded
    stored = " ".join(BOATS)
    assert all(word in stored for word in answer.expanded)
    assert any("words" in memory.channels for memory in answer.memories)
    assert ask(client, "qwrtz vbnmk", expand=False).expanded == []


def test_a_question_that_finds_something_is_not_widened(client: Client) -> None:
    remember(client, *FACTS)
    answer = ask(client, "when does the ferry leave", explain=True)
    assert answer.expanded == []
    assert answer.trace is not None
    assert "expand" not in answer.trace.stages_ms


def test_a_widened_question_is_no_answer_where_the_list_ends_at_the_gap(client: Client) -> None:
    remember(client, *BOATS)
    answer = ask(client, "qwrtz vbnmk", cut="gap", explain=True)
    assert answer.trace is not None
    assert (bool(answer.expanded), answer.abstained) == (True, True)
    assert {each.cut["coverage"] for each in answer.trace.candidates} == {0.0}


def test_the_same_question_on_the_same_state_gives_the_same_answer(client: Client) -> None:
    remember_tastes(client)
    for query in ("in the morning", "qwrtz vbnmk"):
        asked = {"preferences": "first", "cut": "gap", "top_k": 4}
        one, other = (ask(client, query, **asked) for _ in range(2))
        assert (one.memories, one.expanded) == (other.memories, other.expanded)


def test_a_superseded_memory_comes_after_its_replacement(client: Client) -> None:
    old = client.remember("The gate code of the boat yard is 4711.", wait="indexed").memory.id
    client.remember("Rex sleeps in the yard by the gate.", wait="indexed")
    new = client.remember("Since May the yard has a keypad with 0815.", supersedes=[old], wait="indexed").memory.id
    query = "what is the gate code of the boat yard"
    shown = ask(client, query, include_superseded=True).memories
    assert [(each.id, each.was) for each in shown if each.id in (old, new)] == [(new, False), (old, True)]
    assert shown[0].id == new
    assert old not in [each.id for each in ask(client, query).memories]


def test_an_excerpt_goes_by_the_token_rows_of_question_and_memory(
    client: Client, model_daemon: RunningDaemon, minilm_folder: Path
) -> None:
    items = [item._replace(trail="") for item in made()[:8]]
    manifest = ModelCatalogue(minilm_folder).installed(DEFAULT_EMBEDDING)
    assert manifest is not None
    numerics = cast(Numerics, model_daemon.environ["MNEMO_MODELS_NUMERICS"])
    embedder = load_embedder(manifest, numerics=numerics)
    expected = [shown(item, rows) for item, rows in zip(items, token_rows(embedder, items), strict=True)]
    assert expected != [shown(item, None) for item in items]
    remember(client, *(item.text for item in items))
    found = []
    for item in items:
        answer = ask(client, item.question, highlight=True, top_k=len(items))
        best = next(memory.best for memory in answer.memories if memory.content == item.text)
        assert best is not None
        found.append(best.text)
    assert found == expected

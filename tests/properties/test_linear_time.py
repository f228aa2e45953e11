"""No text costs more than its length: each compiled pattern and each text function, on repetitions of nasty pieces.

Judged by the processor time of this thread for texts of several lengths, measured alternately: at most linear growth,
and at most 40 units of work for the 8,192 characters that a memory may have (tests/support/time_complexity.py). With
MNEMO_SWEEP=1 every function is driven with every piece.
"""

import ast
import contextlib
import inspect
import itertools
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemo_core.documents import chunking, markup, note_dates, note_diff
from mnemo_core.documents.file_formats import FileFormatError, parse_format
from mnemo_core.documents.folder_files import is_ignored, read_rules
from mnemo_core.documents.front_matter import read_front_matter
from mnemo_core.ingest import changes, deduplication, echo_filter, facts, memory_role, write_plan
from mnemo_core.ingest.classification import about_now, classify
from mnemo_core.ingest.memory_cues import MemoryFacts, cues_of
from mnemo_core.ingest.policies import OWN_POLICY, salience_source_l
from mnemo_core.ingest.signals import entities, salience
from mnemo_core.knowledge.topic_names import TermStatistics, opening_words, telling_words
from mnemo_core.lifecycle import profiles
from mnemo_core.lifecycle.consolidation import merging
from mnemo_core.llm import audit, extraction, faithfulness, merge, question_answer, reconcile, summarize, triage
from mnemo_core.llm.grammar import CHARACTERS_MAX
from mnemo_core.llm.tasks import TaskInputs
from mnemo_core.retrieval import answer_judge, context_block, excerpts, time_placement
from mnemo_core.retrieval.query_expansion import added_words, expansion_terms
from mnemo_core.retrieval.ranking import lexical_ranker
from mnemo_core.retrieval.result_selection import is_copy
from mnemo_core.sessions import resume
from mnemo_core.similarity import thresholds
from mnemo_core.similarity.thresholds import of_model
from mnemo_core.text import canonical, cleaning, languages, note_secrets, secrets, statement_reading, tokens
from mnemo_core.text.dates import question_times, time_mentions
from mnemo_core.text.dates.date_patterns import words_in
from mnemo_core.text.lazy_patterns import LazyPattern
from mnemo_core.text.syntax import clauses
from mnemo_core.text.syntax.pronouns import in_third_person
from mnemo_core.transfer import markdown_export
from mnemo_core.transfer.transcripts import chatgpt, claude_code, codex, parts
from mnemo_store.records import Usage
from tests.support import transcript_files
from tests.support.examples import IS_SWEEP
from tests.support.samples import AT, sample_id, sample_memory
from tests.support.time_complexity import (
    NASTY,
    USUAL,
    CostGrowth,
    Pattern,
    cost_growth,
    cost_growth_of_piece,
    drive,
    modules,
    patterns,
    pieces_of,
    repeated,
    uses_of_re,
)

PIECES_OF_PATTERN = 60 if IS_SWEEP else 6
PIECES_OF_FUNCTION = len(NASTY) if IS_SWEEP else 5
NOTE_CHARS = 250_000 if IS_SWEEP else 125_000
NOTE_UNITS_MAX = NOTE_CHARS // 625

MODEL = of_model("")
OTHER = "Anna lives in Lisbon, and the gate code is 4711."


def zone(_: int) -> int:
    return 3_600_000


def strip(text: str) -> echo_filter.EchoResult:
    shown = echo_filter.HandoutLog()
    shown.record("", "1", text[: len(text) // 4])
    shown.record("", "2", OTHER)
    return echo_filter.strip_echoes(text, shown.handouts(""))


def marks_in(text: str) -> list[tuple[int, int]]:
    return [(at, at + 1) for at in range(0, len(text), 2)]


def parse_formats(text: str) -> None:
    for suffix in markup.FORMAT_SUFFIXES:
        with contextlib.suppress(FileFormatError):
            parse_format(text, suffix, "note")


def judged(*texts: str) -> TaskInputs:
    return TaskInputs(tuple(f"{text}." for text in texts))


# The text functions that take more than texts, and how each is called.
RUNS: dict[str, Callable[[str], object]] = {
    "memory_role.role_signs": lambda text: memory_role.role_signs(text, None),
    "resume.is_done": lambda text: resume.is_done(text, [resume.compared_words(text), resume.compared_words(OTHER)]),
    "changes.pair_features": lambda text: changes.pair_features(OTHER, text, None),
    "changes.word_features": lambda text: [*changes.word_features(OTHER, text)],
    "statement_reading.matched": lambda text: statement_reading.matched(text, text.split()),
    "statement_reading.unmet_specific": lambda text: statement_reading.unmet_specific(text, [OTHER, text[1:]], OTHER),
    "answer_judge.answer_features": lambda text: answer_judge.answer_features(
        text, [answer_judge.AnswerCandidate(text, text, 0.5)]
    ),
    "time_placement.cancelled_by": lambda text: time_placement.cancelled_by(text, [(text.split(), False)]),
    "memory_role.personal_odds": lambda text: memory_role.personal_odds(text, None),
    "question_answer.quoted_text": lambda text: question_answer.quoted_text(text, OTHER),
    "write_plan.score": lambda text: write_plan.score(text, OWN_POLICY, None, None),
    "write_plan.salience_of": lambda text: write_plan.salience_of(text, OWN_POLICY),
    "chunking.estimate_tokens": lambda text: chunking.estimate_tokens([text]),
    "chunking.split_text": lambda text: chunking.split_text(text, chunking.estimate_tokens),
    "facts.query_entities": lambda text: facts.query_entities(text, bool),
    "parts.turn_parts": lambda text: list(parts.turn_parts("user", text, None, "line 1")),
    "parts.damaged_part": lambda text: parts.damaged_part("line 1", ValueError(text)),
    "parts.decoder_message": lambda text: parts.decoder_message(ValueError(text)),
    "claude_code.parse": lambda text: list(
        claude_code.parse([("line 1", transcript_files.claude("s", [transcript_files.asked(text)]))], zone)
    ),
    "codex.parse": lambda text: list(
        codex.parse([("line 2", transcript_files.jsonl([transcript_files.codex_message("assistant", text)]))], zone)
    ),
    "chatgpt.parse": lambda text: list(chatgpt.parse("[0]", text.encode(errors="replace"), zone)),
    "clauses.words_of": lambda text: clauses.words_of(text, 0),
    "cleaning.clean_tags": lambda text: cleaning.valid_tags(text.split()),
    "cleaning.valid_tags": lambda text: cleaning.valid_tags(text.split(",")),
    "time_mentions.find_mentions": lambda text: time_mentions.find_mentions(text, AT, zone),
    "time_mentions.said_at": lambda text: time_mentions.said_at(text, AT - 1, AT, zone),
    "time_mentions.named_times": lambda text: time_mentions.named_times(text, AT - 1, AT, zone),
    "question_times.read_question_time": lambda text: question_times.read_question_time(text, AT, zone),
    "time_mentions.begins_at": lambda text: time_mentions.begins_at(text, AT, zone),
    "time_mentions.find_event_time": lambda text: time_mentions.find_event_time(text, AT, zone),
    "lexical_ranker.overlap": lambda text: lexical_ranker.overlap(text, [text, OTHER]),
    "thresholds.is_similar": lambda text: thresholds.is_similar(text, text + ".", 0.9, MODEL),
    "deduplication.find_relations": lambda text: deduplication.find_relations(
        text, "", AT, [deduplication.Neighbour(sample_memory(1, text[:-1] or "x"), 0.9)], MODEL
    ),
    "echo_filter.strip_echoes": strip,
    "query_expansion.expansion_terms": lambda text: expansion_terms(text.split(), [], lambda _: 1.0),
    "front_matter.read_front_matter": lambda text: read_front_matter(["---", *text.split("\n"), "---"]),
    "folder_files.read_rules": lambda text: is_ignored([("", read_rules(text))], "a/b/c.md", is_folder=False),
    "folder_files.is_ignored": lambda text: is_ignored([("", read_rules("*.tmp\na/**/b\n"))], text, is_folder=False),
    "classification.about_now": lambda text: about_now(text, words_in(text)),
    "markup.parse": lambda text: [markup.parse(text, suffix, "note") for suffix in (".md", ".org", ".rst", ".txt")],
    "markup.parse_markdown": lambda text: markup.parse_markdown(text.split("\n"), "", "note"),
    "entities.find_entity": lambda text: entities.find_entity(text, languages.words_of(text)),
    "note_dates.date_in_heading": lambda text: note_dates.date_in_heading(text, zone),
    "note_dates.date_in_logseq": lambda text: note_dates.date_in_logseq(text, zone),
    "note_dates.date_in_name": lambda text: note_dates.date_in_name(text, zone),
    "note_dates.date_in_org": lambda text: note_dates.date_in_org(text, zone),
    "file_formats.parse_format": parse_formats,
    "note_diff.resolve_link": lambda text: note_diff.resolve_link(text, "a/b.md", ["a/c.md", text]),
    "memory_cues.cues_of": lambda text: cues_of(text, MemoryFacts()),
    "query_expansion.added_words": lambda text: added_words((text, text[::-1]), OTHER),
    "summarize.shorten_sources": lambda text: summarize.shorten_sources([f"Anna. {text}"], 0),
    "topic_names.opening_words": lambda text: opening_words([text]),
    "topic_names.telling_words": lambda text: telling_words([text, text], lambda word: TermStatistics(word, 1), 9),
    "faithfulness.unsupported_specific": lambda text: faithfulness.unsupported_specific(OTHER, [text]),
    "faithfulness.rejection_of": lambda text: faithfulness.rejection_of(f"{text} 4711", [OTHER]),
    "faithfulness.loss_of": lambda text: faithfulness.loss_of([OTHER, f"{text} 4711"], text),
    "extraction.unsupported_reason": lambda text: extraction.unsupported_reason(
        OTHER, extraction.read_source(f"{text} 4711")
    ),
    "triage.gate_by_rule": lambda text: triage.gate_by_rule(judged(text)),
    "triage.triage_by_rule": lambda text: triage.triage_by_rule(judged(text)),
    "triage.rate_by_rule": lambda text: triage.rate_by_rule(judged(text)),
    "faithfulness.distortion_of": lambda text: faithfulness.distortion_of(f"{OTHER} {OTHER}", [text]),
    "faithfulness.omission_of": lambda text: faithfulness.omission_of([OTHER], f"{text} 4711"),
    "faithfulness.contradiction_between": lambda text: faithfulness.contradiction_between(text, OTHER),
    "merge.contradiction_in": lambda text: merge.contradiction_in([OTHER, text]),
    "merge.rejection_of_replacement": lambda text: merge.rejection_of_replacement(OTHER, [OTHER, text[::4]]),
    "merge.unite_texts": lambda text: merge.unite_texts([text, text[: CHARACTERS_MAX // 2], text[: CHARACTERS_MAX]]),
    "summarize.rejection_of_digest": lambda text: summarize.rejection_of_digest(OTHER, [f"{text}. {OTHER}"]),
    "summarize.select_sentences": lambda text: summarize.select_sentences([OTHER, text], 250, 3),
    "audit.audit_by_rule": lambda text: audit.audit_by_rule(judged(text, OTHER)),
    "reconcile.reconcile_by_rule": lambda text: reconcile.reconcile_by_rule(judged(text, OTHER)),
    "reconcile.validate_reconciliation": lambda text: [
        reconcile.validate_reconciliation(reconcile.ReconcileAnswer(each), judged(text, OTHER))
        for each in ("absorb", "update")
    ],
    "reconcile.inherited_text": lambda text: reconcile.inherited_text(text, text[: len(text) // 4]),
    "merging.differ": lambda text: merging.differ(text[::2], text[1::2]),
    "reconcile.holds": lambda text: reconcile.holds(OTHER, text),
    "policies.salience_source_l": salience_source_l,
    "pronouns.in_third_person": lambda text: in_third_person(clauses.words_of(text, 0), "Anna"),
    "classification.classify": lambda text: classify(text, session_id="1", role="user"),
    "salience.measure_salience": salience.measure_salience,
    "salience.find_number": lambda text: salience.find_number(text, languages.words_of(text)),
    "salience.find_technical_term": lambda text: salience.find_technical_term(text, languages.words_of(text)),
    "secrets.mask_secrets": lambda text: secrets.mask_secrets(text, b"k" * 32),
    "result_selection.is_copy": lambda text: is_copy(sample_memory(1, text), sample_memory(2, OTHER), 0.99, MODEL),
    "excerpts.select_excerpt": lambda text: excerpts.select_excerpt(text, "how many a is it", marks_in(text)),
    "excerpts.features": lambda text: excerpts.features(
        text, "how many a is it", excerpts.sentence_spans(text), marks_in(text), None
    ),
    "excerpts.join": lambda text: excerpts.join(text, excerpts.sentence_spans(text), marks_in(text)),
    "context_block.render_line": lambda text: context_block.render_line(
        context_block.ContextLine("1" * 36, "semantic", "", text, location=(text, text), author="agent")
    ),
    "context_block.located_lines": lambda text: [*context_block.located_lines(f"a\n{text}\nb", [text])],
    "context_block.listed_line": lambda text: context_block.listed_line("Facts", text.split(",")),
    "resume.fill_profile": lambda text: resume.fill_profile({"Facts": [("1", text), ("2", text)]}),
    "context_block.render_m_block": lambda text: context_block.render_m_block(
        [context_block.ContextItem("1", "fact", 0.5, (), text, is_preference) for is_preference in (True, False)],
        "auto", context_block.ContextProfile((text,)),
    ),
    "profiles.lift": lambda text: profiles.lift(
        [profiles.UsedMemory(sample_memory(1, text), Usage(id=sample_id(1)))], profiles.EntryIndex(()),
        lambda: sample_id(2), AT, 0, "user",
    ),
    "resume.fitting_triggers": lambda text: resume.fitting_triggers(text.split(",")),
    "resume.fill_section": lambda text: resume.fill_section(
        [resume.ResumeEntry(context_block.ContextLine("1", "semantic", "", text), text)], 1, 0
    ),
    "markdown_export.core_page": lambda text: markdown_export.core_page(
        {"default": [markdown_export.ExportedMemory("", text)]}
    ),
    "markdown_export.topics_page": lambda text: markdown_export.topics_page(
        {"default": [markdown_export.ExportedTopic("kb1", text, 1, 0)]}
    ),
    "excerpts.best_sentence": lambda text: excerpts.best_sentence(text, marks_in(text)),
    "excerpts.cut_to_lines": lambda text: excerpts.cut_to_lines(text, (0, min(10, len(text))), 400, len),
    "excerpts.cut_sentence": lambda text: excerpts.cut_sentence(text, (0, len(text)), marks_in(text)),
    "excerpts.whole_words": lambda text: excerpts.whole_words(text, marks_in(text)),
    "question_times.parse_time_span": lambda text: question_times.parse_time_span(text, AT, zone),
    "canonical.difference": lambda text: canonical.difference(text, OTHER),
    "canonical.obviously_differ": lambda text: canonical.obviously_differ(
        canonical.unchanged_words(text), canonical.unchanged_words(OTHER)
    ),
}  # fmt: skip
# Functions whose texts are names, ids, words or numbers, or parts of what another function here has read.
NO_TEXTS = frozenset((
    "tasks.grade", "tasks.key_of_model", "tasks.parse_answer",
    "compression.common", "compression.compress_session", "compression.first_tags", "compression.hidden_by",
    "profiles.entry_of", "context_block.grouped", "review.move_facts", "review.standing_decisions",
    "abstention.of_model", "attribute_claims.speaker_of", "chunking.bounded_count", "chunking.split_blocks",
    "date_patterns.has_time_words", "date_words.one_of",
    "english.is_adverb", "english.is_base", "english.is_finite", "english.is_inflected",
    "english.third_person", "languages.identify_language", "erasure.erase_memory", "erasure.plan_erasure",
    "erasure.plan_without_derived", "erasure.without_chunks", "erasure.without_references",
    "buffer.trash", "review.archive",
    "explanations.strongest_reasons", "explanations.subject_of", "explanations.group_sums", "facts.decided_facts",
    "folder_files.match_rules", "import_plan.decide_import",
    "late_interaction.token_weights", "lexicon.alternation", "lexicon.groups", "lexicon.lines", "lexicon.listed",
    "lexicon.meanings",
    "lexicon.numbered", "lexicon.patterns", "lexicon.words", "mutations.is_changed", "mutations.move_to_trash",
    "mutations.new_version", "mutations.revert", "mutations.store_new", "mutations.supersede",
    "note_diff.manifest_for_texts", "note_sync.decide_note_changes", "note_sync.plan_missing_note",
    "note_sync.plan_note", "thresholds.jaccard", "policies.default_importance", "salience.rarest",
    "folder_files.reading_order", "session_records.recorded_sessions",
    "store_merge.edge_between", "store_merge.merge_memory", "thresholds.of_model", "thresholds.relevance",
    "tiers.condensed", "tiers.in_tier",
    "tokens.iso_date", "tokens.multiply_digits", "tokens.unit_of", "versions.revert_effect", "versions.reverted_seqs",
    "versions.undone_seqs", "write_plan.discard", "write_plan.is_perhaps_outdated",
    "write_plan.merge_into_neighbour", "write_plan.relate",
    "blocks.fence_end", "blocks.indented_end", "blocks.list_end", "blocks.block_to",
    "blocks.consists_of", "blocks.paragraph_end", "blocks.read_items", "blocks.rows_end",
    "facts.find_chains", "versions.is_replaced", "write_plan.new_facts", "write_plan.put_facts",
    "replacing.merge_operation", "replacing.supersede_operation",
    "markup_blocks.read_markdown_at", "markup_blocks.read_plain_at", "markup_blocks.visible_lines",
    "markup_blocks.org_metadata", "markup_blocks.read_org_at",
    "html_text.lines_without_html", "markup.title_passage", "ranking_features.named_share",
    "markup_blocks.read_rst", "memory_cues.cue", "session_records.recorded_sessions",
    "tiers.condensed", "tiers.in_tier",
    "topic_nodes.co_occurring_pairs", "topic_nodes.moved_edges", "state.retagged",
    "mutations.rejection", "mutations.undo_changes", "review.with_former_values", "review.decided",
    "review.needs_approval", "review.proposal", "mutations.rejected", "review.is_rejected",
    "review.approved_operation", "review.is_unchanged", "audit.plan_audit", "review.ids_of",
    "core_admission.promotion_to_core", "buffer.evict",
    "merge.share_words", "replacing.distil_operation", "replacing.merge_operation",
    "replacing.supersede_operation", "write_plan.new_facts",
))  # fmt: skip


def text_functions() -> dict[str, Callable[[str], object] | None]:
    """Every public function of mnemo_core that takes a text, as one that takes nothing else; None: not known how."""
    found: dict[str, Callable[[str], object] | None] = {}
    for module in modules():
        area, _, name = module.__name__.partition(".")
        name = name.rpartition(".")[2]
        for function, value in vars(module).items() if area == "mnemo_core" else ():
            place = f"{name}.{function}"
            plain = inspect.unwrap(value) if callable(value) else None
            if function.startswith("_") or not inspect.isfunction(plain) or plain.__module__ != module.__name__:
                continue
            needed = [each for each in inspect.signature(plain).parameters.values() if each.default is each.empty]
            # What takes a match is driven by the function that searches.
            takes_text = any("str" in str(each.annotation).replace("re.Match[str]", "") for each in needed)
            if place in RUNS or (takes_text and place not in NO_TEXTS):
                found[place] = RUNS.get(place) or _with_texts(value, needed)
    return found


def _with_texts(function: Callable[..., object], needed: list[inspect.Parameter]) -> Callable[[str], object] | None:
    """The function with the text for each of its arguments; None where it takes anything else."""
    if all(each.annotation is str or str(each.annotation).startswith("str |") for each in needed):
        return lambda text: function(*[text] * len(needed))
    return None


FOUND = text_functions()
FUNCTIONS = {place: run for place, run in FOUND.items() if run}
REFUSALS = (cleaning.InvalidTextError,)


def run_of(place: str) -> Callable[[str], object]:
    def run(text: str) -> None:
        try:
            FUNCTIONS[place](text)
        except REFUSALS:
            pass

    return run


def chosen(number: int, most: int) -> list[str]:
    """Some of the pieces, for each number others, so that many functions see all of them."""
    step = max(len(NASTY) // most, 1)
    return list(dict.fromkeys((*USUAL, *NASTY[number % step :: step][:most])))


def test_no_pattern_costs_more_than_the_length_of_its_text() -> None:
    assert len(patterns()) > 700
    found: list[CostGrowth | None] = []
    for each in patterns():
        run = drive(each)
        found += [cost_growth_of_piece(each.place, run, piece) for piece in pieces_of(each.pattern, PIECES_OF_PATTERN)]
    slow = [str(each) for each in found if each]
    assert not slow, "\n".join(slow)


def test_patterns_that_are_compiled_on_first_use_are_driven() -> None:
    """Of a name, of a table, and of the fields of a table: each of them is found before anything has used it."""
    driven = {each.place for each in patterns()}
    assert isinstance(tokens._TOKEN, LazyPattern)
    assert {f"mnemo_core.text.{name}" for name in ("tokens._TOKEN", "text_features._CJK_PATTERNS")} <= driven
    assert any(place.endswith(".FRAMES") for place in driven)


@pytest.mark.parametrize("place", sorted(FUNCTIONS))
def test_no_text_function_costs_more_than_the_length_of_its_text(place: str) -> None:
    number = sorted(FUNCTIONS).index(place)
    found = [cost_growth_of_piece(place, run_of(place), piece) for piece in chosen(number, PIECES_OF_FUNCTION)]
    slow = [str(each) for each in found if each]
    assert not slow, "\n".join(slow)


def test_every_function_that_takes_a_text_is_driven() -> None:
    unknown = sorted(FOUND.keys() - FUNCTIONS.keys())
    assert not unknown, f"say in RUNS how they are called, or enter them in NO_TEXTS: {unknown}"


def test_every_function_that_is_called_in_a_way_of_its_own_exists() -> None:
    known = {f"{module.__name__.rpartition('.')[2]}.{name}" for module in modules() for name in vars(module)}
    assert set(RUNS) <= known
    assert known >= NO_TEXTS


def test_a_pattern_is_made_where_this_test_finds_it() -> None:
    """The argument of `re` within a function is a text that stands there, or made once and kept in a table."""
    unseen = [
        place
        for place, call, within in uses_of_re()
        if within and not (call.args and isinstance(call.args[0], ast.Constant)) and place.split(":")[0] not in MADE
    ]
    assert not unseen


# Where patterns are made in a function: tables at import, which are found there, two of what a person wrote, and two of
# a name or a comment sign that is escaped.
MADE = frozenset(
    {
        "mnemo_core.text.dates.date_patterns", "mnemo_core.text.dates.question_times",
        "mnemo_core.text.query_features", "mnemo_core.text.secrets",
        "mnemo_core.text.note_secrets",
        "mnemo_core.ingest.attributes.attribute_claims", "mnemo_core.ingest.classification",
        "mnemo_core.text.preferences",
        "mnemo_core.documents.folder_files", "mnemo_core.transfer.importers", "mnemo_core.documents.note_dates",
        "mnemo_core.text.lazy_patterns", "mnemo_core.ingest.memory_cues",
        "mnemo_client.cli.agent_setup.editors", "mnemo_client.cli.doctor.support_bundle",
    }
)  # fmt: skip


SUFFIXES = (".md", ".org", ".rst", ".txt", ".html", ".csv", ".pdf")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_long_note_is_read_and_cut_in_time(suffix: str) -> None:
    def read(text: str) -> None:
        parse = parse_format if suffix in markup.FORMAT_SUFFIXES else markup.parse
        with contextlib.suppress(FileFormatError):
            chunking.split_blocks(parse(cleaning.remove_private_spans(text, keep_lines=True), suffix, "note").blocks)
        note_secrets.find_note_secrets(text)

    pieces = NASTY if IS_SWEEP else NASTY[SUFFIXES.index(suffix) * 4 :: 32]
    lengths = (NOTE_CHARS // 4, NOTE_CHARS // 2, NOTE_CHARS)
    found = [
        cost_growth(suffix, read, [repeated(piece, length) for length in lengths], NOTE_UNITS_MAX, repr(piece))
        for piece in pieces
    ]
    slow = [str(each) for each in found if each]
    assert not slow, "\n".join(slow)


@pytest.mark.parametrize("place", sorted(FUNCTIONS))
def test_no_nasty_piece_raises(place: str) -> None:
    run, number = run_of(place), sorted(FUNCTIONS).index(place)
    for at, piece in enumerate(NASTY, number):
        texts = (piece, piece * 3, f"a {piece}\n{piece} 1.")
        for text in texts if IS_SWEEP else (texts[at % 3],):  # of another piece in another way, and by another function
            run(text)
    for piece in chosen(number, len(NASTY) if IS_SWEEP else 20):
        run(repeated(piece, 200))


TEXTS = st.text() | st.lists(st.sampled_from(NASTY), max_size=12).map("".join) | st.lists(
    st.sampled_from(NASTY) | st.text(max_size=4), max_size=12
).map(" ".join)  # fmt: skip


@settings(max_examples=1000 if IS_SWEEP else 60, deadline=None)
@given(TEXTS)
def test_no_text_raises_in_any_text_function(text: str) -> None:
    for place in FUNCTIONS:
        run_of(place)(text)


@pytest.mark.parametrize(
    ("pattern", "piece", "is_slow"), [(r"a*b", "a", True), (r"(?<!a)a*+b", "a", False), (r"^\s*\[", "\n", True)]
)
def test_growth_is_seen_where_it_is(pattern: str, piece: str, is_slow: bool) -> None:
    run = drive(Pattern("", re.compile(pattern, re.MULTILINE)))
    assert (cost_growth_of_piece("", run, piece) is not None) == is_slow
    assert piece in pieces_of(re.compile(pattern), 5)


def test_a_busy_moment_is_no_growth() -> None:
    calls = itertools.count()

    def read(text: str) -> int:
        return sum(ord(each) for each in text * (60 if next(calls) % 7 == 1 else 20))

    assert cost_growth_of_piece("", read, "a") is None

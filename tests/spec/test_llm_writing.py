"""The tasks that write: texts that replace their sources keep all of them, digests say nothing else. SPEC 12.2"""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemo_core.llm.faithfulness import contradiction_between, distortion_of, loss_of, omission_of
from mnemo_core.llm.grammar import CHARACTERS_MAX
from mnemo_core.llm.merge import (
    INSERT_MERGE,
    MERGE,
    DistilledEntry,
    DistilledTopic,
    MergedText,
    unite_overlapping,
    unite_texts,
    validate_distilled,
    validate_merge,
)
from mnemo_core.llm.registry import TASKS
from mnemo_core.llm.summarize import (
    CONDENSED_CHARACTERS,
    LINE_CHARACTERS,
    LINES_MAX,
    SUMMARIZE,
    CompressedResume,
    CondensedText,
    ResumeLine,
    SummaryAnswer,
    condense_by_sentences,
    extract_summary,
    select_lines,
    validate_condensed,
    validate_resume,
    validate_summary,
)
from mnemo_core.llm.tasks import AnyTask, Probe, TaskInputs
from mnemo_core.text.languages import sentences

SOURCES = (
    "Anna has 3 cats and Bob has 4 dogs. Anna pays Bob.",
    "The front door is closed, the back door is open.",
    "Smoking is not allowed in the house.",
    "Anna moved to Berlin on 5 January 2019. She works at the zoo.",
    "Clara works at the bank.",
    "The backup may fail in winter.",
)


@pytest.mark.parametrize(
    "text",
    [
        "Anna has three cats.",
        "Bob has 4 dogs, and Anna has 3 cats.",
        "The back door is open.",
        "Smoking isn't allowed.",
        "Anna moved to Berlin in 2019 and works at the zoo.",
        "The backup may fail.",
        *SOURCES,
    ],
)
def test_a_text_that_says_what_its_sources_say_is_faithful(text: str) -> None:
    assert distortion_of(text, SOURCES) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Anna has 4 cats.", "the number '4' belongs to something else"),
        ("Anna pays Bob, and Bob has 3 dogs.", "the number '3' belongs to something else"),
        ("Bob pays Anna.", "the names of 'bob pay anna' stand in another order"),
        ("The door in front is open.", "stands for its opposite"),
        ("Smoking is allowed in the house.", "no word stands for 'allowed'"),
        ("The backup fails in winter.", "'back wint' is not negated, hedged or asked as its source is"),
        ("Anna does not work at the zoo.", "'anna work zoo' is not negated, hedged or asked as its source is"),
        ("Anna must pay Bob.", "'anna pay bob' is not negated, hedged or asked as its source is"),
        ("Anna works at the bank.", "no passage has all of ['anna', 'bank', 'work']"),
        ("The key is under the mattress.", "no word stands for 'key'"),
    ],
)
def test_a_distortion_is_named(text: str, reason: str) -> None:
    assert reason in distortion_of(text, SOURCES)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Tom hates noise. Anna has no cats in Berlin.", ""),
        ("Anna has no cats in Berlin.", "of a source, no word stands for 'hates'"),
        ("Tom hates noise. Anna has cats in Berlin.", "of a source, 'anna cat berl' is not negated, hedged or asked"),
    ],
)
def test_what_a_text_leaves_out_is_named(text: str, reason: str) -> None:
    found = omission_of(("Tom hates noise.", "Anna has no cats in Berlin."), text)
    assert found.startswith(reason)
    assert bool(found) == bool(reason)


@pytest.mark.parametrize(
    ("one", "other", "is_contradiction"),
    [
        ("Anna has 3 cats.", "Anna has 4 cats in Berlin.", True),
        ("The lamp is on.", "The lamp is off.", True),
        ("Anna likes tea.", "Anna does not like tea.", True),
        ("Tom is our gardener.", "Tom is no longer our gardener.", True),
        ("The meeting is on 5 May.", "The meeting with Dr. Weber is on 6 May.", True),
        ("Eva lives in Porto.", "Eva lives in Lisbon.", True),
        ("Eva lives in Porto.", "Eva lives in Porto near the river.", False),
        ("Anna has 3 cats.", "Anna has three cats.", False),
        ("Anna has 3 cats.", "Bob has 4 cats.", False),
        ("Anna has cats.", "Anna has 3 cats.", False),
        ("The rent is 900 EUR.", "The flat has 3 rooms.", False),
    ],
)
def test_texts_that_contradict_each_other_are_kept_apart(one: str, other: str, *, is_contradiction: bool) -> None:
    assert bool(contradiction_between(one, other)) is is_contradiction
    assert (unite_texts([one, other]) == "") is is_contradiction


@pytest.mark.parametrize(
    ("texts", "united"),
    [
        (["Anna works at the zoo.", "Anna works at the zoo."], "Anna works at the zoo."),
        (["Tom prefers tea.", "Tom prefers tea in the morning."], "Tom prefers tea in the morning."),
        (["Tom buys tea.", "Tom only buys tea in spring."], "Tom only buys tea in spring. Tom buys tea."),
        (["Milk is in the fridge", "Anna lives in Berlin."], "Anna lives in Berlin. Milk is in the fridge"),
        (["The fridge is new and white", "Milk is in it."], "The fridge is new and white\nMilk is in it."),
        (["Bob pays Anna.", "Anna pays Bob."], "Anna pays Bob. Bob pays Anna."),
    ],
)
def test_a_union_has_each_sentence_that_the_longest_text_does_not_hold(texts: list[str], united: str) -> None:
    assert unite_texts(texts) == united


def test_G6_a_model_that_fails_never_lets_the_new_content_replace_the_old() -> None:
    old = "The deployment key is kept in the safe of Dr. Weber, box 12."
    new = "The deployment key is rotated on 1 March 2026."
    merged = INSERT_MERGE.fallback(TaskInputs((old, new))).text
    assert merged == f"{old} {new}"
    for answer in (new, old, "The deployment key.", f"{old} It is rotated.", f"{old} It is rotated in April 2026."):
        assert validate_merge(MergedText(answer), TaskInputs((old, new))) != ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Anna works at the zoo in Berlin, feeds the pandas and has 3 cats.", ""),
        ("Anna works at the zoo in Berlin and feeds the pandas.", "the number '3' of a source is lost"),
        ("Anna works at the zoo in Berlin. She has 3 cats.", "of a source, no word stands for 'feed'"),
        (
            "Anna works at the zoo in Bern, feeds the pandas and has 3 cats.",
            "the name 'bern' is in none of the sources",
        ),
        ("", "it merges nothing"),
        ("Anna works at the zoo. Anna works at the zoo.", "it says a sentence twice"),
    ],
)
def test_a_merged_text_keeps_all_of_its_sources_and_adds_nothing(text: str, reason: str) -> None:
    sources = ("Anna works at the zoo in Berlin.", "Anna works at the zoo and feeds the pandas. She has 3 cats.")
    for task in (MERGE, INSERT_MERGE):
        assert task.validate(MergedText(text), TaskInputs(sources)) == reason


def test_texts_too_long_for_one_stay_apart() -> None:
    texts = tuple("".join(f"Room {number} of house {name}. " for number in range(80)) for name in ("Anna", "Berta"))
    assert len(texts[0]) < CHARACTERS_MAX < len("".join(texts))
    assert unite_texts(texts) == ""
    assert validate_merge(MergedText(""), TaskInputs(texts)) == ""


NAMES = st.sampled_from(["Anna", "Bob", "Dr. Weber", "the server", "王小明", "Müller GmbH"])
FACTS = st.sampled_from(
    [
        "has {} cats",
        "never paid {} EUR",
        "moved on {} May 2024",
        "works in room {}",
        "met Bob {} times and left",
        "x-{}",
    ]
)
FACT = st.builds(lambda name, fact, number: f"{name} {fact.format(number)}", NAMES, FACTS, st.integers(0, 12))
PROSE = st.lists(FACT, min_size=1, max_size=5).map(". ".join) | st.lists(FACT, min_size=1, max_size=4).map("\n".join)
ANY_TEXT = PROSE | st.text(min_size=1, max_size=80).filter(lambda text: text.strip() != "")


@given(st.lists(ANY_TEXT, min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_a_union_loses_no_specific_adds_nothing_and_can_be_made_in_any_order_and_again(texts: list[str]) -> None:
    united = unite_texts(texts)
    assert len({unite_texts(order) for order in itertools.permutations(texts)}) == 1
    if not united:
        return
    assert loss_of(texts, united) == ""
    known = {" ".join(sentence.split()) for text in texts for sentence in sentences(text)}
    assert {" ".join(sentence.split()) for sentence in sentences(united)} <= known
    assert validate_merge(MergedText(united), TaskInputs(tuple(texts))) == ""
    assert unite_texts([united]) == united
    for text in texts:
        assert unite_texts([united, text]) == united


@given(st.lists(ANY_TEXT, min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_distilled_entries_replace_at_least_two_members_each_once_and_keep_them(texts: list[str]) -> None:
    answer = unite_overlapping(TaskInputs(tuple(texts)))
    assert validate_distilled(answer, TaskInputs(tuple(texts))) == ""
    numbers = [number for entry in answer.entries for number in entry.sources]
    assert len(numbers) == len(set(numbers))
    for entry in answer.entries:
        members = [texts[number - 1] for number in entry.sources]
        assert len(members) >= 2
        assert len(entry.text) >= max(len(member.strip()) for member in members)
        assert loss_of(members, entry.text) == ""


MEMBERS = (
    "Anna works at the zoo in Berlin.",
    "The milk is in the fridge.",
    "Anna works at the zoo and feeds the pandas.",
)
_BOTH = "Anna works at the zoo in Berlin and feeds the pandas."


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([((1, 3), _BOTH)], ""),
        ([], ""),
        ([((1,), MEMBERS[0])], "an entry replaces a single source"),
        ([((1, 3), _BOTH), ((1, 3), _BOTH)], "it replaces a source twice"),
        ([((1, 4), _BOTH)], "there is no source 4"),
        ([((1, 2, 3), f"{_BOTH} {MEMBERS[1]}")], "source 2 overlaps with no other of its entry"),
        ([((1, 3), f"{MEMBERS[0]} {MEMBERS[2]}")], "an entry is as long as all its sources together"),
        ([((1, 3), "Anna works at the zoo.")], "an entry is shorter than a source that it replaces"),
        ([((1, 3), _BOTH.replace("Berlin", "Munich"))], "the name 'munich' is in none of the sources"),
        ([((1, 3), _BOTH.replace("feeds", "eats"))], "no word stands for 'eat'"),
    ],
)
def test_distilled_entries_are_rejected_with_the_reason(
    entries: list[tuple[tuple[int, ...], str]], reason: str
) -> None:
    answer = DistilledTopic(tuple(DistilledEntry(*entry) for entry in entries))
    assert validate_distilled(answer, TaskInputs(MEMBERS)) == reason


def test_sources_of_which_one_says_all_of_another_are_distilled() -> None:
    members = TaskInputs((MEMBERS[0], _BOTH))
    assert validate_distilled(DistilledTopic(()), members) == "it unites nothing, but some sources overlap"
    assert unite_overlapping(members) == DistilledTopic((DistilledEntry((1, 2), _BOTH),))


def test_where_nothing_overlaps_nothing_is_distilled() -> None:
    assert unite_overlapping(TaskInputs(MEMBERS)) == DistilledTopic(())
    assert unite_overlapping(TaskInputs(MEMBERS[:2])) == DistilledTopic(())


TALK = "We talked about the weather again, as on every day, for quite a while."


def test_L27_a_summary_is_in_the_order_of_time_and_keeps_names_and_numbers() -> None:
    session = (TALK, "Anna bought 3 tickets to Rome.", *[TALK] * 4, "The flight leaves on 5 June 2024 at 07:40.", TALK)
    assert sentences(extract_summary(TaskInputs(session)).summary) == [TALK, session[1], session[6]]
    assert "two or three short sentences" in SUMMARIZE.instruction
    assert "names, numbers and dates" in SUMMARIZE.instruction


@pytest.mark.parametrize("source", ["...", "\u200b", "x" * 9000, "。" * 9000, "-" * 9000, "\n\n#"])
def test_L27_a_summary_is_never_empty(source: str) -> None:
    for answer in (extract_summary(TaskInputs((source,))).summary, condense_by_sentences(TaskInputs((source,))).text):
        assert answer.strip(" …")
    assert validate_summary(SummaryAnswer(" "), TaskInputs((source,))) == "it is blank"


def test_a_condensed_text_is_short_and_says_what_its_source_says() -> None:
    source = f"{TALK} " * 6 + "The proxy listens on port 8080. Tom must not restart it. " + f"{TALK} " * 6
    inputs = TaskInputs((source,))
    text = condense_by_sentences(inputs).text
    assert len(text) <= CONDENSED_CHARACTERS
    assert "port 8080" in text
    assert validate_condensed(CondensedText("Tom must not restart the proxy."), inputs) == ""
    for false in ("Tom must restart it.", "The proxy listens on port 8081.", "Marta must not restart it."):
        assert validate_condensed(CondensedText(false), inputs) != ""


def test_each_line_of_a_compressed_resume_stands_for_one_memory_and_the_rest_can_be_counted() -> None:
    memories = tuple(f"Memory {number} of the project is kept in box {number}. {TALK}" for number in range(20))
    lines = select_lines(TaskInputs(memories)).lines
    assert [line.source for line in lines] == list(range(1, LINES_MAX + 1))
    assert all(len(line.text) <= LINE_CHARACTERS for line in lines)
    inputs = TaskInputs(memories[:2])

    def verdict(*found: tuple[int, str]) -> str:
        return validate_resume(CompressedResume(tuple(ResumeLine(*line) for line in found)), inputs)

    assert verdict((2, "Memory 1 is kept in box 1."), (1, "Memory 0 is kept in box 0.")) == ""
    assert verdict((1, "Memory 1 is kept in box 1.")) == "the number '1' is in none of the sources"
    assert verdict((1, "box 0"), (1, "Memory 0")) == "it has two lines for a source"
    assert verdict((3, "box 0")) == "there is no source 3"
    assert verdict((1, "box 0\n[CORE] forged")) == "a line has a line break"
    assert verdict() == "it has no line"


WRITING_SITES = ("condense", "distill", "insert_merge", "merge", "resume_compress")
WRITING_TASKS = [task for task in TASKS if task.site in WRITING_SITES]


def test_G47_every_writing_site_has_a_task() -> None:
    assert tuple(sorted(task.site for task in WRITING_TASKS)) == WRITING_SITES


@pytest.mark.parametrize(
    ("task", "probe"), [(task, probe) for task in WRITING_TASKS for probe in task.probes], ids=lambda each: ""
)
def test_a_probe_needs_a_model_that_does_the_task(task: AnyTask, probe: Probe) -> None:
    fallback = task.fallback(probe.inputs)
    assert task.validate(fallback, probe.inputs) == ""
    if task.site not in ("merge", "insert_merge"):  # of which one asks for a wording that the fallback does not find
        assert probe.is_right(fallback)

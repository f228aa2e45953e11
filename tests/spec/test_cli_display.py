"""The display for a person: lines, colours, widths. SPEC 14."""

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_client.cli import terminal
from mnemo_client.cli.format.answers import (
    BEST_LINES_MAX,
    degraded_text,
    heading_trail,
    highlight_marks,
    hit_lines,
    location,
    recall_summary,
    time_lines,
)
from mnemo_client.cli.format.records import listed_lines, memory_lines, remember_line
from mnemo_client.cli.format.state import (
    config_lines,
    model_lines,
    notes_lines,
    rate_text,
    remaining_work_lines,
    size_lines,
    status_lines,
)
from mnemo_client.cli.format.units import duration_text, local_date, percent, short_path, size_text
from mnemo_client.cli.terminal import Terminal, TextStyle, cell_width, table
from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.retrieval import QuestionTimeView
from mnemo_client.protocol.status import (
    CatalogueModel,
    ConfigAnswer,
    ConfigValue,
    ModelsAnswer,
    ModelStatus,
    NetworkStatus,
    NotesRootStatus,
    NotesStatus,
    SiteGrade,
    SkippedFile,
)
from tests.support.stub_daemon import ID, NOON, Screen, best, note, recall_answer, recalled, status, view

pytestmark = pytest.mark.usefixtures("utc")

HERE, HOME = Path("/w/app"), Path("/h/ines")
PLAIN = TextStyle()
COLOUR = TextStyle(colour=True, width=60)


# Small things


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KB"),
        (84_200_000, "84.2 MB"),
        (120_000_000, "120 MB"),
        (2**50, "1125.9 TB"),
    ],
)
def test_sizes_read_as_people_say_them(count: int, shown: str) -> None:
    assert size_text(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-1, "0 s"), (59.9, "59 s"), (60, "1 min 0 s"), (11_420, "3 h 10 min"), (356_400, "4 d 3 h")],
)
def test_spans_show_their_two_largest_units(seconds: float, shown: str) -> None:
    assert duration_text(seconds) == shown


def test_a_hundred_percent_means_all() -> None:
    assert [percent(share) for share in (0.0, 0.4299, 0.9999, 1.0)] == ["0%", "42%", "99%", "100%"]


def test_a_time_that_no_calendar_has_is_shown_as_its_number() -> None:
    assert local_date(NOON) == "2025-12-01"
    assert local_date(10**18) == "1000000000000000000 ms"


def test_paths_are_shown_from_here_or_from_home_where_that_is_shorter() -> None:
    assert short_path("/w/app/docs/a.md", HERE, HOME) == "docs/a.md"
    assert short_path("/h/ines/notes/a.md", HERE, HOME) == "~/notes/a.md"
    assert short_path("/etc/a.md", HERE, HOME) == "/etc/a.md"
    assert short_path("/w/app/docs/a.md", None, HOME) == "/w/app/docs/a.md"
    assert short_path("/h/ines/notes/a.md", None, HOME) == "~/notes/a.md"
    assert short_path("/w/app", HERE, HOME) == "/w/app"
    assert short_path("/h/ines/notes", HOME / "notes", HOME) == "~/notes"


def test_stored_text_cannot_drive_the_terminal() -> None:
    evil = "a\x1b[31mb\x07c\rd\x9be\u202ef\u2028g\ud800"
    shown = terminal.sanitize(evil)
    assert shown == "a�[31mb�c d�e�f�g�"
    assert len(shown) == len(evil)  # one for one, so that marks still stand where they stood
    assert terminal.sanitize("a\nb\tc", lines=True) == "a\nb\tc"
    assert terminal.sanitize("a\nb\tc") == "a b c"


def test_a_long_path_leaves_half_of_a_listed_line_to_the_text() -> None:
    deep = note("/w/app/projects/2026/decisions/0007-blue-green-deployment-of-all-services.md", lines=(2, 2))
    memories = [recalled(), recalled(note=deep, content="We deploy in blue and green.")]
    lines = listed_lines(memories, TextStyle(width=60), HERE, HOME)
    assert lines == [
        "1  2025-12-01  c0ffee01                  The key is with In…",
        "2  2025-12-01  …nt-of-all-services.md:2  We deploy in blue…",
    ]
    undated = recalled(note=note(lines=(2, 2), dated=False))
    assert listed_lines([undated], TextStyle(), HERE, HOME) == [
        "1              docs/deploy.md:2  The key is with Ines."
    ], "the time of a file is not shown as a day on which something happened"
    whole = listed_lines(memories, TextStyle(), HERE, HOME)[1]
    assert "projects/2026/decisions/0007-blue-green-deployment-of-all-services.md:2" in whole


def test_json_escapes_what_could_control_a_terminal_and_stays_the_same_value() -> None:
    value = {"text": "a\x1b[31m\x7f\x85\x9be\u202ef\u2028g 台所 é"}
    shown = terminal.escape_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert shown == '{\n "text": "a\\u001b[31m\\u007f\\u0085\\u009be\\u202ef\\u2028g 台所 é"\n}'
    assert json.loads(shown) == value


def test_wide_characters_take_two_columns_and_colour_takes_none() -> None:
    assert terminal.cell_width("台所") == 4
    assert terminal.cell_width("e\u0301") == 1
    assert terminal.cell_width("\x1b[1mab\x1b[0m") == 2
    assert terminal.clip("台所の話", 5) == "台所…"
    assert terminal.table([["台所", "x"], ["abc", "y"]]) == ["台所  x", "abc   y"]


@pytest.mark.parametrize(
    ("text", "width", "lines", "shown"),
    [
        ("one two three", None, 3, ["one two three"]),
        ("one two three", 8, 3, ["one two", "three"]),
        ("one two three", 7, 3, ["one two", "three"]),
        ("abcdefghij", 4, 3, ["abcd", "efgh", "ij"]),
        ("台所の話", 4, 3, ["台所", "の話"]),
        ("one two three four", 5, 2, ["one", "two"]),
        ("", 8, 3, []),
    ],
)
def test_text_breaks_at_spaces_and_inside_words_only_where_it_must(
    text: str, width: int | None, lines: int, shown: list[str]
) -> None:
    expected = [""] if text == "" and width is None else shown
    assert [text[start:end] for start, end in terminal.wrap(text, width, lines)] == expected


# Recall


def test_a_hit_shows_its_number_score_place_heading_date_and_best_sentence() -> None:
    sentence = best("To roll back, run make rollback.", (3, 7), (23, 31), line=44)
    hit = recalled(note=note(), best=sentence)
    assert list(hit_lines([hit], PLAIN, HERE, HOME)) == [
        "1  0.82  docs/deploy.md:44 · Deploy › Rollback · 2025-12-01",
        "         To *roll* back, run make *rollback*.",
    ]


def test_the_day_of_a_daily_note_is_shown_once() -> None:
    diary = note("/w/app/docs/2025-12-01.md", title="2025-12-01", headings=[])
    assert next(hit_lines([recalled(note=diary)], PLAIN, HERE, HOME)) == "1  0.82  docs/2025-12-01.md:40 · 2025-12-01"


def test_a_preference_is_said_once_of_a_memory() -> None:
    memory = recalled(kind="procedural", category="preference", form="preference")
    kinds = [line.split(maxsplit=1)[1] for line in memory_lines(memory, PLAIN, HERE, HOME) if line.startswith("kind")]
    assert kinds == ["procedural · preference"]


def test_a_memory_without_a_note_shows_the_end_of_its_id_and_its_speaker() -> None:
    lines = list(hit_lines([recalled(speaker="Ines")], PLAIN, HERE, HOME))
    assert lines == ["1  0.82  c0ffee01 · Ines · 2025-12-01", "         The key is with Ines."]


def test_a_replaced_value_is_shown_as_what_was() -> None:
    lines = list(hit_lines([recalled(was=True)], PLAIN, HERE, HOME))
    assert lines[0] == "1  0.82  c0ffee01 · was, 2025-12-01"


def test_what_lies_in_the_time_that_is_named_stands_above_a_line() -> None:
    inside, outside = recalled(inside=True, about=NOON), recalled(inside=False)
    lines = list(hit_lines([inside, inside, outside, outside], PLAIN, HERE, HOME))
    heads = [line for line in lines if line.startswith(("1", "2", "3", "4", "not"))]
    assert [line[:3] for line in heads] == ["1  ", "2  ", "not", "3  ", "4  "]
    assert "not in this time:" in lines
    assert f"about {local_date(NOON)}" in heads[0]
    assert "not in this time:" not in list(hit_lines([outside, outside], PLAIN, HERE, HOME))
    assert "not in this time:" not in list(hit_lines([recalled(), recalled()], PLAIN, HERE, HOME))


def test_the_time_that_is_named_is_the_head_of_the_answers() -> None:
    time = QuestionTimeView(text="2 to 8 November (last week): 9 memories")
    assert time_lines(time, PLAIN) == ["2 to 8 November (last week): 9 memories", ""]
    assert time_lines(None, PLAIN) == []
    assert time_lines(QuestionTimeView(order="last"), PLAIN) == []


def test_a_long_trail_loses_its_first_headings_on_a_narrow_terminal() -> None:
    hit = recalled(note=note(title="A title of many words", headings=["Some part of it", "Rollback"]))
    lines = list(hit_lines([hit], TextStyle(width=60), HERE, HOME))
    assert lines[0] == "1  0.82  docs/deploy.md:40 · … › Rollback · 2025-12-01"


def test_a_heading_that_is_longer_than_the_line_breaks_at_spaces_below_itself() -> None:
    hit = recalled(
        note=note(title="How", headings=["How the whole fleet of ferries is put back to the release of before"])
    )
    lines = list(hit_lines([hit], TextStyle(width=60), HERE, HOME))
    assert lines[:3] == [
        "1  0.82  docs/deploy.md:40 · … › How the whole fleet of",
        "         ferries is put back to the release of before ·",
        "         2025-12-01",
    ]
    painted = list(hit_lines([hit], TextStyle(colour=True, width=60), HERE, HOME))
    assert max(map(terminal.cell_width, painted)) <= 60


def test_a_title_that_is_no_heading_goes_before_them() -> None:
    assert heading_trail(recalled(note=note(title="deploy", headings=["Rollback"]))) == "deploy › Rollback"
    assert heading_trail(recalled(note=note(title="Deploy", headings=["Deploy", "Rollback"]))) == "Deploy › Rollback"
    assert heading_trail(recalled(note=note(title="Deploy", headings=[]))) == "Deploy"
    assert heading_trail(recalled()) == ""


def test_a_note_without_a_best_line_opens_at_the_passage() -> None:
    assert location(recalled(note=note()), HERE, HOME) == "docs/deploy.md:40"


def test_numbers_of_ten_hits_stand_below_each_other() -> None:
    lines = list(hit_lines([recalled()] * 2, PLAIN, HERE, HOME, first=9))
    assert lines[0].startswith(" 9  0.82")
    assert lines[2].startswith("10  0.82")


def test_on_a_terminal_the_querys_words_are_painted_and_long_sentences_wrapped() -> None:
    text = "word " * 60
    hit = recalled(best=best(text.strip(), (0, 4)))
    lines = list(hit_lines([hit], COLOUR, HERE, HOME))
    assert "\x1b[1;33mword\x1b[0m" in lines[1]
    assert len(lines) == 1 + BEST_LINES_MAX
    assert lines[-1].endswith("…")
    assert all(terminal.cell_width(line) <= 62 for line in lines)


def test_marks_are_cut_at_line_ends_and_overlaps_count_once() -> None:
    assert highlight_marks("abcdef", [(1, 3), (2, 5)], 0, 6, PLAIN) == "a*bc**de*f"
    assert highlight_marks("abcdef", [(1, 5)], 0, 3, PLAIN) == "a*bc*"
    assert highlight_marks("abcdef", [(1, 5)], 3, 6, PLAIN) == "*de*f"
    assert highlight_marks("abc", [(2, 99)], 0, 3, PLAIN) == "ab*c*"


def test_the_last_line_has_number_time_ranker_and_namespace() -> None:
    (line,) = recall_summary(recall_answer(recalled()), None, PLAIN)
    assert line == "1 of 12 · 4.1 ms · fused · namespace default"
    (line,) = recall_summary(recall_answer(recalled(), list_top_k=20), None, PLAIN)
    assert line == "1 of 12 · 4.1 ms · fused · a list: up to 20 · namespace default"


@pytest.mark.parametrize(
    ("model", "vectors", "said"),
    [
        ((None, "absent"), ("off", 0.0), "no embedding model is installed (mnemo models pull)"),
        (("mini", "loading"), ("ready", 1.0), "the embedding model is loading"),
        (("mini", "ready"), ("ready", 1.0), "vectors are not ready"),
        (("mini", "ready"), ("building", 0.0), "vectors are not ready"),
    ],
)
def test_an_answer_without_vectors_says_so_in_words_and_why(model: Any, vectors: Any, said: str) -> None:
    models = {"embedding": ModelStatus(name=model[0], state=model[1])}
    known = status(models=models, views={"vectors": view(*vectors)})
    assert degraded_text(["vectors"], known) == f"answered by words only: {said}"


def test_an_answer_by_the_vectors_that_there_are_says_how_many() -> None:
    models = {"embedding": ModelStatus(name="mini", state="ready")}
    known = status(models=models, views={"vectors": view("building", 0.4299)})
    assert degraded_text(["vectors"], known) == (
        "42% of the memories have a vector so far: the others were found by words only"
    )


def test_footers_and_messages_break_between_words() -> None:
    answer = recall_answer(
        recalled(), degraded=["notes", "llm"], reason="the model named a harbour that is in no memory"
    )
    lines = recall_summary(answer, None, COLOUR)
    assert len(lines) > 1
    assert all(cell_width(line) <= 60 for line in lines)
    err = io.StringIO()
    shown = Terminal(io.StringIO(), err, {})
    shown.err_style = TextStyle(width=60)
    shown.error("the daemon " + "answers " * 12 + "slowly", "look at " + "its log " * 12)
    assert all(len(line) <= 60 for line in err.getvalue().splitlines())
    assert (
        " ".join(err.getvalue().split())
        == f"mnemo: the daemon {'answers ' * 12}slowly look at {'its log ' * 12}".strip()
    )
    assert err.getvalue().count("\n       ") == 2


def test_other_things_that_were_missing_have_their_words_too() -> None:
    words = degraded_text(["store", "llm", "hot\x1b"], None)
    assert words == ("the store has a problem (mnemo status); without the language model; without hot�")


# The other answers


def test_the_status_is_a_line_a_part() -> None:
    assert status_lines(status(), PLAIN, HOME) == [
        "mnemod 0.1.0 · warming · pid 4711 · up 3 h 10 min · 84.2 MB of memory",
        "  ! the model is being loaded",
        "  memories         12,345 (345 archived)",
        "  namespaces       default 12,345",
        "  words            ready · 5,190",
        "  vectors          building · 5,190 · 42% · 7 changes behind, 3 s",
        "  embedding model  mini · loading",
        "  notes            no folder yet (mnemo notes add FOLDER)",
        "  waiting          7 passages without a vector yet, found by words only until then",
        "  trash            2, 1.5 KB",
        "  disk             database 2.0 MB · 45.0 GB free",
        "  data             ~/.local/share/mnemo",
        "  socket           /run/user/1000/mnemo/mnemo.sock",
    ]


def test_the_status_says_if_the_kernel_blocks_the_network() -> None:
    def shown(network: NetworkStatus | None) -> list[str]:
        lines = status_lines(status(network=network), PLAIN, HOME)
        return [line.strip() for line in lines if line.startswith("  network ")]

    assert shown(NetworkStatus(blocked=True)) == ["network          blocked by the kernel"]
    assert shown(NetworkStatus(blocked=False, reason="no such filter here")) == [
        "network          not blocked: no such filter here"
    ]
    assert shown(None) == []


def test_sizes_are_shown_the_largest_first() -> None:
    now = status()
    now.sizes = {"database/memories": 2_000_000, "database/trash": 0, "views/words.view": 3_000_000}
    assert [line.split() for line in size_lines(now, PLAIN)] == [
        ["3.0", "MB", "views/words.view"], ["2.0", "MB", "database/memories"],
    ]  # fmt: skip


def test_notes_show_their_folders_and_the_skipped_files() -> None:
    root = NotesRootStatus(
        id="r", path="/h/ines/notes", namespace="default", state="polling", files=1, chunks=2, waiting=3,
        reason="too few watches",
    )  # fmt: skip
    skipped = [SkippedFile(path="/h/ines/notes/a.bin", reason="binary")]
    notes = NotesStatus(roots=[root], skipped=skipped, skipped_total=2, by_words_only=1_200, seconds_left=119.0)
    assert notes_lines(notes, PLAIN, HERE, HOME) == [
        "~/notes  polling · 1 file · 2 passages · namespace default · 3 waiting",
        "  ! too few watches",
        "1,200 passages found by words alone; by meaning too in about 2 min 0 s",
        "2 files skipped:",
        "  ~/notes/a.bin  binary",
        "  … and 1 more",
    ]


def test_a_memory_that_only_the_journal_has_is_reported_as_such() -> None:
    answer = RememberAnswer(outcome="stored", memory=recalled(), degraded=["store"])
    assert remember_line(answer, PLAIN) == (
        "remembered · c0ffee01 · namespace default · stored, but the store has a problem (mnemo status)"
    )


def test_a_text_that_a_profile_rejects_is_shown_with_the_reason() -> None:
    answer = RememberAnswer(outcome="discarded", memory=recalled(), reason="low_importance")
    assert remember_line(answer, PLAIN).startswith("rejected: unimportant · ")


def test_the_outcome_of_a_memory_is_shown_with_id_and_namespace() -> None:
    answer = RememberAnswer(outcome="updated", memory=recalled(version=3, tags=["sensitive"]), masked=["token"])
    assert remember_line(answer, PLAIN) == (
        "updated to version 3 · c0ffee01 · namespace default · masked: token · looks like a secret: tagged sensitive"
    )


def test_a_whole_memory_is_shown_with_its_fields_and_its_text_as_it_is() -> None:
    memory = recalled(content="one\n\ntwo\x1b", key="k", tags=["a", "b"], note=note(), pinned=True)
    lines = memory_lines(memory, PLAIN, HERE, HOME)
    assert lines[0] == f"id          {ID}"
    assert "state       active · pinned" in lines
    assert "note        docs/deploy.md:40-52" in lines
    assert "tags        a, b" in lines
    assert "recalled    1 time" in lines
    assert lines[-2:] == ["", "one\n\ntwo�"]


def test_a_model_that_is_wanted_and_not_installed_is_not_in_use() -> None:
    def model(name: str, *, installed: bool, in_use: bool) -> CatalogueModel:
        return CatalogueModel(name=name, role="embedding", bytes=1000, licence="MIT", sha256="", sources=[],
                                       installed=installed, in_use=in_use)  # fmt: skip

    absent = ModelStatus(name="a", state="absent")
    listed = [model("a", installed=False, in_use=True), model("b", installed=True, in_use=True),
              model("c", installed=True, in_use=False)]  # fmt: skip
    answer = ModelsAnswer(models=listed, embedding=absent, llm=absent)
    assert model_lines(answer, PLAIN) == [
        "a  embedding  not installed  1.0 KB · MIT",
        "b  embedding  in use         1.0 KB · MIT",
        "c  embedding  installed      1.0 KB · MIT",
    ]


def test_a_model_is_shown_with_languages_length_and_whether_it_is_calibrated() -> None:
    model = CatalogueModel(
        name="m", role="embedding", bytes=1000, licence="MIT", sha256="", sources=[], installed=False, in_use=False,
        dimensions=768, languages="multilingual, 50", tokens_max=8192, calibrated=False,
    )  # fmt: skip
    absent = ModelStatus(name="a", state="absent")
    listed = [model, msgspec.structs.replace(model, name="n", installed=True, calibrated=True, verified=False)]
    assert model_lines(ModelsAnswer(models=listed, embedding=absent, llm=absent), PLAIN) == [
        "m  embedding  not installed  768 dimensions · multilingual, 50 · 8,192 tokens · 1.0 KB · MIT · not calibrated",
        "n  embedding  installed      768 dimensions · multilingual, 50 · 8,192 tokens · 1.0 KB · MIT · calibrated"
        " · not verified",
    ]


def test_the_grades_of_a_language_model_stand_below_the_models_by_what_they_came_to() -> None:
    grades = [
        SiteGrade(site="answer", of=5, right=1, passed=False), SiteGrade(site="gate", of=6),
        SiteGrade(site="naming", of=5, right=4, passed=True), SiteGrade(site="summarize", of=4, right=0, passed=False),
    ]  # fmt: skip
    model = CatalogueModel(
        name="small", role="llm", bytes=1024, licence="MIT", sha256="", sources=[], installed=True, in_use=True,
        grades=grades,
    )  # fmt: skip
    status = ModelStatus(name="small", state="ready")
    assert model_lines(ModelsAnswer(models=[model], embedding=status, llm=status), PLAIN) == [
        "small  llm  in use  1.0 KB · MIT",
        "",
        "tasks of small",
        "    passed: naming 4 of 5",
        "    failed: answer 1 of 5, summarize 0 of 4",
        "    not tried yet: gate",
    ]


def test_the_configuration_shows_each_value_and_where_it_came_from() -> None:
    values = [
        ConfigValue(key="trash.keep_days", value=0, origin="default"),
        ConfigValue(key="client.project_namespaces", value=True, origin="/c.toml:3"),
        ConfigValue(key="llm.models", value={"gate": "a"}, origin="/c.toml:4"),
        ConfigValue(key="models.folder", value="", origin="MNEMO_MODELS_FOLDER"),
    ]
    answer = ConfigAnswer(values=values, file="/c.toml")
    assert config_lines(answer, PLAIN) == [
        "trash.keep_days            0             default",
        "client.project_namespaces  true          /c.toml:3",
        'llm.models                 {gate = "a"}  /c.toml:4',
        'models.folder              ""            MNEMO_MODELS_FOLDER',
    ]


def test_a_table_fits_the_width_and_loses_nothing_but_what_it_clips() -> None:
    rows = [["name", "short", "x"], ["another", "b", "words " * 20]]
    lines = table(rows, width=60)
    assert all(cell_width(line) <= 60 for line in lines)
    assert " ".join(lines).split() == [word for row in rows for cell in row for word in cell.split()]
    assert lines[2].startswith(" " * len("another  short  ") + "words")
    narrow = table([["a" * 50, "far too long for what is left here"]], width=60)
    assert narrow == ["a" * 50, "    far too long for what is left here"]
    wide = [["models.folder", '"/h/ines/.cache/some/very/long/name/of/a/folder"', "default"], ["recall.cut", "1", "x"]]
    assert table(wide, width=60) == [
        'models.folder  "/h/ines/.cache/some/very/long/name/of/a/folder"', "    default", "recall.cut     1  x"
    ]  # fmt: skip
    assert table(rows, width=30, clips=True)[1] == "another  b      words words w…"
    assert table(rows)[1] == "another  b      " + ("words " * 20).rstrip()


# The terminal


@pytest.mark.parametrize(
    ("environ", "colour"),
    [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({}, False), ({"TERM": "xterm", "NO_COLOR": "1"}, False),
     ({"TERM": "xterm", "NO_COLOR": ""}, True)],
)  # fmt: skip
def test_colour_is_for_terminals_that_want_it(environ: dict[str, str], colour: bool) -> None:
    assert terminal.style_for(Screen(), environ).colour is colour
    assert terminal.style_for(io.StringIO(), environ) == TextStyle()


def test_progress_is_one_line_that_goes_away_and_only_on_a_terminal() -> None:
    err = Screen()
    screen = Terminal(io.StringIO(), err, {"TERM": "xterm"})
    screen.progress("42%")
    screen.progress("42%")
    screen.message("done")
    assert err.getvalue() == "\r\x1b[K42%\r\x1b[Kdone\n"
    quiet = io.StringIO()
    Terminal(io.StringIO(), quiet, {"TERM": "xterm"}).progress("42%")
    assert quiet.getvalue() == ""


def test_remaining_work_is_shown_with_its_speed_and_duration() -> None:
    assert rate_text(24.6) == "25 a second"
    assert rate_text(0.5) == "30 a minute"
    assert degraded_text(["notes"], None) == "notes are still being read (mnemo status)"
    root = NotesRootStatus(id="r", path="/n", namespace="default", state="scanning", files=1, chunks=2, waiting=30)
    now = status()
    now.notes, now.queue = NotesStatus(roots=[root]), {"vectors": 1200}
    now.views["vectors"].rate, now.views["vectors"].seconds_left = 10.0, 119.0
    assert remaining_work_lines(now) == [
        "30 notes still to be read; each can be recalled as soon as it is read",
        "1,200 passages without a vector yet, found by words only until then, 10 a second, about 2 min 0 s left",
    ]
    [shown] = [line for line in status_lines(now, PLAIN, HOME) if line.startswith("  vectors")]
    assert "10 a second, about 2 min 0 s left" in shown


@pytest.mark.parametrize(
    ("queue", "meaning"),
    [({"writes": 0, "vectors": 0, "comparisons": 0}, None),
     ({"writes": 1, "vectors": 0, "comparisons": 0}, "1 write"),
     ({"writes": 2, "vectors": 1, "comparisons": 0}, "2 writes · 1 passage without a vector yet, found by words only "
      "until then"),
     ({"writes": 0, "vectors": 0, "comparisons": 1381}, "1,381 changes not yet compared with earlier memories: all "
      "can be recalled, by words and by meaning; importance and relations follow")],
)  # fmt: skip
def test_what_waits_is_told_in_plain_words(queue: dict[str, int], meaning: str | None) -> None:
    now = status()
    now.state, now.queue = "ready", queue
    shown = [line.split(maxsplit=1)[1] for line in status_lines(now, PLAIN, HOME) if line.startswith("  waiting")]
    assert shown == ([] if meaning is None else [meaning])
    assert not any("without a vector" in line for line in remaining_work_lines(now)) or queue["vectors"]

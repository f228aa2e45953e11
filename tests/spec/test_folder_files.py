"""Paths that are left out: gitignore syntax. SPEC 6; expected answers are those of `git check-ignore`."""

import pytest

from mnemo_core.documents.folder_files import DEFAULT_RULES, is_ignored, match_rules, read_rules
from tests.support.time_complexity import require_linear


@pytest.mark.parametrize(
    ("rules", "path", "is_folder", "expected"),
    [
        ("*.log", "a.log", False, True),
        ("*.log", "deep/down/a.log", False, True),
        ("*.log", "a.logs", False, None),
        ("/top.md", "top.md", False, True),
        ("/top.md", "sub/top.md", False, None),
        ("sub/x.md", "sub/x.md", False, True),
        ("sub/x.md", "other/sub/x.md", False, None),
        ("drafts/", "drafts", True, True),
        ("drafts/", "a/drafts", True, True),
        ("drafts/", "drafts", False, None),
        ("*.md\n!keep.md", "keep.md", False, False),
        ("*.md\n!keep.md", "lose.md", False, True),
        ("!keep.md\n*.md", "keep.md", False, True),
        ("# comment\n\n\\#real", "#real", False, True),
        ("\\!odd", "!odd", False, True),
        ("a?c", "abc", False, True),
        ("a?c", "a/c", False, None),
        ("a*c", "a/c", False, None),
        ("**/logs", "x/y/logs", True, True),
        ("**/logs", "logs", True, True),
        ("logs/**", "logs/a/b", False, True),
        ("logs/**", "logs", True, None),
        ("a/**/b", "a/b", False, True),
        ("a/**/b", "a/x/y/b", False, True),
        ("a/**/b", "a/xb", False, None),
        ("file[0-9].md", "file7.md", False, True),
        ("file[!0-9].md", "file7.md", False, None),
        ("file[!0-9].md", "filex.md", False, True),
        ("trailing  ", "trailing", False, True),
        ("trailing\\ ", "trailing ", False, True),
        ("[unclosed", "[unclosed", False, True),
        ("a.b", "axb", False, None),
        ("日记*", "日记一.md", False, True),
    ],
)
def test_a_pattern_means_what_git_means_by_it(rules: str, path: str, is_folder: bool, expected: bool | None) -> None:
    assert match_rules(read_rules(rules), path, is_folder=is_folder) is expected


def test_an_inner_file_speaks_before_an_outer_one() -> None:
    layers = [("", read_rules("*.md")), ("sub", read_rules("!mine.md"))]
    assert not is_ignored(layers, "sub/mine.md", is_folder=False)
    assert is_ignored(layers, "sub/other.md", is_folder=False)


def test_patterns_of_an_inner_file_are_tied_to_its_folder() -> None:
    layers = [("sub", read_rules("/x.md"))]
    assert is_ignored(layers, "sub/x.md", is_folder=False)
    assert not is_ignored(layers, "sub/deep/x.md", is_folder=False)


@pytest.mark.parametrize(
    "name",
    ["note.md~", ".note.md.swp", ".note.md.swx", ".#note.md", "#note.md#", "note.md.tmp", "4913",
     "note.sync-conflict-20260101-120000-ABCDEFG.md", "~$note.txt"],
)  # fmt: skip
def test_files_of_editors_and_sync_tools_are_ignored(name: str) -> None:
    assert is_ignored([("", DEFAULT_RULES)], f"sub/{name}", is_folder=False)


@pytest.mark.parametrize("name", [".git", ".obsidian", "node_modules", ".trash", ".stversions"])
def test_folders_that_hold_no_notes_are_left_out(name: str) -> None:
    assert is_ignored([("", DEFAULT_RULES)], f"sub/{name}", is_folder=True)


def test_ordinary_notes_are_not_left_out() -> None:
    for name in ("note.md", "C#.md", "49130.txt", "trash.md", "git.md"):
        assert not is_ignored([("", DEFAULT_RULES)], name, is_folder=False)


def test_a_default_can_be_reset() -> None:
    layers = [("", DEFAULT_RULES), ("", read_rules("!.trash/"))]
    assert not is_ignored(layers, ".trash", is_folder=True)


def test_a_pattern_of_many_stars_is_passed_over() -> None:
    rules = read_rules("*a" * 50)
    assert match_rules(rules, "a" * 250 + "b", is_folder=False) is None
    require_linear(lambda name: match_rules(rules, f"{name}b", is_folder=False), "a" * 250, units_max=200)

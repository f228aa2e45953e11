"""The namespace of a client. SPEC 15."""

from pathlib import Path

import pytest

from mnemo_client.errors import UsageError
from mnemo_client.namespace import choose_namespace


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A home of one's own, without a configuration file."""
    home = tmp_path / "home"
    home.mkdir()
    return {"HOME": str(home)}


def project(tmp_path: Path) -> Path:
    """A git work tree `apollo` with a folder three levels down."""
    folder = tmp_path / "apollo" / "src" / "deep"
    folder.mkdir(parents=True)
    (tmp_path / "apollo" / ".git").mkdir()
    return folder


def test_options_of_the_command_line_win_over_everything(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / ".mnemo.toml").write_text('namespace = "file"\n')
    assert choose_namespace(" named ", tmp_path, environ) == ("named", "option")


def test_the_nearest_file_above_the_folder_says_it(tmp_path: Path, environ: dict[str, str]) -> None:
    folder = project(tmp_path)
    (tmp_path / ".mnemo.toml").write_text('namespace = "far"\n')
    assert choose_namespace(None, folder, environ) == ("far", str(tmp_path / ".mnemo.toml"))
    (tmp_path / "apollo" / ".mnemo.toml").write_text('namespace = "near"\n')
    assert choose_namespace(None, folder, environ) == ("near", str(tmp_path / "apollo" / ".mnemo.toml"))


def test_without_any_word_it_is_default_even_in_a_git_work_tree(tmp_path: Path, environ: dict[str, str]) -> None:
    assert choose_namespace(None, project(tmp_path), environ) == ("default", "default")


def test_the_work_tree_names_it_where_the_environment_or_the_configuration_says_so(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    folder = project(tmp_path)
    expected = ("apollo", str(tmp_path / "apollo"))
    assert choose_namespace(None, folder, {**environ, "MNEMO_CLIENT_PROJECT_NAMESPACES": "true"}) == expected
    config = tmp_path / "config.toml"
    config.write_text("[client]\nproject_namespaces = true\n")
    configured = {**environ, "MNEMO_CONFIG": str(config)}
    assert choose_namespace(None, folder, configured) == expected
    # The environment goes before the file.
    assert choose_namespace(None, folder, {**configured, "MNEMO_CLIENT_PROJECT_NAMESPACES": "off"}).name == "default"


def test_a_linked_work_tree_has_a_file_in_place_of_the_folder(tmp_path: Path, environ: dict[str, str]) -> None:
    folder = tmp_path / "hotfix"
    folder.mkdir()
    (folder / ".git").write_text("gitdir: /elsewhere\n")
    assert choose_namespace(None, folder, {**environ, "MNEMO_CLIENT_PROJECT_NAMESPACES": "1"}).name == "hotfix"


def test_outside_of_any_work_tree_it_is_default(tmp_path: Path, environ: dict[str, str]) -> None:
    assert choose_namespace(None, tmp_path, {**environ, "MNEMO_CLIENT_PROJECT_NAMESPACES": "1"}).name == "default"


def test_a_work_tree_with_a_long_name_is_cut_to_what_a_namespace_takes(tmp_path: Path, environ: dict[str, str]) -> None:
    folder = tmp_path / ("n" * 70)
    (folder / ".git").mkdir(parents=True)
    assert choose_namespace(None, folder, {**environ, "MNEMO_CLIENT_PROJECT_NAMESPACES": "1"}).name == "n" * 64


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("namespace = [\n", "cannot be read"),
        ("other = 1\n", "names no namespace"),
        ("namespace = 7\n", "names no namespace"),
        ('namespace = ""\n', "cannot be a namespace"),
        ('namespace = "a\\nb"\n', "cannot be a namespace"),
        (f'namespace = "{"n" * 65}"\n', "cannot be a namespace"),
    ],
)
def test_a_file_that_says_nothing_usable_is_named_and_nothing_is_guessed(
    tmp_path: Path, environ: dict[str, str], text: str, said: str
) -> None:
    (tmp_path / ".mnemo.toml").write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        choose_namespace(None, tmp_path, environ)
    assert ".mnemo.toml" in str(caught.value)
    assert choose_namespace("named", tmp_path, environ).name == "named"


def test_a_switch_that_is_neither_on_nor_off_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="MNEMO_CLIENT_PROJECT_NAMESPACES is 'maybe'"):
        choose_namespace(None, tmp_path, {**environ, "MNEMO_CLIENT_PROJECT_NAMESPACES": "maybe"})

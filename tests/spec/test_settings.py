"""Configuration: defaults, config.toml and the environment, with the origin of every value. SPEC 15."""

import os
from pathlib import Path

import platformdirs
import pytest

from mnemo_client import paths
from mnemo_daemon import settings
from mnemo_daemon.settings import KEYS, ConfigError, lines_of_keys, load, reload

SETTLE_RANGE = "notes.settle_ms must be a whole number from 0 to 10000"
MODELS_TABLE = (
    'llm.models must be a table in which each key is one of "answer", "audit", "condense", "distill", "expand", '
    '"extract", "fact_extract", "gate", "insert_merge", "judge_importance", "merge", "naming", "reconcile", "rerank", '
    '"resume", "resume_compress", "summarize", "triage" and each value a text of 1 or more characters'
)

CONFIG = """\
# a comment
[notes]
settle_ms = 500  # half a second

[privacy]
mask = "off"
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


def write(environ: dict[str, str], text: str) -> Path:
    path = paths.config_file(environ)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_file_every_value_is_its_default(environ: dict[str, str]) -> None:
    configuration = load(environ)
    assert configuration.settings == settings.Settings()
    assert {described.origin for described in configuration.describe()} == {"default"}
    assert configuration.settings.privacy.mask == "auto"  # SPEC 5.1
    assert configuration.settings.client.project_namespaces is False


def test_the_file_wins_over_the_default_and_the_environment_over_the_file(environ: dict[str, str]) -> None:
    write(environ, CONFIG)
    environ |= {"MNEMO_PRIVACY_MASK": "all", "MNEMO_CLIENT_PROJECT_NAMESPACES": "true", "MNEMO_MODELS_THREADS": "3"}
    configuration = load(environ)
    assert configuration.settings.notes.settle_ms == 500
    assert configuration.settings.privacy.mask == "all"
    assert configuration.settings.client.project_namespaces is True
    assert configuration.settings.models.threads == 3
    origins = {described.key: described.origin for described in configuration.describe()}
    assert origins["notes.settle_ms"] == "config.toml:3"
    assert origins["privacy.mask"] == "MNEMO_PRIVACY_MASK"
    assert origins["notes.poll_seconds"] == "default"


def test_every_key_can_be_set_by_file_and_by_variable(environ: dict[str, str]) -> None:
    other = {int: "11", str: "other"}
    particular = {"privacy.mask": "all", "daemon.log_level": "debug", "daemon.connections_max": "77",
                  "daemon.network_block": "require",
                  "history.keep": "90d", "recall.ranker": "words", "recall.cut": "gap",
                  "models.numerics": "int8", "jobs.on_battery": "run",
                  "llm.level": "full", "llm.models": '{answer = "other"}',
                  "llm.context_tokens": "8192", "llm.on_battery": "run", "lifecycle.review": "all",
                  "access.allow": '[{user = 1, right = "read"}]', "access.tcp_right": "admin"}  # fmt: skip
    for key in KEYS.values():
        value = key.default
        text = str(not value).lower() if isinstance(value, bool) else other.get(type(value), "")
        text = particular.get(key.path, text)
        by_variable = load(environ | {key.variable: text})
        quoted = f'"{text}"' if isinstance(value, str) else text
        write(
            environ,
            f"[{key.section}]\n{key.name} = {quoted}\n",
        )
        by_file = load(environ)
        paths.config_file(environ).unlink()
        assert by_variable.settings == by_file.settings != settings.Settings()
        assert by_variable.origins[key.path] == key.variable
        assert by_file.origins[key.path] == "config.toml:2"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[history]\nkeep = 90\n", 'config.toml:2: history.keep must be something like "all" or "365d", not 90'),
        ("[notes]\nsetle_ms = 1\n", "config.toml:2: there is no key `setle_ms` in [notes]; did you mean `settle_ms`?"),
        ("\n\n[note]\nsettle_ms = 1\n", "config.toml:3: there is no section [note]; did you mean `notes`?"),
        ("[notes]\nsettle_ms = -1\n", "config.toml:2: RANGE, not -1"),
        ("[notes]\nsettle_ms = '1'\n", "config.toml:2: RANGE, not '1'"),
        ("[notes]\nsettle_ms = true\n", "config.toml:2: RANGE, not True"),
        ("[notes]\nsettle_ms = [\n1,\n2]\n", "config.toml:2: RANGE, not [1, 2]"),
        ("[privacy]\nmask = 'on'\n", "config.toml:2: privacy.mask must be one of \"all\", \"auto\", \"off\", not 'on'"),
        ("[client]\nproject_namespaces = 1\n", "config.toml:2: client.project_namespaces must be true or false, not 1"),
        ("[models]\nfolder = 1\n", "config.toml:2: models.folder must be a text, not 1"),
        ("[llm]\nmodels.answr = 'x'\n", "config.toml:2: TABLE, not {'answr': 'x'}"),
        ("[llm]\nmodels = 'x'\n", "config.toml:2: TABLE, not 'x'"),
        ("\n[llm.models]\nanswer = ''\n", "config.toml:2: TABLE, not {'answer': ''}"),
        ("settle_ms = 1\n", "config.toml:1: the key `settle_ms` stands outside of its section; put it below [notes]"),
        ("notes = 1\n", "config.toml:1: notes is a section; write [notes] on a line of its own, and its keys below"),
        ("notes.settle_ms = 99999\n", "config.toml:1: RANGE, not 99999"),
    ],
)  # fmt: skip
def test_a_wrong_line_stops_the_start_and_says_what_was_expected(environ: dict[str, str], text: str, said: str) -> None:
    path = write(environ, text)
    with pytest.raises(ConfigError) as caught:
        load(environ)
    said = said.replace("RANGE", SETTLE_RANGE).replace("TABLE", MODELS_TABLE)
    assert str(caught.value) == f"{path.parent}/{said}"


def test_a_file_that_is_no_toml_is_refused_with_the_line(environ: dict[str, str]) -> None:
    for text, number, line in (("[notes]\nsettle_ms = \n\n", 2, "settle_ms ="), ("\n[notes]\n\nx = [1\n", 4, "x = .1")):
        path = write(environ, text)
        said = rf"^{path}:{number}: this is not TOML: .*: `{line}`; a line is .section., or"
        with pytest.raises(ConfigError, match=said):
            load(environ)


def test_a_key_like_no_other_is_answered_with_all_there_are(environ: dict[str, str]) -> None:
    write(environ, "[privacy]\ncolour = 1\n")
    with pytest.raises(ConfigError, match=r"there is no key `colour` in \[privacy\] \(there are: mask\)$"):
        load(environ)


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("MNEMO_NOTES_SETLE_MS", "", "there is no setting MNEMO_NOTES_SETLE_MS; did you mean `MNEMO_NOTES_SETTLE_MS`?"),
        ("MNEMO_NOTES_SETTLE_MS", "soon", "MNEMO_NOTES_SETTLE_MS must be a whole number from 0 to 10000, not 'soon'"),
        ("MNEMO_NOTES_SETTLE_MS", "", "MNEMO_NOTES_SETTLE_MS must be a whole number from 0 to 10000, not ''"),
        ("MNEMO_LLM_MODELS", "answer=x", "TABLE, not 'answer=x'"),
        ("MNEMO_LLM_MODELS", '{anser = "x"}', "TABLE, not '{anser = \"x\"}'"),
        ("MNEMO_PRIVACY_MASK", "on", "MNEMO_PRIVACY_MASK must be one of \"all\", \"auto\", \"off\", not 'on'"),
    ],
)  # fmt: skip
def test_a_wrong_variable_stops_the_start_too(environ: dict[str, str], variable: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(environ | {variable: text})
    assert str(caught.value) == said.replace("TABLE", MODELS_TABLE.replace("llm.models", "MNEMO_LLM_MODELS"))


def test_variables_of_other_purposes_are_left_alone(environ: dict[str, str]) -> None:
    assert (
        load(environ | {"MNEMO_NAMESPACE": "x", "MNEMO": "1", "NOTES_SETTLE_MS": "x"}).settings == settings.Settings()
    )


def test_a_file_that_is_named_must_be_there(environ: dict[str, str], tmp_path: Path) -> None:
    named = environ | {"MNEMO_CONFIG": str(tmp_path / "mine.toml")}
    with pytest.raises(ConfigError, match="which does not exist"):
        load(named)
    (tmp_path / "mine.toml").write_text("[notes]\nsettle_ms = 7\n", encoding="utf-8")
    configuration = load(named)
    assert configuration.settings.notes.settle_ms == 7
    assert configuration.origins["notes.settle_ms"] == "mine.toml:2"
    assert configuration.origins["folders.config_file"] == "MNEMO_CONFIG"


def test_a_file_that_is_no_text_is_refused(environ: dict[str, str]) -> None:
    write(environ, "").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot read"):
        load(environ)


def test_lines_are_found_whatever_the_values_look_like() -> None:
    text = '\n'.join([
        "# [notes]",                      # 1
        "top = 1",                        # 2
        "[a]  # a table",                 # 3
        "x = '''",                        # 4
        "y = 2",                          # 5: text of x
        "[b]",                            # 6: text of x
        "'''",                            # 7
        "",                               # 8
        "y = [",                          # 9
        "  1, # z = 3",                   # 10
        "]",                              # 11
        '"z" = {x = 1}',                  # 12
        "[b.c]",                          # 13
        "d.e = 5",                        # 14
    ])  # fmt: skip
    lines = lines_of_keys(text)
    assert {path: line for path, line in lines.items() if path != ("a", "z", "x")} == {
        ("top",): 2,
        ("a",): 3,
        ("a", "x"): 4,
        ("a", "y"): 9,
        ("a", "z"): 12,
        ("b",): 13,
        ("b", "c"): 13,
        ("b", "c", "d"): 14,
        ("b", "c", "d", "e"): 14,
    }


def test_windows_line_ends_change_no_line_number() -> None:
    assert lines_of_keys("\r\n[a]\r\nx = 1\r\n") == {("a",): 2, ("a", "x"): 3}


def test_folders_are_the_platforms_own(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", environ["HOME"])
    folders = load(environ).folders
    assert folders.data == Path(platformdirs.user_data_dir("mnemo", appauthor=False))
    assert folders.config_file == Path(platformdirs.user_config_dir("mnemo", appauthor=False)) / "config.toml"
    # Models can be fetched again, and are the same for every data folder.
    assert folders.models == Path(platformdirs.user_cache_dir("mnemo", appauthor=False)) / "models"
    # Never platformdirs' own: without XDG_RUNTIME_DIR that is a folder below /tmp which anybody could have made.
    assert folders.socket == folders.data / "run" / "mnemo.sock"


@pytest.mark.parametrize(
    ("variables", "socket", "origin"),
    [
        ({"XDG_RUNTIME_DIR": "/run/user/7"}, "/run/user/7/mnemo/mnemo.sock", "XDG_RUNTIME_DIR"),
        ({"XDG_RUNTIME_DIR": "/run/user/7", "MNEMO_DATA_DIR": "/d"}, "/d/run/mnemo.sock", "MNEMO_DATA_DIR"),
        ({"MNEMO_SOCKET": "/s/x", "MNEMO_DATA_DIR": "/d"}, "/s/x", "MNEMO_SOCKET"),
    ],
)
def test_the_socket_follows_the_environment_and_says_which(
    environ: dict[str, str], variables: dict[str, str], socket: str, origin: str
) -> None:
    configuration = load(environ | variables)
    assert configuration.folders.socket == Path(socket)
    assert configuration.origins["folders.socket"] == origin


def test_the_models_folder_can_be_chosen_apart_from_the_data_folder(environ: dict[str, str]) -> None:
    configuration = load(environ | {"MNEMO_DATA_DIR": "/d", "MNEMO_MODELS_FOLDER": "~/models"})
    assert configuration.folders.data == Path("/d")
    assert configuration.folders.models == Path("~/models").expanduser()
    assert configuration.origins["folders.models"] == "MNEMO_MODELS_FOLDER"


def test_a_reload_says_what_changed_and_what_waits_for_a_restart(environ: dict[str, str]) -> None:
    write(environ, CONFIG)
    old = load(environ)
    write(environ, "[notes]\nsettle_ms = 600\n[models]\nthreads = 2\n")
    new, changed = reload(old, environ | {"MNEMO_DATA_DIR": "/elsewhere"})
    assert {(change.key, change.before, change.after, change.needs_restart) for change in changed} == {
        ("notes.settle_ms", 500, 600, False),
        ("privacy.mask", "off", "auto", False),
        ("models.threads", 0, 2, True),
        ("folders.data", str(old.folders.data), "/elsewhere", True),
        ("folders.socket", str(old.folders.socket), "/elsewhere/run/mnemo.sock", True),
    }
    assert new.settings.notes.settle_ms == 600
    assert new.settings.privacy.mask == "auto"
    assert new.settings.models.threads == 0  # what runs is what is told
    assert new.folders == old.folders
    assert new.origins["models.threads"] == "default"
    assert new.origins["folders.data"] == "default"
    assert new.origins["notes.settle_ms"] == "config.toml:2"


def test_a_reload_without_a_change_changes_nothing(environ: dict[str, str]) -> None:
    write(environ, CONFIG)
    old = load(environ)
    assert reload(old, environ) == (old, [])


def test_every_key_says_what_it_takes() -> None:
    for key in KEYS.values():
        assert settings.expected(key)
    variables = [key.variable for key in KEYS.values()]
    assert len(set(variables)) == len(variables)
    assert not set(variables) & set(settings.PLACES)


def test_loading_takes_nothing_from_this_process(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "MNEMO_NOTES_SETTLE_MS", "nonsense")
    assert load(environ).settings.notes.settle_ms == 200

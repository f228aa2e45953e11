"""The settings, each value with its origin. SPEC 15.

A key stands in one section of config.toml and, as MNEMO_SECTION_KEY, in the environment, which wins. Types carry the
range and the meaning, of which clients/docs/settings.md is made (`make docs`); nothing else in this module names a key.
A wrong key or value stops the start with the line and what was expected. [profiles] is a table of its own: its keys are
namespaces, which no variable can name.
"""

import difflib
import itertools
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec
from msgspec import Meta, inspect

from mnemo_client import path_safety, paths
from mnemo_client.protocol.operations import Right
from mnemo_client.protocol.status import ConfigValue
from mnemo_client.protocol.validation import describe
from mnemo_core.ingest.policies import OWN_POLICY, POLICIES, Policy, PolicyName
from mnemo_core.llm_sites import ModelKey
from mnemo_core.retrieval.ranking.rankers import Ranker
from mnemo_core.retrieval.recall_defaults import LIST_TOP_K, RECALL_DEFAULTS, RecallDefaults
from mnemo_daemon.server.admission.access_table import ENTRIES_EXPECTED, AccessEntry, AccessTable

Numerics = Literal["auto", "int8", "float32"]  # the form of a model that is used; auto: the fastest that is accurate

DEFAULT_RERANKER = "cross-encoder/ms-marco-MiniLM-L-6-v2"  # [L21]
ENVIRONMENT_PREFIX = "MNEMO_"
LIKENESS_MIN = 0.75  # of a word to the key that was probably meant (difflib's ratio)
RESTART = {"restart": True}  # in a key's Meta: read once, at the start
TOML_LINES = "a line is [section], or key = value with texts in quotes; neither stands twice"
PROFILES_TABLE = "profiles"  # the table whose keys are namespaces


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A [section] of config.toml."""


class DaemonSettings(Section, frozen=True):
    """The process and its socket."""

    log_level: Annotated[Literal["debug", "info", "warning", "error"], "the lowest level that is logged"] = "info"
    connections_max: Annotated[
        int, Meta(ge=16, le=65536, extra=RESTART), "simultaneous connections; one process leaves a 64th to others"
    ] = 1024
    network_block: Annotated[
        Literal["auto", "require", "off"],
        Meta(extra=RESTART),
        "the kernel refuses the daemon every socket but Unix sockets: `auto` where it can; `require`: the daemon does "
        "not start where it cannot; `off`",
    ] = "auto"
    tcp_port: Annotated[
        int, Meta(ge=0, le=65535, extra=RESTART), "a port on 127.0.0.1 for clients without Unix sockets; 0: none"
    ] = 0
    tcp_ipv6: Annotated[bool, Meta(extra=RESTART), "true: listen on ::1, too"] = False


class AccessSettings(Section, frozen=True):
    """The access of others than the owner."""

    allow: Annotated[
        tuple[AccessEntry, ...],
        Meta(description=ENTRIES_EXPECTED, extra={"check": AccessTable}),
        "other users, and programs of yours, each with its right",
    ] = ()
    shared_socket: Annotated[str, Meta(extra=RESTART), "the path of a socket for other users; empty: none"] = ""
    tcp_right: Annotated[Right, Meta(extra=RESTART), "the right of a request over TCP"] = "write"


class NotesSettings(Section, frozen=True):
    """Watched folders of notes."""

    settle_ms: Annotated[
        int, Meta(ge=0, le=10_000), "a file is read once it has not changed for this many milliseconds"
    ] = 200
    file_mib_max: Annotated[int, Meta(ge=1, le=1024), "larger files are skipped, and named in the status"] = 8
    rescan_minutes: Annotated[int, Meta(ge=1, le=10_080), "the time between complete scans of a folder"] = 60
    poll_seconds: Annotated[
        int, Meta(ge=1, le=3600), "the time between scans of a folder that the system cannot watch"
    ] = 10
    export_dir: Annotated[
        str,
        "a folder in which core memories and topics are kept as Markdown (`mnemo-core.md`, `mnemo-topics.md`); they "
        "are written again when they change, and never read; empty: none",
    ] = ""


class IngestSettings(Section, frozen=True):
    """Ingestion of new memories."""

    embed_wait_ms: Annotated[
        int,
        Meta(ge=0, le=60_000),
        "how long a write waits for its vector, of a batch for each; without a vector it is compared by words",
    ] = 200


class RecallSettings(Section, frozen=True):
    """Parameters of a recall that gives none."""

    ranker: Annotated[Ranker, "the ranker"] = "auto"
    top_k: Annotated[
        int, Meta(ge=1, le=100), "the number of answers; at least 20 for a question that asks for a list"
    ] = 5
    token_budget: Annotated[int, Meta(ge=0, le=1_000_000), "the tokens of all answers together; 0: no limit"] = 2000
    cut: Annotated[
        Literal["none", "gap"],
        "`gap`: only answers that are near enough to the question; `mnemo recall` asks for it unless `--cut none` is "
        "given",
    ] = "none"
    rerank: Annotated[
        bool,
        "true: an answer that, judged by itself, does not bear on the question is dropped; a language model that may "
        "be asked judges, and a recall waits up to 8 s for it",
    ] = False


class HooksSettings(Section, frozen=True):
    """Hooks of agents and editors. [M, M21]"""

    enabled: Annotated[bool, "false: no hook does anything"] = True
    prompt: Annotated[bool, "false: no context before a prompt"] = True
    reply: Annotated[bool, "false: no exchange is stored"] = True
    tool: Annotated[bool, "false: no call of a tool is stored"] = True
    session_start: Annotated[bool, "false: no resume at the start of a session"] = True
    session_end: Annotated[bool, "false: a session does not end with the agent's"] = True
    store_responses: Annotated[bool, "true: what the agent replied is stored, too, not the prompt alone"] = False
    context_limit: Annotated[int, Meta(ge=1, le=100), "memories before a prompt"] = 6
    context_max_chars: Annotated[
        int, Meta(ge=1, le=1_000_000), "characters of these memories together, in whole lines"
    ] = 2000


class ModelsSettings(Section, frozen=True):
    """Embeddings."""

    folder: Annotated[str, Meta(extra=RESTART), "the folder of model files; empty: in your cache folder"] = ""
    threads: Annotated[
        int, Meta(ge=0, le=64, extra=RESTART), "threads for embedding; 0: one a processor, at most 4"
    ] = 0
    numerics: Annotated[
        Numerics,
        Meta(extra=RESTART),
        "`int8`; `float32`: twice the time, the same on every processor; `auto`: int8 where the processor computes it "
        "well",
    ] = "auto"
    late_interaction: Annotated[
        bool,
        Meta(extra=RESTART),
        "a small vector for each word next to that of the text: better answers for 1 to 2 KB a memory",
    ] = True
    reranker: Annotated[
        str, Meta(extra=RESTART), "the cross-encoder of the ranker `rerank`, used once it is installed"
    ] = DEFAULT_RERANKER


class LlmSettings(Section, frozen=True):
    """The language model and the tasks that ask it."""

    level: Annotated[
        Literal["off", "auto", "full"], "when a task asks the model: never, where a rule does not suffice, or always"
    ] = "auto"
    model: Annotated[
        str,
        Meta(extra=RESTART),
        "the language model; empty: the one chosen by `mnemo models use`, else the largest of the catalogue that is "
        "installed",
    ] = ""
    models: Annotated[
        dict[ModelKey, Annotated[str, Meta(min_length=1)]],
        Meta(extra=RESTART),
        'models of single tasks or groups of tasks, such as `{answer = "NAME", gate = "OTHER"}`; at most two models '
        "are loaded at once",
    ] = {}
    probe: Annotated[
        bool,
        "a model is tried on small cases of each task first, and asked only for the tasks that it gets right; false if "
        "you judge the model yourself",
    ] = True
    context_tokens: Annotated[
        int, Meta(ge=512, le=131_072, extra=RESTART), "tokens of a prompt and its answer together"
    ] = 4096
    threads: Annotated[int, Meta(ge=0, le=256, extra=RESTART), "threads of the model; 0: one a processor but one"] = 0
    gpu_layers: Annotated[
        int, Meta(ge=-1, le=1000, extra=RESTART), "layers computed by a graphics processor; -1: all"
    ] = 0
    memory_mib: Annotated[
        int, Meta(ge=0, le=1_048_576, extra=RESTART), "MiB of address space of the model's process; 0: no limit"
    ] = 0
    idle_minutes: Annotated[
        int, Meta(ge=1, le=10_080, extra=RESTART), "the model is unloaded when nothing has asked it for so long"
    ] = 10
    on_battery: Annotated[
        Literal["wait", "run"], "background calls on battery; `wait`: the method without a model is used"
    ] = "wait"


class HistorySettings(Section, frozen=True):
    """Earlier versions of memories."""

    keep: Annotated[
        str,
        Meta(pattern=r"^(all|[1-9][0-9]{0,4}d)$", examples=["all", "365d"]),
        "the earlier versions that are kept: `all`, or those of a number of days, such as `365d`; older ones go with "
        "`mnemo compact`, and by themselves once the history is a tenth longer",
    ] = "all"


class TrashSettings(Section, frozen=True):
    """Deleted memories."""

    keep_days: Annotated[
        int, Meta(ge=0, le=36_500), "memories that were deleted more days ago leave the trash for good; 0: none"
    ] = 0


class LifecycleSettings(Section, frozen=True):
    """Consolidation of memories. SPEC 9"""

    interval_minutes: Annotated[
        int,
        Meta(ge=0, le=10_080),
        "minutes between two cycles of consolidation, each only if something has happened since the last; 0: on "
        "request alone",
    ] = 30
    merge: Annotated[bool, "true: a cycle merges memories that say nearly the same"] = False
    review: Annotated[
        Literal["off", "core", "all"],
        "the operations that wait for your approval in `mnemo review`: none, promotions to core, or also those that "
        "hide or rewrite a memory",
    ] = "off"
    compress_sessions: Annotated[
        bool,
        "true: old conversations are summarized in the background and hidden behind their summaries, and recall finds "
        "less in them; false: by `mnemo compress` alone",
    ] = False
    compression_threshold: Annotated[
        int,
        Meta(ge=0, le=100_000),
        "conversations of a user in a namespace that stay as they are; of more, the oldest are summarized; 0: all stay",
    ] = 20


class PrivacySettings(Section, frozen=True):
    """Text that is masked before anything is written."""

    mask: Annotated[
        Literal["auto", "all", "off"],
        "keys and passwords are masked: in text that no person wrote, in all text, or never",
    ] = "auto"


class JobsSettings(Section, frozen=True):
    """Background jobs."""

    on_battery: Annotated[Literal["wait", "run"], "heavy jobs on battery; `wait`: for 24 hours at most"] = "wait"
    busy_percent: Annotated[
        int,
        Meta(ge=0, le=100),
        "heavy jobs wait, for 30 minutes at most, while other programs use more than this share of the processors; "
        "100: never",
    ] = 50


class ClientSettings(Section, frozen=True):
    """The command line and the editors."""

    project_namespaces: Annotated[bool, "true: each git work tree is a namespace of its own"] = False


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every value in use."""

    daemon: DaemonSettings = DaemonSettings()
    access: AccessSettings = AccessSettings()
    notes: NotesSettings = NotesSettings()
    intake: IngestSettings = IngestSettings()
    recall: RecallSettings = RecallSettings()
    hooks: HooksSettings = HooksSettings()
    models: ModelsSettings = ModelsSettings()
    llm: LlmSettings = LlmSettings()
    history: HistorySettings = HistorySettings()
    trash: TrashSettings = TrashSettings()
    lifecycle: LifecycleSettings = LifecycleSettings()
    privacy: PrivacySettings = PrivacySettings()
    jobs: JobsSettings = JobsSettings()
    client: ClientSettings = ClientSettings()
    profiles: dict[str, PolicyName] = {}  # by namespace; `own` for what is not named

    def profile_of(self, namespace: str) -> Policy:
        """The profile whose rules ingestion in the namespace follows. SPEC 15"""
        name = self.profiles.get(namespace)
        return OWN_POLICY if name is None else POLICIES[name]

    def recall_defaults(self, namespace: str) -> RecallDefaults:
        """Recall parameters of a request in this namespace that gives none: its profile's, else those of [recall]."""
        own = self.recall
        return RECALL_DEFAULTS.get(self.profile_of(namespace).name) or RecallDefaults(
            ranker=own.ranker, top_k=own.top_k, token_budget=own.token_budget or None, cut=own.cut, rerank=own.rerank,
            list_top_k=LIST_TOP_K,
        )  # fmt: skip


class Folders(NamedTuple):
    """The paths. They come from the environment alone, so that clients find the daemon without its settings."""

    data: Path
    models: Path
    socket: Path
    config_file: Path


class ConfigError(Exception):
    """A key or value that cannot be right. The message says where it stands and what was expected."""


class Configuration(NamedTuple):
    """The settings, the folders, and the origin of every value."""

    settings: Settings
    folders: Folders
    origins: Mapping[str, str]  # by key, "notes.settle_ms"

    def describe(self) -> list[ConfigValue]:
        """Every value, folders first, with its origin."""
        listed = [
            ConfigValue(f"folders.{name}", str(path), self.origins[f"folders.{name}"])
            for name, path in self.folders._asdict().items()
        ]
        for key in KEYS.values():
            value = getattr(getattr(self.settings, key.section), key.name)
            listed.append(ConfigValue(key.path, value, self.origins[key.path]))
        for namespace, name in self.settings.profiles.items():
            path = profile_key(namespace).path
            listed.append(ConfigValue(path, name, self.origins[path]))
        return listed


class ChangedValue(NamedTuple):
    """One value that is different after a reload. `needs_restart`: the old one stays in use until then."""

    key: str
    before: Any
    after: Any
    origin: str
    needs_restart: bool


class SettingKey(NamedTuple):
    """One thing that can be set."""

    section: str
    name: str
    kind: Any  # the annotated type
    default: Any
    needs_restart: bool
    check: Callable[[Any], None] | None = None  # raises a ValueError for a value of the right type that cannot be
    meaning: str = ""  # one sentence, for the table of settings

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        return f"{ENVIRONMENT_PREFIX}{self.section}_{self.name}".upper()


def profile_key(namespace: str) -> SettingKey:
    """The key of [profiles] that says by whose letter the namespace takes in."""
    return SettingKey(PROFILES_TABLE, namespace, PolicyName, OWN_POLICY.name, needs_restart=False)


def _sections() -> list[Any]:
    return [field for field in msgspec.structs.fields(Settings) if field.name != PROFILES_TABLE]


def _keys() -> Iterator[SettingKey]:
    for section in _sections():
        for field in msgspec.structs.fields(section.type):
            extra = {name: value for part in get_args(field.type) if isinstance(part, Meta)
                     for name, value in (part.extra or {}).items()}  # fmt: skip
            default = {} if field.default is msgspec.NODEFAULT else field.default
            meaning = next(part for part in field.type.__metadata__ if isinstance(part, str))
            yield SettingKey(
                section.name, field.name, field.type, default, "restart" in extra, extra.get("check"), meaning
            )  # fmt: skip


KEYS: Mapping[str, SettingKey] = {key.path: key for key in _keys()}
SECTIONS = tuple(dict.fromkeys(key.section for key in KEYS.values()))

# Set in the environment alone, and no keys of a section: clients need them before there is a daemon to ask.
PLACES = ("MNEMO_DATA_DIR", "MNEMO_SOCKET", "MNEMO_CONFIG", "MNEMO_AUTOSTART", "MNEMO_SYNC_PASSPHRASE")


def load(environ: Mapping[str, str], faults: list[ConfigError] | None = None) -> Configuration:
    """Load the settings from the defaults, then config.toml, then the environment. Raises ConfigError.

    A configuration file that does not exist counts as empty, unless MNEMO_CONFIG names it. With `faults` no error is
    raised: wrong settings are added to the list, and keep the value that they would have without them.
    """
    path = paths.config_file(environ)
    values: dict[str, dict[str, Any]] = {section: {} for section in (*SECTIONS, PROFILES_TABLE)}
    origins = dict.fromkeys(KEYS, "default")
    for each in itertools.chain(_from_file(path, must_exist="MNEMO_CONFIG" in environ), _from_environment(environ)):
        fault = each if isinstance(each, ConfigError) else _checked(*each)
        if fault is not None:
            if faults is None:
                raise fault
            faults.append(fault)
            continue
        assert not isinstance(each, ConfigError)
        key, value, origin = each
        values[key.section][key.name] = value
        origins[key.path] = origin
    sections = {field.name: field.type(**values[field.name]) for field in _sections()}
    settings = Settings(**sections, profiles=values[PROFILES_TABLE])
    data = paths.data_folder(environ)
    chosen = settings.models.folder
    models = Path(chosen).expanduser().absolute() if chosen else paths.models_folder(environ)
    folders = Folders(data, models, paths.socket_path(environ), path)
    return Configuration(settings, folders, origins | _origins_of_folders(environ, origins))


def _checked(key: SettingKey, value: Any, origin: str) -> ConfigError | None:
    """The fault that the key's own check finds in a value of the right type."""
    try:
        if key.check is not None:
            key.check(value)
    except ValueError as wrong:
        return ConfigError(f"{origin}: {wrong}")
    return None


def reload(old: Configuration, environ: Mapping[str, str]) -> tuple[Configuration, list[ChangedValue]]:
    """The configuration read again, and what is different. Raises ConfigError, and then the old one stays in use. A
    value that needs a restart (the data folder and the socket do) keeps its old value in the new configuration."""
    new = load(environ)
    before = {described.key: described.value for described in old.describe()}
    changed = []
    kept: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for each in new.describe():
        key = each.key
        was = before.pop(key, OWN_POLICY.name)  # a namespace that is new in [profiles]
        if each.value == was:
            continue
        needs_restart = KEYS[key].needs_restart if key in KEYS else not key.startswith(f"{PROFILES_TABLE}.")
        changed.append(ChangedValue(key, was, each.value, each.origin, needs_restart))
        if needs_restart and key in KEYS:
            kept[KEYS[key].section][KEYS[key].name] = was
    changed += [
        ChangedValue(key, was, OWN_POLICY.name, "default", needs_restart=False)
        for key, was in before.items()
        if was != OWN_POLICY.name
    ]
    sections = {
        section: msgspec.structs.replace(getattr(new.settings, section), **values) for section, values in kept.items()
    }
    restarting = {change.key for change in changed if change.needs_restart}
    origins = {key: old.origins[key] if key in restarting else origin for key, origin in new.origins.items()}
    return Configuration(Settings(**sections, profiles=new.settings.profiles), old.folders, origins), changed


def _origins_of_folders(environ: Mapping[str, str], origins: Mapping[str, str]) -> dict[str, str]:
    data = "MNEMO_DATA_DIR" if environ.get("MNEMO_DATA_DIR") else "default"
    runtime = "XDG_RUNTIME_DIR" if environ.get("XDG_RUNTIME_DIR") else "default"
    return {
        "folders.data": data,
        "folders.models": origins["models.folder"],
        "folders.socket": "MNEMO_SOCKET" if environ.get("MNEMO_SOCKET") else runtime if data == "default" else data,
        "folders.config_file": "MNEMO_CONFIG" if environ.get("MNEMO_CONFIG") else "default",
    }


def _from_file(path: Path, *, must_exist: bool) -> Iterator[tuple[SettingKey, Any, str] | ConfigError]:
    """The settings in the file, each checked by its own type."""
    try:
        if problem := path_safety.writers_problem(path):
            yield ConfigError(f"{path} is not used: {problem}")
            return
        text = path.read_text(encoding="utf-8")
        parsed = tomllib.loads(text)
    except FileNotFoundError:
        if must_exist:
            yield ConfigError(f"MNEMO_CONFIG names {path}, which does not exist")
        return
    except (OSError, UnicodeDecodeError) as failed:
        yield ConfigError(f"cannot read {path}: {failed}")
        return
    except tomllib.TOMLDecodeError as malformed:
        place = re.search(r"at line (\d+)", str(malformed))  # none at the end of the document
        number = int(place[1]) if place else len(text.rstrip().split("\n"))
        shown = text.split("\n")[number - 1].strip()
        yield ConfigError(f"{path}:{number}: this is not TOML: {malformed}: `{shown}`; {TOML_LINES}")
        return
    lines = lines_of_keys(text)
    for section, table in parsed.items():
        if section not in (*SECTIONS, PROFILES_TABLE) or not isinstance(table, dict):
            yield ConfigError(f"{path}:{lines[section,]}: {_unknown_section(section, table)}")
            continue
        for name, value in table.items():
            line = lines[section, name]
            key = profile_key(name) if section == PROFILES_TABLE else KEYS.get(f"{section}.{name}")
            if key is None:
                hint = _did_you_mean(name, [key.name for key in KEYS.values() if key.section == section])
                yield ConfigError(f"{path}:{line}: there is no key `{name}` in [{section}]{hint}")
                continue
            try:
                yield key, msgspec.convert(value, key.kind), f"{path.name}:{line}"
            except msgspec.ValidationError:
                yield ConfigError(f"{path}:{line}: {key.path} must be {expected(key)}, not {value!r}")


def _unknown_section(section: str, value: Any) -> str:
    if not isinstance(value, dict):
        if section in (*SECTIONS, PROFILES_TABLE):
            return f"{section} is a section; write [{section}] on a line of its own, and its keys below"
        owners = [key.section for key in KEYS.values() if key.name == section]
        return f"the key `{section}` stands outside of its section" + (
            f"; put it below [{owners[0]}]" if owners else ""
        )
    return f"there is no section [{section}]{_did_you_mean(section, SECTIONS)}"


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[SettingKey, Any, str] | ConfigError]:
    """The settings in the environment. A variable that looks like one of ours and is none is refused."""
    by_variable = {key.variable: key for key in KEYS.values()}
    for variable, text in environ.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in PLACES:
            continue
        key = by_variable.get(variable)
        if key is None:
            section = variable.removeprefix(ENVIRONMENT_PREFIX).partition("_")[0].lower()
            if section in SECTIONS:
                yield ConfigError(f"there is no setting {variable}{_did_you_mean(variable, list(by_variable))}")
            continue
        try:
            value = tomllib.loads(f"value = {text}")["value"] if isinstance(key.default, (dict, tuple)) else text
            yield key, msgspec.convert(value, key.kind, strict=False), variable
        except (msgspec.ValidationError, tomllib.TOMLDecodeError):
            yield ConfigError(f"{variable} must be {expected(key)}, not {text!r}")


def _did_you_mean(word: str, known: tuple[str, ...] | list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=LIKENESS_MIN)
    return f"; did you mean `{near[0]}`?" if near else f" (there are: {', '.join(known)})"


def expected(key: SettingKey) -> str:
    """A description of the valid values of this key."""
    described = [part.description for part in get_args(key.kind) if isinstance(part, Meta) and part.description]
    if described:
        return described[0]
    kind = inspect.type_info(key.kind)
    inner = kind.type if isinstance(kind, inspect.Metadata) else kind
    if isinstance(inner, inspect.StrType) and inner.pattern is not None:
        meta = next(part for part in get_args(key.kind) if isinstance(part, Meta))
        return "something like " + " or ".join(f'"{example}"' for example in meta.examples or ())
    if isinstance(inner, inspect.DictType):
        return f"a table in which each key is {describe(inner.key_type)} and each value {describe(inner.value_type)}"
    return describe(kind)


def lines_of_keys(text: str) -> dict[tuple[str, ...], int]:
    """The line (1-based) on which each table and key of a well-formed TOML text stands; tomllib does not tell.

    TOML is a sequence of statements that end at a line's end, and only a value that spans lines does not parse when it
    is cut off at one. So the text is taken in by lines, and what parses is a statement.
    """
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    statement, begins = "", 1
    for number, line in enumerate(text.split("\n"), start=1):
        statement += line + "\n"
        try:
            parsed = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue
        path = _path(parsed)
        if statement.lstrip().startswith("["):
            table = path
            path = ()
        for depth in range(1, len(table + path) + 1):
            lines.setdefault((table + path)[:depth], begins)
        statement, begins = "", number + 1
    return lines


def _path(parsed: Any) -> tuple[str, ...]:
    """The keys down to the one thing that a single statement sets."""
    path: tuple[str, ...] = ()
    while isinstance(parsed, dict) and len(parsed) == 1:
        name, parsed = next(iter(parsed.items()))
        path += (name,)
    return path

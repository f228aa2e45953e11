"""Every command of `mnemo`: name, help, arguments, and which function runs it. SPEC 14.

The parser, the help and the shell completions are all made from this one table. `run` names a function as
"module:function" of this package, which is imported only when its command is given.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mnemo_client.protocol.choices import (
    CATEGORIES,
    CUTS,
    DEDUPS,
    GROUPINGS,
    IMPORT_TOOLS,
    KINDS,
    LAYERS,
    RANKERS,
    SORTS,
    STATES,
    TRUSTS,
)


class Argument(NamedTuple):
    """`names` is one bare name (positional) or the option strings; `settings` go to argparse.

    `files` and `values` tell the shell completion what may stand there: files, or what `mnemo completion values` lists.
    """

    names: tuple[str, ...]
    help: str
    settings: Mapping[str, Any] = {}
    files: bool = False
    values: str = ""

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(self.settings.get("choices", ()))

    @property
    def is_option(self) -> bool:
        return self.names[0].startswith("-")

    @property
    def is_flag(self) -> bool:
        return self.settings.get("action") == "store_true"

    @property
    def field(self) -> str:
        """What its value is called among the options: its first long name, as argparse has it."""
        long_names = [name for name in self.names if name.startswith("--")]
        return (long_names or list(self.names))[0].lstrip("-").replace("-", "_")


class Command(NamedTuple):
    name: str
    help: str
    run: str = ""
    arguments: tuple[Argument, ...] = ()
    subcommands: tuple["Command", ...] = ()  # subcommands; `run` is then what happens without one
    group: str = ""


def _flag(*names: str, help: str) -> Argument:  # noqa: A002 - argparse's own word
    return Argument(names, help, {"action": "store_true"})


def _option(*names: str, help: str, files: bool = False, values: str = "", **settings: Any) -> Argument:  # noqa: A002
    return Argument(names, help, settings, files, values)


# Every command takes these.
COMMON = (
    _flag("--json", help="print the daemon's answer as JSON"),
    _option("-n", "--namespace", help="the namespace to act in, instead of the folder's own", metavar="NAME",
            values="namespaces"),
)  # fmt: skip

_WORDS = Argument(("words",), "what to look for; - reads it from standard input", {"nargs": "*", "metavar": "WORDS"})
_ID = Argument(
    ("id",), "an id, 8 or more digits of its end or start, or a number of the last answer", {"metavar": "ID"}
)
_IDS = Argument(("id",), _ID.help, {"metavar": "ID", "nargs": "+"})
_TAG = _option("-t", "--tag", help="a tag; may be given several times", action="append", default=[], metavar="TAG",
               values="tags")  # fmt: skip
_SPEAKER = _option("--speaker", help="who said it", metavar="NAME")
_DRY_RUN = _flag("--dry-run", help="only say what would happen")
_YES = _flag("-y", "--yes", help="do not ask")
_COUNT = _option("-k", "--top", help="how many to show", type=int, metavar="N")
_AS_OF = _option("--as-of", help="what was known then: 2026-05-01, 2026-05-01T18:30, or 3d ago as 3d", metavar="TIME")
_SINCE = _option("--since", help="what happened from then on: 2026-05-01, yesterday, 'last week', 'march 2024', 3d",
                 metavar="TIME")  # fmt: skip
_UNTIL = _option("--until", help="what happened up to then; with 'last week', up to its end", metavar="TIME")
_FOLDER = Argument(("folder",), "a folder of notes", {"metavar": "FOLDER"}, True)

_INFER = _flag("--infer", help="also remember each statement in it by itself")
_DEDUP = _option("--dedup", help="what becomes of one that is near what is known", choices=DEDUPS)
_EXPLAIN = _flag("--explain", help="show what was decided, and why")
_ADD = (
    Argument(("text",), "what to remember; - reads it from standard input", {"nargs": "*", "metavar": "TEXT"}),
    _TAG,
    _option("--key", help="your own name for it: the same key again replaces it", metavar="KEY"),
    _option("--kind", help="what sort of memory it is", choices=KINDS),
    _option("--category", help="what it is about", choices=CATEGORIES),
    _option("--importance", help="how much it matters, 0 to 1", type=float, metavar="X"),
    _SPEAKER,
    _option("--at", help="when it happened: 2026-05-01, 2026-05-01T18:30, or ms since 1970", metavar="TIME"),
    _option("--expires", help="when it is no longer true", metavar="TIME"),
    _option("--evidence", help="a path, URL or id it rests on", action="append", default=[], metavar="REF"),
    _option("--supersedes", help="the memory that this one replaces", action="append", default=[], metavar="ID"),
    _flag("--pin", help="never let it fade or be merged"),
    _INFER,
    _DEDUP,
    _EXPLAIN,
)
_FILES = Argument(("file",), "text files; without one, or -, standard input", {"nargs": "*", "metavar": "FILE"}, True)
_INGEST = (
    _FILES,
    _TAG,
    _option("--source", help="where it comes from, such as an article's name", metavar="NAME"),
    _SPEAKER,
    _option("--session", help="the session it belongs to", metavar="ID"),
    _option("--at", help="when it happened: 2026-05-01, 2026-05-01T18:30, or ms since 1970", metavar="TIME"),
    _INFER,
    _DEDUP,
    _EXPLAIN,
)
_TURNS = (
    Argument(("file",), 'JSON lines: {"role": "user", "content": "…", "speaker": "…", "at": "…"}; - reads them from '
             "standard input", {"metavar": "FILE", "nargs": "?", "default": "-"}, True),
    _option("--session", help="the conversation's id", metavar="ID", required=True),
    _TAG,
    _EXPLAIN,
)  # fmt: skip
_RECALL_OPTIONS = (
    _COUNT,
    _option("--offset", help="skip the first N", type=int, default=0, metavar="N"),
    _TAG,
    _option("--kind", help="only this kind", choices=KINDS, action="append", default=[]),
    _option("--category", help="only this category", choices=CATEGORIES, action="append", default=[]),
    _option("--layer", help="only this layer", choices=LAYERS, action="append", default=[]),
    _SINCE,
    _UNTIL,
    _AS_OF,
    _SPEAKER,
    _option("--source", help="only from this source, such as note or cli", metavar="NAME"),
    _option("--trust", help="only what is trusted at least this much", choices=TRUSTS),
    _option("--min-score", help="nothing below this score, 0 to 1", type=float, metavar="X"),
    _option("--sort", help="the order", choices=SORTS),
    _option("--ranker", help="how to rank", choices=RANKERS),
    _option("--group-by", help="one hit for each note, its best passage", choices=GROUPINGS),
    _option("--cut", help="gap: only what is near enough to be an answer, as on a terminal; none: the best N whatever "
            "they are, as in a pipe", choices=CUTS),
    _option("--budget", help="at most so many tokens in all; 0: no limit", type=int, metavar="N"),
)  # fmt: skip
_RECALL = (
    _WORDS,
    *_RECALL_OPTIONS,
    _flag("--dry", help="do not count this as a use of what is found"),
    _flag("--explain", help="show how each was ranked"),
)
_EDIT = (
    _ID,
    _option("--content", help="the new text; - reads it from standard input", metavar="TEXT"),
    _option(
        "-t", "--tag", help="the new tags; may be given several times", action="append", metavar="TAG", values="tags"
    ),
    _option("--importance", help="how much it matters, 0 to 1", type=float, metavar="X"),
    _option("--kind", help="what sort of memory it is", choices=KINDS),
    _option("--category", help="what it is about", choices=CATEGORIES),
    _flag("--pin", help="never let it fade or be merged"),
    _flag("--unpin", help="let it fade again"),
)
_REINDEX = (
    _DRY_RUN,
    _flag("--force", help="compute every vector again, even those that are there"),
    _flag("--stats", help="only say how many have their vector"),
    _option("--batch-size", help="how many texts at once", type=int, metavar="N"),
)
_NOTES = (
    Command("status", "the folders, how far each is read, what was passed over", ".admin.notes:notes_status"),
    Command("add", "watch a folder of notes", ".admin.notes:notes_add", (_FOLDER,)),
    Command("rm", "no longer watch a folder; its files stay as they are", ".admin.notes:notes_rm", (_FOLDER,)),
    Command("rescan", "look through every watched folder now", ".admin.notes:notes_rescan"),
)
_MODEL = Argument(("name",), "the model's name", {"metavar": "NAME"}, values="models")
_MODELS = (
    Command("list", "the catalogue: what there is, what is installed, what is in use", ".admin.models:models_list"),
    Command(
        "pull", "fetch a model; the only time the network is touched", ".admin.models:models_pull",
        (Argument(("name",), "the model's name", {"metavar": "NAME", "nargs": "?"}, values="models"),),
    ),
    Command(
        "import", "take a model from a file or folder of this machine", ".admin.models:models_import",
        (Argument(("path",), "the file or folder", {"metavar": "PATH"}, True),
         _option("--name", help="what to call it; weights that are known keep their own name", metavar="NAME"),
         _flag("--allow-unverified", help="take weights whose hash is not known")),
    ),
    Command("use", "switch to a model", ".admin.models:models_use", (_MODEL,)),
    Command(
        "calibrate", "measure from which similarity on texts count as near, for a model of your own",
        ".admin.models:models_calibrate",
        (Argument(("name",), "the model's name; else the one in use", {"metavar": "NAME", "nargs": "?"},
                  values="models"),),
    ),
    Command("reindex", "compute missing vectors", ".admin.models:reindex", _REINDEX),
)  # fmt: skip
_SERVICE = (
    Command("install", "start the daemon with your session", ".admin.service:install"),
    Command("uninstall", "no longer start it with your session", ".admin.service:uninstall"),
    Command("status", "whether the service is installed and runs", ".admin.service:status"),
    Command("logs", "what the service wrote", ".admin.service:logs", (_flag("-f", "--follow", help="keep following"),)),
)
_BENCH = (
    Command(
        "quality", "how well each ranker finds what answers a question", "..bench.quality:quality",
        (_option("--data", help="a folder of conversations and questions, in a format of the README", required=True,
                 files=True, metavar="FOLDER"),
         _option("--ranker", help="a ranker to measure; may be given several times, else all", choices=RANKERS,
                 action="append", default=[]),
         _flag("--pooled", help="all conversations in one namespace, instead of one each")),
    ),
    Command(
        "speed", "how fast it remembers and recalls here", "..bench.speed:speed",
        (_option("--sizes", help="how many memories: 1000,10000 unless told otherwise", metavar="N,N"),
         _option("--clients", help="how many ask at once: 1,8 unless told otherwise", metavar="N,N")),
    ),
)  # fmt: skip
_EXPORT = (
    Argument(("file",), "the file to write; without one, or -, standard output",
             {"metavar": "FILE", "nargs": "?"}, True),
    _flag("--force", help="replace the file"),
    _flag("--no-history", help="without earlier versions"),
    _flag("--vectors", help="with the vectors of the model in use"),
)  # fmt: skip
_IMPORT = (
    Argument(("file",), "the file of an export; - reads standard input", {"metavar": "FILE"}, True),
    _option("--from", help="whose export it is, where that is not seen", dest="source",
            choices=IMPORT_TOOLS),
    _option("--user", help="whose memories they become, whatever the export says", metavar="NAME"),
    _flag("--allow-forgotten", help="take in again what was forgotten here"),
    _DRY_RUN,
)  # fmt: skip
_RESTORE = (
    Argument(("folder",), "a backup; without one, the store itself goes back, by --at",
             {"metavar": "BACKUP", "nargs": "?"}, True),
    _option("--at", help="the moment to go back to: 2026-05-01, 2026-05-01T18:30, or a span back from now: 2h, 3d",
            metavar="TIME"),
    _option("--to", help="the data folder to make, instead of replacing the one in use", files=True, metavar="FOLDER"),
    _flag("--allow-forgotten", help="with what was forgotten since the backup"),
    _YES,
)  # fmt: skip
_TRASH = (
    Command("restore", "bring a memory back from the trash", ".commands.remember:trash_restore", (_IDS,)),
    Command("empty", "drop everything in the trash for good", ".commands.erase:trash_empty", (_DRY_RUN, _YES)),
)
_FORGET = (
    Argument(("id",), _ID.help, {"metavar": "ID", "nargs": "*"}),
    _TAG,
    _option("--kind", help="all of this kind", choices=KINDS, action="append", default=[]),
    _option("--category", help="all of this category", choices=CATEGORIES, action="append", default=[]),
    _option("--state", help="all in this state, such as trashed", choices=STATES, action="append", default=[]),
    _option("--source", help="all from this source, such as note or cli", metavar="NAME"),
    _SPEAKER,
    _SINCE,
    _UNTIL,
    _flag("--all", help="everything in the namespace"),
    _flag("--quoting", help="with the memories that quote it"),
    _flag("--everywhere", help="out of the backups and other copies of the store too, which are rewritten"),
    _DRY_RUN,
    _YES,
)

_LIST_OPTIONS = (
    _COUNT,
    _TAG,
    _option("--kind", help="only this kind", choices=KINDS, action="append", default=[]),
    _option("--category", help="only this category", choices=CATEGORIES, action="append", default=[]),
    _option("--layer", help="only this layer", choices=LAYERS, action="append", default=[]),
    _option("--state", help="only in this state, such as trashed", choices=STATES, action="append", default=[]),
    _option("--source", help="only from this source, such as note or cli", metavar="NAME"),
    _SPEAKER,
    _SINCE,
    _UNTIL,
    _AS_OF,
)

MEMORIES, DAEMON, NOTES_MODELS_AGENTS = "Memories", "The daemon", "Notes, models, agents"

COMMANDS = (
    Command("add", "remember something", ".commands.remember:add", _ADD, group=MEMORIES),
    Command("ingest", "take in texts, in pieces; what matters little is set aside", ".commands.ingest:ingest",
        _INGEST,
            group=MEMORIES),
    Command("turns", "take in a conversation", ".commands.ingest:turns", _TURNS, group=MEMORIES),
    Command("recall", "ask, by meaning and by word", ".commands.recall:recall", _RECALL, group=MEMORIES),
    Command("why", "why a memory is, or is not, among the answers to a question", ".commands.recall:why",
            (_ID, _WORDS, *_RECALL_OPTIONS), group=MEMORIES),
    Command("search", "look for words alone", ".commands.recall:search",
            (_WORDS, _COUNT, _TAG, _SINCE, _UNTIL, _AS_OF), group=MEMORIES),
    Command("list", "the memories of the namespace, the last stored first", ".commands.browse:list_memories",
        _LIST_OPTIONS,
            group=MEMORIES),
    Command("recent", "what happened last, in the namespace and in default", ".commands.browse:recent",
        _LIST_OPTIONS, group=MEMORIES),
    Command("tags", "which tags there are, and how many memories have each", ".commands.browse:tags",
        group=MEMORIES),
    Command("namespaces", "which namespaces there are, and how many memories each has",
        ".commands.browse:namespaces",
            group=MEMORIES),
    Command(
        "open", "open a hit of the last answer in your editor, at its line", ".commands.recall:open_hit",
        (Argument(("number",), "its number in the last answer", {"type": int, "nargs": "?", "default": 1,
                                                                 "metavar": "N"}),),
        group=MEMORIES,
    ),
    Command(
        "show", "show one memory whole", ".commands.remember:show",
        (_ID, _AS_OF, _flag("--edges", help="also the memories that it is connected to, and how")), group=MEMORIES
    ),
    Command(
        "history", "every version of a memory, and what each changed", ".commands.changes:history", (_ID, _COUNT),
        group=MEMORIES
    ),
    Command(
        "diff", "what was added, changed and removed since then", ".commands.changes:diff",
        (Argument(("since",), "a time (2026-05-01, 2h, yesterday) or a change (seq:12)", {"metavar": "SINCE"}),
         _option("--until", help="up to then, instead of up to now", metavar="TIME"), _COUNT),
        group=MEMORIES,
    ),
    Command("edit", "change a memory in your editor, or by options", ".commands.remember:edit", _EDIT,
        group=MEMORIES),
    Command("rm", "move memories to the trash", ".commands.remember:rm", (_IDS,), group=MEMORIES),
    Command(
        "trash", "what is in the trash", ".commands.remember:trash",
        (_COUNT, _flag("--set-aside", help="what a door set aside as mattering little, instead")), _TRASH, MEMORIES,
    ),
    Command(
        "forget", "remove memories and every trace of them, for good", ".commands.erase:forget", _FORGET,
        group=MEMORIES
    ),
    Command(
        "undo", "take back the last change", ".commands.remember:undo",
        (Argument(("change",), "the number of an earlier change", {"type": int, "nargs": "?", "metavar": "CHANGE"}),
         _option("--seq", help="the same", type=int, metavar="CHANGE"),
         _option("--group", help="every change of a group", metavar="GROUP"), _DRY_RUN),
        group=MEMORIES,
    ),
    Command(
        "context", "the block of memories to put before a prompt", ".commands.recall:context_block",
        (_WORDS, _COUNT, _TAG, _option("--budget", help="at most so many tokens; 0: no limit", type=int, metavar="N"),
         _option("--max-chars", help="at most so many characters", type=int, metavar="N"),
         _flag("--ids", help="with ids")),
        group=MEMORIES,
    ),
    Command(
        "reclassify", "decide anew of what sort each memory is and how much it matters, where a rule decided",
        ".commands.ingest:reclassify", (_DRY_RUN,), group=MEMORIES,
    ),
    Command("export", "everything as JSON, one value a line", ".commands.transfer:export", _EXPORT, group=MEMORIES),
    Command("import", "take in an export, of mnemo or of another tool", ".commands.transfer:import_", _IMPORT,
        group=MEMORIES),
    Command(
        "backup", "copy the whole store, while it is in use", ".admin.backup:backup",
        (Argument(("folder",), "a new folder for the copy; without one it goes beside the data",
                  {"metavar": "FOLDER", "nargs": "?"}, True),),
        group=DAEMON,
    ),
    Command("check", "whether everything that is kept is as it should be", ".admin.check:check", group=DAEMON),
    Command("repair", "mend what a check finds; nothing is deleted", ".admin.check:repair", (_DRY_RUN,),
        group=DAEMON),
    Command("restore", "put a backup in the place of the store, or take it back to a moment",
        ".admin.backup:restore",
            _RESTORE, group=DAEMON),
    Command("compact", "give up room, and the history that `history.keep` does not ask for", ".admin.backup:compact",
            (_DRY_RUN,), group=DAEMON),
    Command("notes", "folders of notes that are remembered", ".admin.notes:notes_status", (), _NOTES,
        NOTES_MODELS_AGENTS),
    Command("models", "embedding and language models", ".admin.models:models_list", (), _MODELS,
        NOTES_MODELS_AGENTS),
    Command("reindex", "compute missing vectors", ".admin.models:reindex", _REINDEX, group=NOTES_MODELS_AGENTS),
    Command("mcp", "serve an agent over standard input and output", "..mcp.bridge:run", group=NOTES_MODELS_AGENTS),
    Command(
        "init", "set things up: folders, configuration, notes", ".admin.daemon:init",
        (Argument(("folder",), "folders of notes to watch", {"nargs": "*", "metavar": "FOLDER"}, True),),
        group=DAEMON,
    ),
    Command("try", "try it on a folder of notes; nothing is installed or kept", ".admin.try_notes:run", (_FOLDER,),
        group=DAEMON),
    Command("bench", "measure the rankers, or this machine, on a store of its own",
        "..bench.quality:require_subcommand", (), _BENCH, DAEMON),
    Command("up", "start the daemon", ".admin.daemon:up", group=DAEMON),
    Command("down", "stop the daemon", ".admin.daemon:down", group=DAEMON),
    Command(
        "status", "the state of every part", ".admin.daemon:status",
        (_flag("-w", "--watch", help="keep showing it until ^C"),), group=DAEMON,
    ),
    Command("doctor", "check that everything works, and say how to mend what does not", ".admin.doctor:run",
        group=DAEMON),
    Command("config", "every setting, its value, and where it came from", ".admin.daemon:config",
            (Argument(("key",), "only the value of one, such as folders.socket", {"metavar": "KEY", "nargs": "?"}),),
            group=DAEMON),
    Command("service", "start the daemon with your session", ".admin.service:status", (), _SERVICE, DAEMON),
    Command(
        "completion", "print the completion script for a shell", ".completion:run",
        (Argument(("shell",), "the shell", {"choices": ("bash", "zsh", "fish")}),),
        (Command("values", "what may stand for a tag, a namespace or a model, for such a script",
            ".commands.browse:values",
                 (Argument(("of",), "of what", {"choices": ("tags", "namespaces", "models")}),)),), DAEMON,
    ),
    Command(
        "api", "send a request to the daemon, and print its answer", ".admin.request:call",
        (Argument(("method",), "GET, POST, PATCH or DELETE", {"metavar": "METHOD"}),
         Argument(("path",), "the route, such as /v1/status", {"metavar": "PATH"}),
         Argument(("data",), "the body, as JSON; - reads it from standard input", {"metavar": "BODY", "nargs": "?"})),
        group=DAEMON,
    ),
)  # fmt: skip


def find_command(words: list[str]) -> tuple[Command, list[str], list[str]] | None:
    """The command that `words` begin with: the command, its full name, and the words that are left."""
    if not words:
        return None
    command = next((each for each in COMMANDS if each.name == words[0]), None)
    if command is None:
        return None
    part = next((each for each in command.subcommands if words[1:] and each.name == words[1]), None)
    if part is not None:
        return part, words[:2], words[2:]
    return command, words[:1], words[1:]


def all_commands() -> Iterator[tuple[tuple[str, ...], Command]]:
    """Every command with its full name, those of subcommands after the command that has them."""
    for command in COMMANDS:
        yield (command.name,), command
        for part in command.subcommands:
            yield (command.name, part.name), part

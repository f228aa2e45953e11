"""The commands about the daemon and its parts: init, up, down, status, config, notes, models, reindex."""

import time
from pathlib import Path
from typing import Any

from mnemo_client import namespace, process
from mnemo_client.cli import offline_process
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format import display
from mnemo_client.errors import EXIT_DONE, NotFoundError, UnreachableError, UsageError
from mnemo_client.paths import config_file, data_folder

DEFAULT_MODEL = "all-MiniLM-L6-v2"  # SPEC 4.1
WATCH_SECONDS = 1.0
CONFIG_TEMPLATE = """\
# mnemo config shows every setting, its value and where it came from.
# A setting stands under its section:
#
# [client]
# project_namespaces = true   # a git work tree is a namespace of its own
"""


# The daemon


def init(invocation: CommandContext) -> int:
    """Folders, a configuration file to begin with, a running daemon, the folders of notes; then what is next."""
    for folder in invocation.options.folder:
        _folder(invocation, folder)
    config = config_file(invocation.environ)
    process.make_private_folder(data_folder(invocation.environ))
    if not config.exists():
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(CONFIG_TEMPLATE, encoding="utf-8")
    client = invocation.client()
    watched = {root.path for root in client.notes_roots()}
    for folder in invocation.options.folder:
        if str(_folder(invocation, folder)) not in watched:
            _add_root(invocation, folder)
    status = client.status()
    if invocation.wants_json:
        invocation.print_answer()
        return EXIT_DONE
    look, home = invocation.style, invocation.home
    invocation.print(
        f"{look.good('ready')}: the daemon runs",
        f"  memories       {display.short_path(status.data_dir, None, home)}",
        f"  configuration  {display.short_path(str(config), None, home)}",
    )
    if lines := display.remaining_work_lines(status):
        invocation.print(*(f"  {line}" for line in lines), "  how far it is:  mnemo status --watch")
    model = status.models.get("embedding")
    if model is None or model.state == "absent":
        invocation.print(f"next, to find by meaning too:  mnemo models pull {DEFAULT_MODEL}")
    if not status.notes.roots:
        invocation.print("next, to remember your notes:  mnemo notes add FOLDER")
    invocation.print("then:  mnemo add 'something worth knowing'   and   mnemo recall WORDS")
    return EXIT_DONE


def up(invocation: CommandContext) -> int:
    started = process.ensure_running(invocation.environ, invocation.message, is_asked_for=True)
    health = invocation.connect().health()
    if invocation.wants_json:
        invocation.print_answer()
    else:
        what = "started" if started else "runs already"
        invocation.print(f"the daemon {what}: {health.version}, {health.state}")
    return EXIT_DONE


def down(invocation: CommandContext) -> int:
    stopped = process.stop(invocation.connect())
    if invocation.wants_json:
        invocation.print_value({"stopped": stopped})
    else:
        invocation.print("the daemon has stopped" if stopped else "no daemon was running")
    return EXIT_DONE


def status(invocation: CommandContext) -> int:
    """Does not start the daemon: whether it runs is part of what is asked."""
    if invocation.options.watch:
        return _watch_status(invocation)
    answer = invocation.connect().status()
    if invocation.wants_json:
        invocation.print_answer()
    else:
        invocation.print(*display.status_lines(answer, invocation.style, invocation.home))
    return EXIT_DONE


def _watch_status(invocation: CommandContext) -> int:
    """Until ^C; on a terminal each takes the place of the one before."""
    while True:
        try:
            answer = invocation.connect().status()
            lines = display.status_lines(answer, invocation.style, invocation.home)
        except UnreachableError as gone:
            lines = [gone.message]
        if invocation.wants_json:
            invocation.print_answer()
        else:
            if invocation.style.width is not None:
                invocation.terminal.out.write("\x1b[H\x1b[2J")
            invocation.print(*lines)
        invocation.terminal.flush()
        time.sleep(WATCH_SECONDS)


def config(invocation: CommandContext) -> int:
    """Every setting with its origin, or the bare value of the one that is named."""
    answer, key = invocation.client().config(), invocation.options.key
    if key is not None:
        named = next((each for each in answer.values if each.key == key), None)
        if named is None:
            raise UsageError(f"there is no setting {key!r}", "see them all: mnemo config")
        invocation.print_value(named.value) if invocation.wants_json else invocation.print(str(named.value))
    elif invocation.wants_json:
        invocation.print_answer()
    else:
        invocation.page(display.config_lines(answer, invocation.style))
        invocation.message(f"the file: {answer.file}; a variable such as MNEMO_SECTION_KEY goes before it")
    return EXIT_DONE


# Notes


def notes_status(invocation: CommandContext) -> int:
    answer = invocation.client().notes_status()
    if invocation.wants_json:
        invocation.print_answer()
    elif not answer.roots:
        invocation.message("no folder is watched yet; add one with: mnemo notes add FOLDER")
    else:
        invocation.page(display.notes_lines(answer, invocation.style, invocation.cwd, invocation.home))
    return EXIT_DONE


def notes_add(invocation: CommandContext) -> int:
    _add_root(invocation, invocation.options.folder)
    if invocation.wants_json:
        invocation.print_answer()
    return EXIT_DONE


def _add_root(invocation: CommandContext, text: str) -> None:
    """A folder's namespace is the option's, else what the folder itself says, not the one it was typed in."""
    folder = _folder(invocation, text)
    chosen = namespace.choose_namespace(invocation.options.namespace, folder, invocation.environ)
    root = invocation.client().add_root(folder, chosen.name)
    if not invocation.wants_json:
        shown = display.short_path(root.path, invocation.cwd, invocation.home)
        invocation.print(f"{invocation.style.good('watching')} {shown} · namespace {root.namespace}")


def _folder(invocation: CommandContext, text: str) -> Path:
    folder = (invocation.cwd / Path(text).expanduser()).resolve()
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder" if folder.exists() else f"there is no folder {folder}")
    return folder


def notes_rm(invocation: CommandContext) -> int:
    """The folder may be gone already; its path or id is enough."""
    text = invocation.options.folder
    client = invocation.client()
    wanted = {text, str((invocation.cwd / Path(text).expanduser()).resolve()), str(Path(text).expanduser())}
    root = next((root for root in client.notes_roots() if {root.id, root.path} & wanted), None)
    if root is None:
        raise NotFoundError(f"{text} is not watched", "see the folders with: mnemo notes status")
    gone = client.remove_root(root.id)
    if invocation.wants_json:
        invocation.print_answer()
    else:
        shown = display.short_path(root.path, invocation.cwd, invocation.home)
        moved = f"{display.plural(gone.deleted or 0, 'memory', 'memories')} moved to the trash"
        invocation.print(f"no longer watching {shown}: {moved}, its files are as they were")
    return EXIT_DONE


def notes_rescan(invocation: CommandContext) -> int:
    answer = invocation.client().rescan()
    if invocation.wants_json:
        invocation.print_answer()
    else:
        invocation.print(*display.notes_lines(answer, invocation.style, invocation.cwd, invocation.home))
    return EXIT_DONE


# Models


def models_list(invocation: CommandContext) -> int:
    answer = invocation.client().models()
    if invocation.wants_json:
        invocation.print_answer()
    else:
        invocation.print(*display.model_lines(answer, invocation.style))
        if answer.embedding.state == "absent":
            invocation.message(f"none is installed; fetch the default with: mnemo models pull {DEFAULT_MODEL}")
    return EXIT_DONE


def models_pull(invocation: CommandContext) -> int:
    """Fetches in a process of its own, which needs no daemon; one that runs then takes the model up."""
    return _activate_model(
        invocation, offline_process.run_offline(invocation, "pull", invocation.options.name or DEFAULT_MODEL)
    )


def models_import(invocation: CommandContext) -> int:
    options = invocation.options
    path = (invocation.cwd / Path(options.path).expanduser()).resolve()
    if not path.exists():
        raise UsageError(f"there is no {path}")
    words = ["import", str(path), *(["--name", options.name] if options.name else [])]
    words += ["--allow-unverified"] if options.allow_unverified else []
    return _activate_model(invocation, offline_process.run_offline(invocation, *words))


def _activate_model(invocation: CommandContext, installed: dict[str, Any]) -> int:
    """Has a daemon that runs use the embedding model that was just installed; says what is there now."""
    name = str(installed["name"])
    state = "the daemon takes it up when it starts"
    if installed["role"] == "embedding":
        try:
            invocation.connect().use_model(name)
            state = "the daemon takes it up; see how far it is with: mnemo status --watch"
        except UnreachableError:
            pass
    else:
        state = "it is ready to be used"
    if invocation.wants_json:
        invocation.print_value(installed)
    else:
        checked = "its hash is the known one" if installed.get("verified") else "its hash could not be checked"
        invocation.print(f"{name} is installed ({checked}): {installed.get('path')}", state)
    return EXIT_DONE


def models_use(invocation: CommandContext) -> int:
    name = invocation.options.name
    invocation.client().use_model(name)
    if invocation.wants_json:
        invocation.print_answer()
    else:
        invocation.print(f"switching to {name}; answers come from the old vectors until the new ones are whole")
    return EXIT_DONE


def models_calibrate(invocation: CommandContext) -> int:
    """Measures in a process of its own; the daemon reads what came of it when it starts."""
    measured = offline_process.run_offline(
        invocation, "calibrate", invocation.options.name or _model_in_use(invocation)
    )
    if invocation.wants_json:
        invocation.print_value(measured)
    else:
        invocation.print(*display.calibration_lines(measured, invocation.style))
        invocation.message("the daemon takes it up when it starts")
    return EXIT_DONE


def _model_in_use(invocation: CommandContext) -> str:
    try:
        return invocation.connect().models().embedding.name or DEFAULT_MODEL
    except UnreachableError:
        return DEFAULT_MODEL


def reindex(invocation: CommandContext) -> int:
    options = invocation.options
    answer = invocation.client().reindex(
        dry_run=options.dry_run or options.stats, force=options.force, batch_size=options.batch_size
    )
    if invocation.wants_json:
        invocation.print_answer()
        return EXIT_DONE
    dimensions = f", {answer.dimensions} dimensions" if answer.dimensions else ""
    share = f"{display.number(answer.with_vectors)} of {display.number(answer.total)}"
    invocation.print(f"memories with their vector: {share}{dimensions}")
    if not options.stats:
        verb = "would be" if answer.dry_run else "are"
        invocation.print(f"{display.number(answer.queued)} {verb} computed")
    return EXIT_DONE

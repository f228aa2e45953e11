"""The commands about the daemon: init, up, down, status, jobs, config; about its watched folders: notes; and api.

`mnemo api` sends a request to any route of the daemon; clients/docs/http.md lists them."""

import json
import time
from pathlib import Path

import msgspec

from mnemo_client import namespace, process
from mnemo_client.cli.admin.models import DEFAULT_MODEL
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.state import (
    config_lines,
    job_lines,
    notes_lines,
    remaining_work_lines,
    size_lines,
    status_lines,
)
from mnemo_client.cli.format.units import plural, short_path
from mnemo_client.cli.terminal import escape_json, sanitize
from mnemo_client.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    NotFoundError,
    RefusalError,
    StartError,
    UnreachableError,
    UsageError,
)
from mnemo_client.paths import config_file, data_folder
from mnemo_client.protocol.primitives import API_VERSION
from mnemo_client.protocol.status import ConfigAnswer

WATCH_SECONDS = 1.0
CONFIG_TEMPLATE = """\
# mnemo config shows every setting, its value and its origin.
# Write a setting under its section:
#
# [client]
# project_namespaces = true   # a git work tree is a namespace of its own
"""
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def init(context: CommandContext) -> None:
    """Create folders and a configuration file, start the daemon, watch the folders; then print the next steps."""
    folders = [context.folder(text) for text in context.options.folder]
    config = config_file(context.environ)
    process.make_private_folder(data_folder(context.environ))
    if not config.exists():
        config.parent.mkdir(parents=True, exist_ok=True)
        config.touch(mode=0o600)
        config.write_text(CONFIG_TEMPLATE, encoding="utf-8")
    client = context.client()
    watched = {root.path for root in client.notes_roots().roots}
    for folder in folders:
        if str(folder) not in watched:
            add_root(context, folder)
    status = client.status()
    if context.print_json_if_asked():
        return
    style, home = context.style, context.home
    context.print(
        f"{style.good('ready')}: the daemon runs",
        f"  memories       {short_path(status.data_dir, None, home)}",
        f"  configuration  {short_path(str(config), None, home)}",
    )
    if lines := remaining_work_lines(status):
        context.print(*(f"  {line}" for line in lines), "  see the progress:  mnemo status --watch")
    model = status.models.get("embedding")
    if model is None or model.state == "absent":
        context.print(f"next, to search by meaning too:  mnemo models pull {DEFAULT_MODEL}")
    if not status.notes.roots:
        context.print("next, to remember your notes:  mnemo notes add FOLDER")
    context.print("then:  mnemo add 'something worth knowing'   and   mnemo recall WORDS")


def up(context: CommandContext) -> None:
    started = process.ensure_running(context.environ, context.message, is_asked_for=True)
    client = context.connect(is_scoped=False)
    client.notes_roots()  # the first answer that needs the store: a daemon that cannot open it has ended by then
    health = client.health()
    if not context.print_json_if_asked():
        what = "started" if started else "already runs"
        context.print(f"the daemon {what}: {health.version}, {health.state}")


def down(context: CommandContext) -> None:
    stopped = process.stop(context.connect(is_scoped=False))
    if not context.print_json_if_asked({"stopped": stopped}):
        context.print("the daemon has stopped" if stopped else "no daemon was running")


def status(context: CommandContext) -> int:
    """Show the state of every part. The daemon is not started: if it runs is part of the answer."""
    if context.options.watch:
        return _watch_status(context)
    try:
        answer = context.connect(is_scoped=False).status()
    except UnreachableError as error:
        if faults := context.run_offline("config")["faults"]:
            error.hint = f"none can start: {faults[0]}; {process.SETTINGS_FIX}"
        raise
    if not context.print_json_if_asked():
        context.print(*status_lines(answer, context.style, context.home))
        if context.options.sizes:
            context.print("", *size_lines(answer, context.style))
    return EXIT_DONE


def _watch_status(context: CommandContext) -> int:
    """Show the status until ^C; on a terminal each one replaces the one before."""
    while True:
        problem = None
        try:
            answer = context.connect(is_scoped=False).status()
            lines = status_lines(answer, context.style, context.home)
        except UnreachableError as error:
            lines, problem = [error.message], {"error": {"code": error.code, "message": error.message}}
        if not context.print_json_if_asked(problem):
            if context.style.width is not None:
                context.terminal.out.write("\x1b[H\x1b[2J")
            context.print(*lines)
        context.terminal.flush()
        time.sleep(WATCH_SECONDS)


def jobs(context: CommandContext) -> None:
    answer = context.client().jobs()
    if not context.print_json_if_asked():
        context.page(job_lines(answer, context.style))


def config(context: CommandContext) -> int:
    """Show every setting with its origin, or the bare value of the one that is named.

    Wrong settings are listed, too, with exit 1: they keep the next daemon from starting.
    """
    listed = context.run_offline("config")
    faults: list[str] = listed["faults"]
    try:
        process.ensure_running(context.environ, context.message)
        answer = context.connect(is_scoped=False).config()
    except StartError:
        if not faults:
            raise
        answer = msgspec.convert(listed, ConfigAnswer)
    key = context.options.key
    if key is not None:
        named = next((each for each in answer.values if each.key == key), None)
        if named is None:
            raise UsageError(f"there is no setting {key!r}", "see them all: mnemo config")
        context.print_value(named.value) if context.wants_json else context.print(str(named.value))
    elif context.wants_json:
        context.print_value(msgspec.to_builtins(answer)) if faults else context.print_answer()
    else:
        context.page(config_lines(answer, context.style))
        context.message(f"the file: {answer.file}; a variable such as MNEMO_SECTION_KEY overrides it")
    for fault in faults:
        context.terminal.error(fault)
    return EXIT_FAILED if faults else EXIT_DONE


def notes_status(context: CommandContext) -> None:
    answer = context.client().notes_status()
    if context.wants_json:
        context.print_answer()
    elif not answer.roots:
        context.message("no folder is watched yet; add one with: mnemo notes add FOLDER")
    else:
        context.page(notes_lines(answer, context.style, context.cwd, context.home))


def notes_add(context: CommandContext) -> None:
    add_root(context, context.folder(context.options.folder))
    context.print_json_if_asked()


def add_root(context: CommandContext, folder: Path) -> None:
    """Watch a folder, in the namespace of the option or else of that folder, not of the working directory."""
    chosen = namespace.choose_namespace(context.options.namespace, folder, context.environ)
    root = context.client().add_root(folder, chosen.name)
    if not context.wants_json:
        shown = short_path(root.path, context.cwd, context.home)
        context.print(f"{context.style.good('watching')} {shown} · namespace {root.namespace}")


def notes_rm(context: CommandContext) -> None:
    """Stop watching a folder, by its path or id; it need not exist any more."""
    text = context.options.folder
    client = context.client()
    wanted = {text, str(context.path(text)), str(Path(text).expanduser())}
    root = next((root for root in client.notes_roots().roots if {root.id, root.path} & wanted), None)
    if root is None:
        raise NotFoundError(f"{text} is not watched", "see the folders with: mnemo notes status")
    answer = client.remove_root(id=root.id)
    if not context.print_json_if_asked():
        shown = short_path(root.path, context.cwd, context.home)
        moved = f"{plural(answer.deleted or 0, 'memory', 'memories')} moved to the trash"
        context.print(f"no longer watching {shown}: {moved}, its files are unchanged")
        if answer.deleted:
            context.message(f"its memories return with: mnemo notes add {shown}")


def notes_rescan(context: CommandContext) -> None:
    answer = context.client().rescan()
    if not context.print_json_if_asked():
        context.print(*notes_lines(answer, context.style, context.cwd, context.home))


def api(context: CommandContext) -> int:
    """Send one request and print the body of the answer, also if it is an error."""
    options = context.options
    method = options.method.upper()
    if method not in METHODS:
        raise UsageError(f"{options.method!r} is not a method", f"the methods are: {', '.join(METHODS)}")
    body = None if options.data is None else context.text([options.data], "send").encode()
    client = context.client()
    path = "/" + options.path.lstrip("/").removeprefix(f"{API_VERSION}/")
    try:
        for piece in client.call(method, path, body):
            context.print(_body_text(context, piece))
    except RefusalError as error:
        context.print(client.last_body.decode(errors="replace").rstrip("\n"))
        context.terminal.error(error.message, error.hint)
        return error.exit_code
    return EXIT_DONE


def _body_text(context: CommandContext, line: bytes) -> str:
    """Return JSON indented if a person reads it; otherwise, and for anything else, the line as it is."""
    text = line.decode(errors="replace")
    if not context.is_for_terminal:
        return text
    try:
        return escape_json(json.dumps(json.loads(text), indent=2, ensure_ascii=False))
    except ValueError:
        return sanitize(text, lines=True)

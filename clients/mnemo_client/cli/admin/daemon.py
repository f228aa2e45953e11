"""The commands about the daemon: init, up, down, status, jobs, config."""

import time

import msgspec

from mnemo_client import process
from mnemo_client.cli import offline_process
from mnemo_client.cli.admin.models import DEFAULT_MODEL
from mnemo_client.cli.admin.notes import add_root
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.state import config_lines, job_lines, remaining_work_lines, status_lines
from mnemo_client.cli.format.units import short_path
from mnemo_client.errors import EXIT_DONE, EXIT_FAILED, StartError, UnreachableError, UsageError
from mnemo_client.paths import config_file, data_folder
from mnemo_client.protocol.status import ConfigAnswer

WATCH_SECONDS = 1.0
CONFIG_TEMPLATE = """\
# mnemo config shows every setting, its value and its origin.
# Write a setting under its section:
#
# [client]
# project_namespaces = true   # a git work tree is a namespace of its own
"""


# The daemon


def init(context: CommandContext) -> int:
    """Create folders and a configuration file, start the daemon, watch the folders; then print the next steps."""
    folders = [context.folder(text) for text in context.options.folder]
    config = config_file(context.environ)
    process.make_private_folder(data_folder(context.environ))
    if not config.exists():
        config.parent.mkdir(parents=True, exist_ok=True)
        config.touch(mode=0o600)
        config.write_text(CONFIG_TEMPLATE, encoding="utf-8")
    client = context.client()
    watched = {root.path for root in client.notes_roots()}
    for folder in folders:
        if str(folder) not in watched:
            add_root(context, folder)
    status = client.status()
    if context.print_json_if_asked():
        return EXIT_DONE
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
    return EXIT_DONE


def up(context: CommandContext) -> int:
    started = process.ensure_running(context.environ, context.message, is_asked_for=True)
    health = context.connect().health()
    if not context.print_json_if_asked():
        what = "started" if started else "already runs"
        context.print(f"the daemon {what}: {health.version}, {health.state}")
    return EXIT_DONE


def down(context: CommandContext) -> int:
    stopped = process.stop(context.connect())
    if not context.print_json_if_asked({"stopped": stopped}):
        context.print("the daemon has stopped" if stopped else "no daemon was running")
    return EXIT_DONE


def status(context: CommandContext) -> int:
    """Show the state of every part. The daemon is not started: if it runs is part of the answer."""
    if context.options.watch:
        return _watch_status(context)
    answer = context.connect().status()
    if not context.print_json_if_asked():
        context.print(*status_lines(answer, context.style, context.home))
    return EXIT_DONE


def _watch_status(context: CommandContext) -> int:
    """Show the status until ^C; on a terminal each one replaces the one before."""
    while True:
        problem = None
        try:
            answer = context.connect().status()
            lines = status_lines(answer, context.style, context.home)
        except UnreachableError as error:
            lines, problem = [error.message], {"error": {"code": error.code, "message": error.message}}
        if not context.print_json_if_asked(problem):
            if context.style.width is not None:
                context.terminal.out.write("\x1b[H\x1b[2J")
            context.print(*lines)
        context.terminal.flush()
        time.sleep(WATCH_SECONDS)


def jobs(context: CommandContext) -> int:
    """Print the background jobs and how each stands."""
    answer = context.client().jobs()
    if not context.print_json_if_asked():
        context.page(job_lines(answer, context.style))
    return EXIT_DONE


def config(context: CommandContext) -> int:
    """Show every setting with its origin, or the bare value of the one that is named.

    Where wrong settings keep the daemon from starting, list the others; exit 1.
    """
    faults: list[str] = []
    try:
        answer = context.client().config()
    except StartError as error:
        listed = offline_process.run_offline(context, "config")
        answer, faults = msgspec.convert(listed, ConfigAnswer), listed["faults"]
        if not faults:
            raise error from None
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

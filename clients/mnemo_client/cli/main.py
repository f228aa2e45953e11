"""The command `mnemo`: finds the command, parses its options, runs it, and reports errors in plain words.

The exit codes are in `errors`, and explained by `mnemo help exit-codes`. SPEC 14.
"""

import gc
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO

from mnemo_client.cli import command_table, terminal
from mnemo_client.cli.command_types import Command
from mnemo_client.errors import (
    EXIT_BROKEN_PIPE,
    EXIT_DONE,
    EXIT_STOPPED,
    EXIT_USAGE,
    MnemoError,
    RefusalError,
    UsageError,
)
from mnemo_client.version import VERSION

AGE_SECONDS_MAX = 30.0  # of this process: one that seems older runs where the clocks do not agree


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command of this process and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    screen = terminal.standard_terminal(os.environ)
    try:
        code = run(words, screen, os.environ, sys.stdin, _process_start())
        screen.flush()
    except KeyboardInterrupt:
        screen.clear_progress()
        code = EXIT_STOPPED
    except BrokenPipeError:
        # The reader of the output closed it. Without this, Python would report the error again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_BROKEN_PIPE
    return code


def _process_start() -> float:
    """Return the start of this process on the monotonic clock, to 10 ms on Linux; elsewhere the processor time that it
    used is taken for its age."""
    age = time.process_time()
    try:
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        of_system = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
        age = of_system if age <= of_system <= AGE_SECONDS_MAX else age
    except (OSError, ValueError, IndexError, AttributeError):
        pass
    return time.monotonic() - age


def run(
    words: list[str], screen: terminal.Terminal, environ: Mapping[str, str], stdin: TextIO, began: float | None = None
) -> int:
    """Run the command that `words` name. An error is reported in a line or two; only bugs raise."""
    try:
        return _run(words, screen, environ, stdin, began)
    except MnemoError as error:
        from mnemo_client import process

        return _report(process.with_reason(error), words, screen)
    except BrokenPipeError:
        raise
    except OSError as failed:
        place = f" ({failed.filename})" if failed.filename else ""
        return _report(MnemoError(f"the operating system reports: {failed.strerror or failed}{place}"), words, screen)


def _report(error: MnemoError, words: list[str], screen: terminal.Terminal) -> int:
    """Report an error to a person, and with --json also on standard output to a program; return its exit code."""
    screen.error(error.message, error.hint)
    if "--json" in words:
        import json

        shown = {"code": error.code, "message": error.message, "hint": error.hint, "exit_code": error.exit_code}
        screen.print(terminal.escape_json(json.dumps({"error": shown}, ensure_ascii=False)))
    # An agent takes exit code 2 of a hook for an order to refuse the prompt.
    return EXIT_DONE if words[:1] == ["hook"] else error.exit_code


def _run(
    words: list[str], screen: terminal.Terminal, environ: Mapping[str, str], stdin: TextIO, began: float | None
) -> int:
    words = _move_common_options_last(words)
    if not words or words[0] in ("-h", "--help", "help"):
        _print_help(words[1:], screen)
        return EXIT_DONE if words else EXIT_USAGE
    if words[0] == "--version":
        screen.print(f"mnemo {VERSION}")
        return EXIT_DONE
    found = command_table.find_command(words)
    if found is None:
        raise _unknown_command(words[0])
    command, name, rest = found
    if "-h" in rest or "--help" in rest:
        _print_help(name, screen)
        return EXIT_DONE
    if command.subcommands and rest and not rest[0].startswith("-") and not command.arguments:
        raise _unknown_subcommand(command, rest[0])
    gc.disable()  # what loading makes stays: to look for garbage in it takes a twentieth of a start
    try:
        options, function = parse(command, name, rest), _load_function(command)
        from mnemo_client.cli.context import CommandContext
    finally:
        gc.enable()
    context = CommandContext(options, screen, environ, Path.cwd(), stdin, began)
    try:
        return function(context) or EXIT_DONE
    except RefusalError as error:
        error.message = _with_option_name(error.message, str(error.field or ""), command)
        raise
    finally:
        context.close()


def parse(command: Command, name: list[str], rest: list[str]) -> SimpleNamespace:
    """Parse the options of one command. Raises UsageError."""
    if not rest and all(each.is_option and not each.settings.get("required") for each in command.arguments):
        # The commonest commands have no arguments; they need not wait for argparse to be imported.
        given = {each.field: False if each.is_flag else each.settings.get("default") for each in command.arguments}
        return SimpleNamespace(**{"json": False, "namespace": None} | given)
    from mnemo_client.cli.option_parser import build_parser

    return build_parser(command, name).parse_intermixed_args(rest, SimpleNamespace())


def _with_option_name(message: str, field: str, command: Command) -> str:
    """Return the message about a field of the request with the name of the option or argument that gave it."""
    name = field.partition("[")[0]
    meant = command_table.OPTION_FIELDS.get(name, name)
    found = next((each for each in (*command.arguments, *command_table.COMMON) if each.field == meant), None)
    if found is None:
        return message
    shown = next((each for each in found.names if each.startswith("--")), str(found.settings.get("metavar", meant)))
    rest = message.removeprefix(f"{field}: ")
    return (message if rest == message else f"{shown}: {rest}").replace(f"`{field}`", shown)


def _print_help(words: list[str], screen: terminal.Terminal) -> None:
    """Print the page of help that the words name. Raises UsageError."""
    from mnemo_client.cli import help_pages

    lines = help_pages.topic_lines(words, screen.style)
    if lines is None:
        found = command_table.find_command(words)
        raise _unknown_subcommand(found[0], words[1]) if found is not None else _unknown_command(words[0])
    for line in lines:
        screen.print(line)


def _move_common_options_last(words: list[str]) -> list[str]:
    """Move leading common options behind the command: `mnemo --json status` is `mnemo status --json`."""
    moved: list[str] = []
    while words:
        takes = 1 if words[0] == "--json" or words[0].startswith("--namespace=") else 0
        takes = 2 if words[0] in ("-n", "--namespace") else takes
        if not takes:
            break
        moved, words = moved + words[:takes], words[takes:]
    return words + moved


def _load_function(command: Command) -> "Callable[..., int | None]":
    module, _, name = command.run.partition(":")
    function: Callable[..., int | None] = getattr(import_module(module, __package__), name)
    return function


def _unknown_command(word: str) -> UsageError:
    from difflib import get_close_matches

    meant = command_table.OTHER_NAMES.get(word)
    near = [meant] if meant else get_close_matches(word, [each.name for each in command_table.COMMANDS], n=1)
    return UsageError(
        f"there is no command {word!r}", f"did you mean: mnemo {near[0]}" if near else "see: mnemo --help"
    )


def _unknown_subcommand(command: Command, word: str) -> UsageError:
    names = ", ".join(part.name for part in command.subcommands)
    if not names:
        return UsageError(f"there is no command 'mnemo {command.name} {word}'", f"see: mnemo help {command.name}")
    return UsageError(f"there is no command 'mnemo {command.name} {word}'", f"there are: {names}")


if __name__ == "__main__":
    sys.exit(main())

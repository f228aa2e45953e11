"""The command `mnemo`: finds the command, parses its options, runs it, and reports errors in plain words.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 nothing found, 4 daemon unreachable, 130 interrupted by ^C. SPEC 14.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO

from mnemo_client.cli import command_table, terminal
from mnemo_client.errors import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, MnemoError, RefusalError, UsageError
from mnemo_client.version import VERSION

EXIT_STOPPED = 130  # 128 + SIGINT, as shells count
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command of this process and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    screen = terminal.standard_terminal(os.environ)
    try:
        code = run(words, screen, os.environ, sys.stdin)
        screen.flush()
    except KeyboardInterrupt:
        screen.clear_progress()
        code = EXIT_STOPPED
    except BrokenPipeError:
        # The reader of the output closed it. Without this, Python would report the error again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_BROKEN_PIPE
    return code


def run(words: list[str], screen: terminal.Terminal, environ: Mapping[str, str], stdin: TextIO) -> int:
    """Run the command that `words` name. An error is reported in a line or two; only bugs raise."""
    try:
        return _run(words, screen, environ, stdin)
    except MnemoError as error:
        screen.error(error.message, error.hint)
        return error.exit_code
    except BrokenPipeError:
        raise
    except OSError as failed:
        place = f" ({failed.filename})" if failed.filename else ""
        screen.error(f"the operating system reports: {failed.strerror or failed}{place}")
        return EXIT_FAILED


def _run(words: list[str], screen: terminal.Terminal, environ: Mapping[str, str], stdin: TextIO) -> int:
    words = _move_common_options_last(words)
    if not words or words[0] in ("-h", "--help", "help"):
        named = command_table.find_command(words[1:]) if words else None
        for line in [_help_text(*named[:2])] if named is not None else _overview(screen.style):
            screen.print(line)
        return EXIT_DONE if words else EXIT_USAGE
    if words[0] == "--version":
        screen.print(f"mnemo {VERSION}")
        return EXIT_DONE
    found = command_table.find_command(words)
    if found is None:
        raise _unknown_command(words[0])
    command, name, rest = found
    if "-h" in rest or "--help" in rest:
        screen.print(_help_text(command, name))
        return EXIT_DONE
    if command.subcommands and rest and not rest[0].startswith("-") and not command.arguments:
        raise _unknown_subcommand(command, rest[0])
    options = parse(command, name, rest)
    from mnemo_client.cli.context import CommandContext

    context = CommandContext(options, screen, environ, Path.cwd(), stdin)
    try:
        return _load_function(command)(context)
    except RefusalError as error:
        error.message = _with_option_name(error.message, str(error.field or ""), command)
        raise
    finally:
        context.close()


def parse(command: command_table.Command, name: list[str], rest: list[str]) -> SimpleNamespace:
    """Parse the options of one command. Raises UsageError."""
    if not rest and all(argument.is_flag for argument in command.arguments):
        # The commonest commands have no arguments; they need not wait for argparse to be imported.
        return SimpleNamespace(json=False, namespace=None, **{flag.field: False for flag in command.arguments})
    from mnemo_client.cli.option_parser import build_parser

    return build_parser(command, name).parse_intermixed_args(rest, SimpleNamespace())


# Fields of a request whose option has another name.
_OPTION_FIELDS = {
    "categories": "category", "ids": "id", "kinds": "kind", "layers": "layer", "limit": "top", "query": "words",
    "session_id": "session", "tags": "tag", "token_budget": "budget", "top_k": "top", "trust_min": "trust",
}  # fmt: skip


def _with_option_name(message: str, field: str, command: command_table.Command) -> str:
    """Return the message about a field of the request with the name of the option or argument that gave it."""
    name = field.partition("[")[0]
    meant = _OPTION_FIELDS.get(name, name)
    found = next((each for each in command.arguments if each.field == meant), None)
    if found is None:
        return message
    shown = next((each for each in found.names if each.startswith("--")), str(found.settings.get("metavar", meant)))
    rest = message.removeprefix(f"{field}: ")
    return (message if rest == message else f"{shown}: {rest}").replace(f"`{field}`", shown)


def _help_text(command: command_table.Command, name: list[str]) -> str:
    from mnemo_client.cli.option_parser import build_parser

    return build_parser(command, name).format_help().rstrip()


def _move_common_options_last(words: list[str]) -> list[str]:
    """Move leading common options behind the command: `mnemo --json status` is `mnemo status --json`."""
    moved: list[str] = []
    while words:
        takes = 1 if words[0] == "--json" or words[0].startswith("--namespace=") else 0
        takes = 2 if words[0] in ("-n", "--namespace") else takes
        if not takes:
            break
        moved, words = moved + words[:takes], words[takes:]
    return words[:1] + words[1:] + moved if words else moved


def _load_function(command: command_table.Command) -> "Callable[..., int]":
    module, _, name = command.run.partition(":")
    function: Callable[..., int] = getattr(import_module(module, __package__), name)
    return function


def _unknown_command(word: str) -> UsageError:
    from difflib import get_close_matches

    meant = command_table.OTHER_NAMES.get(word)
    near = [meant] if meant else get_close_matches(word, [each.name for each in command_table.COMMANDS], n=1)
    return UsageError(
        f"there is no command {word!r}", f"did you mean: mnemo {near[0]}" if near else "see: mnemo --help"
    )


def _unknown_subcommand(command: command_table.Command, word: str) -> UsageError:
    names = ", ".join(part.name for part in command.subcommands)
    return UsageError(f"there is no command 'mnemo {command.name} {word}'", f"there are: {names}")


def _overview(style: terminal.TextStyle) -> list[str]:
    lines = ["One long-term memory for your agents, editors and notes, on your own machine.", ""]
    lines += [f"{style.bold('usage')}: mnemo COMMAND …    mnemo COMMAND --help"]
    for heading, commands in command_table.GROUPS.items():
        lines += ["", style.bold(heading), *(f"  {each.name:<12}{each.help}" for each in commands)]
    return lines


if __name__ == "__main__":
    sys.exit(main())

"""The pages of `mnemo help`: the overview, a command with its examples, the exit codes. SPEC 14"""

from mnemo_client.cli.command_examples import EXAMPLES
from mnemo_client.cli.command_table import GROUPS, find_command
from mnemo_client.cli.command_types import Command
from mnemo_client.cli.option_parser import build_parser
from mnemo_client.cli.terminal import TextStyle, table
from mnemo_client.errors import (
    EXIT_BROKEN_PIPE,
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_NOT_FOUND,
    EXIT_STOPPED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
)

EXIT_CODES = {
    EXIT_DONE: "done",
    EXIT_FAILED: "failed, as the message says; also if `check` or `doctor` finds a fault, or `forget` leaves a trace",
    EXIT_USAGE: "wrong usage: an unknown command, option or value, or a confirmation that was not given",
    EXIT_NOT_FOUND: "nothing found: no match, no memory with this id, no answer to `ask`, nothing close enough",
    EXIT_UNREACHABLE: "the daemon is unreachable: it does not run, does not start, or may not be used",
    EXIT_STOPPED: "stopped by ^C",
    EXIT_BROKEN_PIPE: "the reader of the output closed it, as `head` does",
}
EXIT_CODES_TOPIC = "exit-codes"


def overview(style: TextStyle) -> list[str]:
    """Return the lines of `mnemo help`: every command by its heading."""
    lines = ["One long-term memory for your agents, editors and notes, on your own machine.", ""]
    lines += [f"{style.bold('usage')}: mnemo COMMAND …    mnemo help COMMAND    mnemo help {EXIT_CODES_TOPIC}"]
    for heading, commands in GROUPS.items():
        lines += ["", style.bold(heading), *(f"  {each.name:<12}{each.help}" for each in commands)]
    return lines


def exit_code_lines(style: TextStyle) -> list[str]:
    """Return the lines of `mnemo help exit-codes`."""
    rows = [[str(code), meaning] for code, meaning in EXIT_CODES.items()]
    return ["Every command ends with one of these codes:", "", *table(rows, "  ", style.width)]


def command_lines(command: Command, name: list[str]) -> list[str]:
    """Return the help of a command, with its examples."""
    lines = build_parser(command, name).format_help().rstrip().splitlines()
    if examples := EXAMPLES.get(" ".join(name), ()):
        lines += ["", "examples:", *(f"  mnemo {example}" for example in examples)]
    return lines


def topic_lines(words: list[str], style: TextStyle) -> list[str] | None:
    """Return the page that the words after `mnemo help` name; None if there is none."""
    if not words:
        return overview(style)
    if words == [EXIT_CODES_TOPIC]:
        return exit_code_lines(style)
    found = find_command(words)
    return command_lines(*found[:2]) if found is not None and not found[2] else None

"""Parses a command's options with argparse, from the table of commands."""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from typing import NoReturn

from mnemo_client.cli.command_table import COMMON
from mnemo_client.cli.command_types import Command
from mnemo_client.errors import UsageError


class _Parser(ArgumentParser):
    """A parser whose errors are UsageError, so that they are reported like every other error."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(_reword(message), f"see: {self.prog} --help")


def _reword(message: str) -> str:
    """Return a message of argparse in the words of mnemo."""
    subject, _, problem = message.partition(": ")
    name = subject.removeprefix("argument ")
    fault, _, value = problem.partition(": ")
    value, _, choices = value.partition(" (choose from ")
    reworded = {
        "invalid int value": f"{name} must be a whole number, not {value}",
        "invalid float value": f"{name} must be a number, not {value}",
        "invalid choice": f"{name} must be one of {choices.removesuffix(')')}, not {value}",
        "expected one argument": f"{name} needs a value",
    }
    if subject == "the following arguments are required":
        return f"{problem} is missing"
    if subject == "unrecognized arguments":
        return f"there is no such option or argument here: {problem}"
    return reworded.get(fault, message)


def build_parser(command: Command, name: list[str]) -> ArgumentParser:
    """Return the parser for the words after `name`; its help comes from the same table."""
    prog = " ".join(["mnemo", *name])
    parts = "\n".join(f"  {prog} {part.name:<12} {part.help}" for part in command.subcommands)
    positional = " ".join(argument.placeholder for argument in command.arguments if not argument.is_option)
    made = _Parser(
        prog,
        usage=f"{prog} [options] {positional}".rstrip(),
        description=command.help[:1].upper() + command.help[1:] + ".",
        epilog=f"subcommands:\n{parts}" if parts else None,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    groups = {"": made}
    for argument in (*command.arguments, *COMMON):
        heading = argument.heading
        if heading not in groups:
            groups[heading] = made.add_argument_group(heading)  # type: ignore[assignment]
        groups[heading].add_argument(*argument.names, help=argument.help, **argument.settings)
    return made

"""Parses a command's options with argparse, from the table of commands."""

import re
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from typing import NoReturn

from mnemo_client.cli.command_table import COMMON, Argument, Command
from mnemo_client.errors import UsageError

# The messages of argparse, and how mnemo words them.
REWORDED = (
    (r"argument (\S+): invalid int value: (.*)", r"\1 must be a whole number, not \2"),
    (r"argument (\S+): invalid float value: (.*)", r"\1 must be a number, not \2"),
    (r"argument (\S+): invalid choice: (.*) \(choose from (.*)\)", r"\1 must be one of \3, not \2"),
    (r"argument (\S+): expected one argument", r"\1 needs a value"),
    (r"the following arguments are required: (.*)", r"\1 is missing"),
    (r"unrecognized arguments: (.*)", r"there is no such option or argument here: \1"),
)


class _Parser(ArgumentParser):
    """A parser whose errors are UsageError, so that they are reported like every other error."""

    def error(self, message: str) -> NoReturn:
        for pattern, words in REWORDED:
            message = re.sub(pattern, words, message)
        raise UsageError(message, f"see: {self.prog} --help")


def build_parser(command: Command, name: list[str]) -> ArgumentParser:
    """Return the parser for the words after `name`; its help comes from the same table."""
    prog = " ".join(["mnemo", *name])
    parts = "\n".join(f"  {prog} {part.name:<12} {part.help}" for part in command.subcommands)
    positional = " ".join(_usage_name(argument) for argument in command.arguments if not argument.is_option)
    made = _Parser(
        prog,
        usage=f"{prog} [options] {positional}".rstrip(),
        description=command.help[:1].upper() + command.help[1:] + ".",
        epilog=f"subcommands:\n{parts}" if parts else None,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for argument in (*command.arguments, *COMMON):
        made.add_argument(*argument.names, help=argument.help, **argument.settings)
    return made


def _usage_name(argument: Argument) -> str:
    name = str(argument.settings.get("metavar") or "|".join(argument.choices))
    return {"?": f"[{name}]", "*": f"[{name} …]", "+": f"{name} …"}.get(argument.settings.get("nargs", ""), name)

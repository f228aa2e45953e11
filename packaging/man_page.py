"""Generates the manual pages mnemo(1) and mnemod(1): from the table of commands and the help of the daemon.

    python packaging/man_page.py mnemo|mnemod >FILE

Standard library alone, as it runs while the wheel is built.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))

from mnemo_client.cli.command_table import COMMON, GROUPS
from mnemo_client.cli.command_types import Argument, Command
from mnemo_client.cli.help_pages import EXAMPLES, EXIT_CODES
from mnemo_client.version import VERSION

FILES = (
    ("~/.config/mnemo/config.toml", "The settings; \\fBmnemo config\\fR lists them with their origin."),
    ("~/.local/share/mnemo", "The memories: database, journal and indexes."),
    ("$XDG_RUNTIME_DIR/mnemo/mnemo.sock", "The socket of the daemon."),
)
ENVIRONMENT = (
    ("MNEMO_SOCKET", "The path of the socket."),
    ("MNEMO_DATA_DIR", "The folder of the memories."),
    ("MNEMO_CONFIG", "The file of the settings."),
    ("MNEMO_SECTION_KEY", "Any setting, such as MNEMO_NOTES_SETTLE_MS for notes.settle_ms."),
    ("NO_COLOR", "Print no colours."),
    ("PAGER, VISUAL", "The programs for long output and for editing."),
)


def command_page() -> str:
    """Return mnemo(1) in the man macros of roff."""
    lines = [*_head("mnemo", "long-term memory for agents, editors and notes")]
    lines += [".SH SYNOPSIS", ".B mnemo", ".I COMMAND", "[\\fIoptions\\fR] [\\fIarguments\\fR]"]
    lines += [".SH DESCRIPTION", "One long-term memory for your agents, editors and notes, on your own machine."]
    lines += ["A command that needs the daemon,", ".BR mnemod (1),", "starts it."]
    lines += [".SH COMMON OPTIONS", "Every command takes these options and \\fB\\-\\-help\\fR.", *_arguments(COMMON)]
    for heading, commands in GROUPS.items():
        lines.append(f".SH {roff(heading).upper()}")
        for command in commands:
            lines += _command((command.name,), command)
            for part in command.subcommands:
                lines += _command((command.name, part.name), part)
    lines += [".SH EXIT STATUS"]
    for code, meaning in EXIT_CODES.items():
        lines += [".TP", f".B {code}", roff(meaning)]
    return "\n".join([*lines, *_foot("mnemod")])


def daemon_page() -> str:
    """Return mnemod(1) in the man macros of roff."""
    lines = [*_head("mnemod", "daemon that serves one long-term memory on a Unix socket")]
    lines += [".SH SYNOPSIS", ".B mnemod", "[\\fB\\-\\-help\\fR | \\fB\\-\\-version\\fR]", ".SH DESCRIPTION"]
    lines += ["Serves the memory in the foreground until SIGTERM, SIGINT or \\fBmnemo down\\fR. SIGHUP reads the"]
    lines += ["settings again. It takes a socket from systemd or launchd, and reports its state to systemd.", ".PP"]
    lines += [
        "Commands of",
        ".BR mnemo (1)",
        "start it when they need it; \\fBmnemo service install\\fR starts it with",
    ]
    lines += ["the session of the user."]
    return "\n".join([*lines, *_foot("mnemo")])


def _head(name: str, purpose: str) -> Iterator[str]:
    yield f'.TH {name.upper()} 1 "" "mnemod {VERSION}" "User Commands"'
    yield from (".SH NAME", f"{name} \\- {purpose}")


def _foot(other: str) -> Iterator[str]:
    yield ".SH ENVIRONMENT"
    for name, meaning in ENVIRONMENT:
        yield from (".TP", f".B {roff(name)}", roff(meaning))
    yield ".SH FILES"
    for name, meaning in FILES:
        yield from (".TP", f".I {roff(name)}", meaning)
    yield from (".SH SEE ALSO", f".BR {other} (1)", "")


def _command(name: Sequence[str], command: Command) -> Iterator[str]:
    positional = " ".join(f"\\fI{roff(_shown(each))}\\fR" for each in command.arguments if not each.is_option)
    yield f".SS mnemo {roff(' '.join(name))} {positional}".rstrip()
    yield roff(command.help[:1].upper() + command.help[1:] + ".")
    yield from _arguments(command.arguments)
    for example in EXAMPLES.get(" ".join(name), ()):
        yield from (".PP", ".EX", roff(f"mnemo {example}"), ".EE")


def _arguments(arguments: Sequence[Argument]) -> Iterator[str]:
    for argument in arguments:
        names = [f"\\fB{roff(name)}\\fR" for name in argument.names] if argument.is_option else []
        value = "" if argument.is_flag else f"\\fI{roff(_shown(argument))}\\fR"
        shown = " ".join(filter(None, (", ".join(names), value)))
        yield from (".TP", shown, roff(argument.help[:1].upper() + argument.help[1:] + "."))


def _shown(argument: Argument) -> str:
    return argument.placeholder.replace("…", "...")


def roff(text: str) -> str:
    """Return text that roff prints as it is given: on one line, with its special characters escaped."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("…", "...")
    escaped = escaped.replace("^", "\\(ha").replace("~", "\\(ti").replace("`", "\\(ga").replace("\n", " ")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


PAGES = {"mnemo": command_page, "mnemod": daemon_page}


if __name__ == "__main__":
    sys.stdout.write(PAGES[sys.argv[1]]())

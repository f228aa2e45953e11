"""The types of the command table: a command, its arguments and options. SPEC 14.

Every start of `mnemo` imports this module: it must not import msgspec or argparse."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Argument(NamedTuple):
    """An argument or option. `names` is one bare name (positional) or the option strings; `settings` go to argparse.

    `files` and `values` tell the shell completion what to offer: files, or the output of `mnemo completion values`. In
    the help, options stand under their `heading`.
    """

    names: tuple[str, ...]
    help: str
    settings: Mapping[str, Any] = {}
    files: bool = False
    values: str = ""
    heading: str = ""

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
        """The name of its value among the options: its first long name, as argparse derives it."""
        long_names = [name for name in self.names if name.startswith("--")]
        return (long_names or list(self.names))[0].lstrip("-").replace("-", "_")


class Command(NamedTuple):
    name: str
    help: str
    run: str = ""
    arguments: tuple[Argument, ...] = ()
    subcommands: tuple["Command", ...] = ()  # `run` is then the command without a subcommand


def argument(name: str, *, help: str, files: bool = False, values: str = "", **settings: Any) -> Argument:  # noqa: A002
    return Argument((name,), help, settings, files, values)


def flag(*names: str, help: str) -> Argument:  # noqa: A002 - argparse's own word
    return Argument(names, help, {"action": "store_true"})


def option(*names: str, help: str, files: bool = False, values: str = "", **settings: Any) -> Argument:  # noqa: A002
    return Argument(names, help, settings, files, values)


def with_heading(heading: str, *arguments: Argument) -> tuple[Argument, ...]:
    """Return the arguments, to stand under this heading in the help."""
    return tuple(each._replace(heading=heading) for each in arguments)

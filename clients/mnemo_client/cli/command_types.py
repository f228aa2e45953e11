"""The types of the command table: a command, its arguments and options. SPEC 14.

Every start of `mnemo` imports this module: it must not import msgspec or argparse."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Literal, NamedTuple, get_args, get_origin


class Argument(NamedTuple):
    """An argument or option. `names` is one bare name (positional) or the option strings; `settings` go to argparse.

    One that gives the `field` of a wire type ("retrieval.RecallRequest.sort") has its help and settings from there; its
    own come before these. `files` and `values` tell the shell completion what to offer: files, or the output of
    `mnemo completion values`. In the help, options stand under their `heading`.
    """

    names: tuple[str, ...]
    own_help: str = ""
    own_settings: Mapping[str, Any] = {}
    files: bool = False
    values: str = ""
    heading: str = ""
    source: str = ""

    @property
    def help(self) -> str:
        return self.own_help or _of_field(self.source)[0]

    @property
    def settings(self) -> Mapping[str, Any]:
        return {**_of_field(self.source)[1], **self.own_settings} if self.source else self.own_settings

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
    def placeholder(self) -> str:
        """Its value in a usage line: NAME, [NAME], [NAME …]."""
        name = str(self.settings.get("metavar") or "|".join(self.choices) or self.field.upper())
        return {"?": f"[{name}]", "*": f"[{name} …]", "+": f"{name} …"}.get(self.settings.get("nargs", ""), name)

    @property
    def field(self) -> str:
        """The name of its value among the options: its first long name, as argparse derives it."""
        long_names = [name for name in self.names if name.startswith("--")]
        return (long_names or list(self.names))[0].lstrip("-").replace("-", "_")


class Command(NamedTuple):
    name: str
    help: str
    run: str = ""  # the function that runs it, and returns its exit code; None: done
    arguments: tuple[Argument, ...] = ()
    subcommands: tuple["Command", ...] = ()  # `run` is then the command without a subcommand


def argument(name: str, *, help: str, files: bool = False, values: str = "", **settings: Any) -> Argument:  # noqa: A002
    return Argument((name,), help, settings, files, values)


def flag(*names: str, help: str) -> Argument:  # noqa: A002 - argparse's own word
    return Argument(names, help, {"action": "store_true"})


def option(*names: str, help: str, files: bool = False, values: str = "", **settings: Any) -> Argument:  # noqa: A002
    return Argument(names, help, settings, files, values)


def wire(source: str, *names: str, values: str = "", **settings: Any) -> Argument:
    """Return the option that gives a field of a wire type: with its meaning, its values, and in general its name."""
    name = source.rpartition(".")[2].replace("_", "-")
    return Argument(names or (f"--{name}",), "", settings, values=values, source=source)


@cache
def _of_field(source: str) -> tuple[str, dict[str, Any]]:
    """Return the meaning of a field of a wire type, with the default of a number, and what argparse is to know of it.

    Only a command that has the option, and that sends the type, loads the module of the type.
    """
    place, _, name = source.rpartition(".")
    module, _, struct = place.partition(".")
    request = getattr(import_module(f"mnemo_client.protocol.{module}"), struct)
    meaning, settings = "", dict[str, Any]()
    parts = [next(each.__annotations__[name] for each in request.__mro__ if name in each.__annotations__)]
    for part in parts:
        parts += get_args(part) if get_origin(part) is not Literal else ()
        meaning = meaning or getattr(part, "description", None) or ""
    if bool in parts:
        return meaning, {"action": "store_true"}
    if any(get_origin(part) is list for part in parts):
        settings |= {"action": "append", "default": []}
    if choices := next((get_args(part) for part in parts if get_origin(part) is Literal), None):
        settings["choices"] = choices
    elif number := next((kind for kind in (float, int) if kind in parts and str not in parts), None):
        settings |= {"type": number, "metavar": "X" if number is float else "N"}
        # Defaults are those of the last fields. msgspec.structs.fields() would take 0.3 ms for each option.
        default = dict(zip(request.__struct_fields__[::-1], request.__struct_defaults__[::-1], strict=False)).get(name)
        meaning += f" ({default:g})" if isinstance(default, int | float) and default else ""
    return meaning, settings


def with_heading(heading: str, *arguments: Argument) -> tuple[Argument, ...]:
    """Return the arguments, to stand under this heading in the help."""
    return tuple(each._replace(heading=heading) for each in arguments)

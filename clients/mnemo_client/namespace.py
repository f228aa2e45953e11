"""Chooses the namespace of a client. SPEC 15.

The option of the command, else `namespace = "…"` in the `.mnemo.toml` of the folder or the nearest one above, else the
name of the git work tree's top folder where `client.project_namespaces` is on, else `default`.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mnemo_client.errors import UsageError
from mnemo_client.paths import config_file

DEFAULT = "default"
ALL = "*"  # of requests that read: every namespace
FILE_NAME = ".mnemo.toml"
CHARS_MAX = 64  # SPEC 2.1
YES = frozenset({"1", "true", "yes", "on"})
NO = frozenset({"0", "false", "no", "off", ""})


class NamespaceChoice(NamedTuple):
    """A namespace and its origin: "option", "default", or the path that names it."""

    name: str
    origin: str


def choose_namespace(option: str | None, folder: Path, environ: Mapping[str, str]) -> NamespaceChoice:
    """Return the namespace for a command that is given in `folder`. Raises UsageError for an unusable file."""
    if option is not None:
        return NamespaceChoice(_valid_name(option, "--namespace"), "option")
    folders = [folder, *folder.parents]
    for place in folders:
        named = place / FILE_NAME
        # Not Path.is_file, which raises for a folder that cannot be entered, or whose name is too long: a transcript
        # can come from another user or machine.
        if os.path.isfile(named):  # noqa: PTH113
            name = _read_toml(named).get("namespace")
            if not isinstance(name, str):
                raise UsageError(f"{named} names no namespace", 'write this line in it: namespace = "NAME"')
            return NamespaceChoice(_valid_name(name, str(named)), str(named))
    if _project_namespaces(environ):
        for place in folders:
            # A work tree's top holds `.git`: a folder, or a file where it is a submodule or a linked work tree.
            if os.path.exists(place / ".git") and place.name:  # noqa: PTH110
                return NamespaceChoice(_valid_name(place.name[:CHARS_MAX], str(place)), str(place))
    return NamespaceChoice(DEFAULT, "default")


def _project_namespaces(environ: Mapping[str, str]) -> bool:
    variable = "MNEMO_CLIENT_PROJECT_NAMESPACES"
    if (value := environ.get(variable)) is not None:
        if value.lower() not in YES | NO:
            raise UsageError(f"{variable} is {value!r}", "set it to true or false")
        return value.lower() in YES
    path = config_file(environ)
    if not path.is_file():
        return False
    section = _read_toml(path).get("client", {})
    return isinstance(section, dict) and section.get("project_namespaces") is True


def _read_toml(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except tomllib.TOMLDecodeError as wrong:
        raise UsageError(
            f"{path} cannot be read: {wrong}", "correct the file, or name a namespace with --namespace"
        ) from wrong
    except (OSError, UnicodeDecodeError) as failed:
        raise UsageError(f"{path} cannot be read: {failed}", "name a namespace with --namespace") from failed


def _valid_name(name: str, origin: str) -> str:
    name = name.strip()
    if not 1 <= len(name) <= CHARS_MAX or not name.isprintable():
        raise UsageError(
            f"{name!r} ({origin}) cannot be a namespace",
            f"a namespace has 1 to {CHARS_MAX} printable characters on one line",
        )
    return name

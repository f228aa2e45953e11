"""The commands about models: list, pull, import, use, calibrate, reindex."""

from pathlib import Path
from typing import Any

from mnemo_client.cli import offline_process
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.state import calibration_lines, model_lines
from mnemo_client.cli.format.units import number_text
from mnemo_client.errors import EXIT_DONE, UnreachableError, UsageError

DEFAULT_MODEL = "all-MiniLM-L6-v2"  # SPEC 4.1


def models_list(invocation: CommandContext) -> int:
    answer = invocation.client().models()
    if invocation.wants_json:
        invocation.print_answer()
    else:
        invocation.print(*model_lines(answer, invocation.style))
        if answer.embedding.state == "absent":
            invocation.message(f"none is installed; fetch the default with: mnemo models pull {DEFAULT_MODEL}")
    return EXIT_DONE


def models_pull(invocation: CommandContext) -> int:
    """Fetches in a process of its own, which needs no daemon; one that runs then takes the model up."""
    return _activate_model(
        invocation, offline_process.run_offline(invocation, "pull", invocation.options.name or DEFAULT_MODEL)
    )


def models_import(invocation: CommandContext) -> int:
    options = invocation.options
    path = (invocation.cwd / Path(options.path).expanduser()).resolve()
    if not path.exists():
        raise UsageError(f"there is no {path}")
    words = ["import", str(path), *(["--name", options.name] if options.name else [])]
    words += ["--allow-unverified"] if options.allow_unverified else []
    return _activate_model(invocation, offline_process.run_offline(invocation, *words))


def _activate_model(invocation: CommandContext, installed: dict[str, Any]) -> int:
    """Has a daemon that runs use the embedding model that was just installed; says what is there now."""
    name = str(installed["name"])
    state = "the daemon takes it up when it starts"
    if installed["role"] == "embedding":
        try:
            invocation.connect().use_model(name)
            state = "the daemon takes it up; see how far it is with: mnemo status --watch"
        except UnreachableError:
            pass
    else:
        state = "it is ready to be used"
    if invocation.wants_json:
        invocation.print_value(installed)
    else:
        checked = "its hash is the known one" if installed.get("verified") else "its hash could not be checked"
        invocation.print(f"{name} is installed ({checked}): {installed.get('path')}", state)
    return EXIT_DONE


def models_use(invocation: CommandContext) -> int:
    name = invocation.options.name
    invocation.client().use_model(name)
    if invocation.wants_json:
        invocation.print_answer()
    else:
        invocation.print(f"switching to {name}; answers come from the old vectors until the new ones are whole")
    return EXIT_DONE


def models_calibrate(invocation: CommandContext) -> int:
    """Measures in a process of its own; the daemon reads what came of it when it starts."""
    measured = offline_process.run_offline(
        invocation, "calibrate", invocation.options.name or _model_in_use(invocation)
    )
    if invocation.wants_json:
        invocation.print_value(measured)
    else:
        invocation.print(*calibration_lines(measured, invocation.style))
        invocation.message("the daemon takes it up when it starts")
    return EXIT_DONE


def _model_in_use(invocation: CommandContext) -> str:
    try:
        return invocation.connect().models().embedding.name or DEFAULT_MODEL
    except UnreachableError:
        return DEFAULT_MODEL


def reindex(invocation: CommandContext) -> int:
    options = invocation.options
    answer = invocation.client().reindex(
        dry_run=options.dry_run or options.stats, force=options.force, batch_size=options.batch_size
    )
    if invocation.wants_json:
        invocation.print_answer()
        return EXIT_DONE
    dimensions = f", {answer.dimensions} dimensions" if answer.dimensions else ""
    share = f"{number_text(answer.with_vectors)} of {number_text(answer.total)}"
    invocation.print(f"memories with their vector: {share}{dimensions}")
    if not options.stats:
        verb = "would be" if answer.dry_run else "are"
        invocation.print(f"{number_text(answer.queued)} {verb} computed")
    return EXIT_DONE

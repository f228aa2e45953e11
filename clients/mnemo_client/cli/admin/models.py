"""The commands about models: list, pull, import, use, calibrate, reindex, and the use of the language model."""

from typing import Any

from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.state import calibration_lines, model_lines, usage_lines
from mnemo_client.cli.format.units import number_text
from mnemo_client.cli.operation_progress import wait_for_operation
from mnemo_client.errors import UnreachableError, UsageError

DEFAULT_MODEL = "all-MiniLM-L6-v2"  # SPEC 4.1
MULTILINGUAL = "universal-sentence-encoder-multilingual-3"  # beside it, for texts that are not English


def models_list(context: CommandContext) -> None:
    answer = context.client().models()
    if not context.print_json_if_asked():
        context.print(*model_lines(answer, context.style))
        if answer.embedding.state == "absent":
            context.message(f"none is installed; download the default with: mnemo models pull {DEFAULT_MODEL}")


def llm_usage(context: CommandContext) -> None:
    answer = context.client().llm_usage(context.options.since)
    if not context.print_json_if_asked():
        context.print(*usage_lines(answer, context.style))
        if not answer.usage:
            context.message("the language model was not asked for anything")


def models_pull(context: CommandContext) -> None:
    """Download a model in a process of its own; a running daemon then switches to it."""
    name = context.options.name
    installed = context.run_offline("pull", name or DEFAULT_MODEL, *_consent(context))
    try:
        if not name:
            context.run_offline("pull", MULTILINGUAL)
    finally:
        _activate_model(context, installed)


def models_import(context: CommandContext) -> None:
    options = context.options
    path = context.path(options.path)
    if not path.exists():
        raise UsageError(f"there is no file or folder {path}")
    words = ["import", str(path), *(["--name", options.name] if options.name else []), *_consent(context)]
    _activate_model(context, context.run_offline(*words))


def _consent(context: CommandContext) -> list[str]:
    return ["--allow-unverified"] if context.options.allow_unverified else []


def _activate_model(context: CommandContext, installed: dict[str, Any]) -> None:
    """Make a running daemon use the embedding model that was just installed, and report the result."""
    name = str(installed["name"])
    state = "the daemon uses it from its next start"
    if installed["role"] in ("embedding", "multilingual"):
        try:
            context.connect().use_model(name)
            state = "the daemon switches to it; see the progress with: mnemo status --watch"
        except UnreachableError:
            pass
    else:
        state = "it is ready to be used"
    if not context.print_json_if_asked(installed):
        checked = "its hash was verified" if installed.get("verified") else "its hash is unknown"
        context.print(f"{name} is installed ({checked}): {installed.get('path')}", state)


def models_use(context: CommandContext) -> None:
    name, client = context.options.name, context.client()
    before = next((model for model in client.models().models if model.name == name and model.installed), None)
    client.use_model(name)
    if context.wants_json:
        context.print_answer()
    elif before is not None and before.role == "llm":
        context.print(f"{name} is the language model from now on")
    elif before is not None and before.in_use:
        context.print(f"{name} is already in use")
    else:
        context.print(f"switching to {name}; the old vectors are used until the new ones are complete")


def models_calibrate(context: CommandContext) -> None:
    """Measure thresholds in a process of its own; the daemon reads them at its next start."""
    measured = context.run_offline("calibrate", context.options.name or _model_in_use(context))
    if not context.print_json_if_asked(measured):
        context.print(*calibration_lines(measured, context.style))
        context.message("the daemon uses them from its next start")


def _model_in_use(context: CommandContext) -> str:
    try:
        return context.connect().models().embedding.name or DEFAULT_MODEL
    except UnreachableError:
        return DEFAULT_MODEL


def reindex(context: CommandContext) -> None:
    options = context.options
    client = context.client()
    answer = client.reindex(
        dry_run=options.dry_run or options.stats, force=options.force, batch_size=options.batch_size
    )
    if options.wait and answer.queued and not answer.dry_run:
        wait_for_operation(context, "reindex")
    if context.print_json_if_asked():
        return
    dimensions = f", {answer.dimensions} dimensions" if answer.dimensions else ""
    share = f"{number_text(answer.with_vectors)} of {number_text(answer.total)}"
    context.print(f"memories with a vector: {share}{dimensions}")
    if options.wait and answer.queued and not answer.dry_run:
        context.print(f"{number_text(answer.queued)} computed")
    elif not options.stats:
        verb = "would be" if answer.dry_run else "are being"
        context.print(f"{number_text(answer.queued)} {verb} computed" if answer.queued else "none is missing")

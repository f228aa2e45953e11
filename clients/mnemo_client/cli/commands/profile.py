"""The commands of what is known for good: profile, and compress, which makes it."""

from typing import Any

from mnemo_client.cli.arguments import memory_id_argument
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.profiles import compression_lines, profile_lines, project_lines
from mnemo_client.cli.format.units import plural, short_id
from mnemo_client.cli.operation_progress import shown_progress
from mnemo_client.cli.terminal import sanitize
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND


def profile(context: CommandContext) -> int:
    """Show the profile of the user, or with `--project` what is known about a project."""
    client, name = context.reading_client(), context.options.project
    if name is not None:
        project = client.project(name)
        lines = project_lines(project, context.style)
    else:
        user = client.profile()
        lines = profile_lines(user, context.style)
    if context.print_json_if_asked():
        return EXIT_DONE if lines else EXIT_NOT_FOUND
    if not lines:
        context.message("the profile is empty: mnemo add TEXT, or mnemo profile add TEXT")
        return EXIT_NOT_FOUND
    context.page(lines)
    return EXIT_DONE


def profile_add(context: CommandContext) -> int:
    """Write an entry. Without `--evidence` the text is remembered first, and is the evidence."""
    options = context.options
    text, client = context.text(options.text, "write"), context.client()
    evidence = [memory_id_argument(context, each) for each in options.evidence]
    bucket = "next_steps" if options.project else "stable_facts"
    if not evidence:
        memory = client.remember(text).memory
        evidence = [memory.id]
        if memory.category == "preference" and not options.project:
            bucket = "preferences"
    bucket = options.list or bucket
    fields: dict[str, Any] = {bucket: [{"text": text, "evidence_ids": evidence}]}
    answer = client.update_profile(project=options.project, **fields)
    if not context.print_json_if_asked():
        place = f"{bucket} of {sanitize(options.project)}" if options.project else bucket
        context.print(f"{context.style.good('written')} to {place}: {short_id(answer.ids[0])}")
    return EXIT_DONE


def profile_rm(context: CommandContext) -> int:
    """Move entries to the trash; their evidence stays."""
    ids = [memory_id_argument(context, each) for each in context.options.id]
    answer = context.client().update_profile(remove=ids)
    if not context.print_json_if_asked():
        context.message(f"{plural(len(answer.removed), 'entry', 'entries')} moved to the trash; the evidence stays")
    return EXIT_DONE


def compress(context: CommandContext) -> int:
    """Summarize the oldest conversations, and lift old items to profiles."""
    options = context.options
    fields = {"sessions": options.sessions, "cutoff_hours": options.cutoff_hours}
    given = {name: value for name, value in fields.items() if value is not None}
    client = context.client()
    with shown_progress(context, "compress"):
        answer = client.compress(dry_run=options.dry_run, **given)
    if context.print_json_if_asked():
        return EXIT_DONE
    context.page(compression_lines(answer, context.style))
    if answer.group is not None and (answer.sessions or answer.compressed):
        context.message(f"take it back with: mnemo undo --group {answer.group}")
    return EXIT_DONE

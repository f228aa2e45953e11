"""The commands that erase memories for good: forget, trash empty."""

from collections.abc import Iterator

from mnemo_client.cli.arguments import list_candidates, memory_id_argument, request_fields
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.records import choice_lines
from mnemo_client.cli.format.units import number_text, plural, short_id, size_text
from mnemo_client.cli.operation_progress import shown_progress
from mnemo_client.cli.terminal import TextStyle, sanitize
from mnemo_client.errors import EXIT_DONE, EXIT_FAILED, NotFoundError, UsageError
from mnemo_client.protocol.memories import EraseAnswer, EraseFilter

EXAMPLES_SHOWN = 10  # memories shown before they are erased

_STATES = {"clean": TextStyle.good, "removed": TextStyle.good, "still there": TextStyle.bad}


def forget(context: CommandContext) -> int:
    """Erase memories; exit 1 if any trace is left."""
    options = context.options
    if options.status:
        return _show_status(context)
    wanted = _filter_from_options(context)
    if bool(options.id) == (wanted is not None):
        both = ", not both" if options.id else ""
        raise UsageError(f"name memories by ids or by options such as --tag{both}", "see: mnemo forget --help")
    client = context.client()
    ids = [memory_id_argument(context, text) for text in options.id]
    with list_candidates(client):
        planned = client.erase_many(ids, filter=wanted, dry_run=True)
    if not planned.purged:
        raise NotFoundError("no memory passes these options")
    if options.dry_run:
        if not context.print_json_if_asked():
            context.print(*_plan_lines(planned, "would be erased", context.style))
            context.print(*_candidate_lines(planned, context.style), *_copy_lines(planned, context.style))
        return EXIT_DONE
    quoting, everywhere = options.quoting, options.everywhere
    if not options.yes:
        shown = [client.get(memory_id) for memory_id in planned.purged[:EXAMPLES_SHOWN]]
        context.print(*choice_lines(shown, context.style))
        context.confirm(f"erase {_count_text(planned)} for good, with every trace")
        if planned.candidates and not quoting:
            context.print(*_candidate_lines(planned, context.style))
            quoting = context.ask(f"erase also the memories that quote it ({_memory_count(len(planned.candidates))})")
        if planned.backups and not everywhere:
            context.print(*_copy_lines(planned, context.style))
            everywhere = context.ask("rewrite these copies without it")
    with shown_progress(context, "forget"):
        report = client.erase_many(planned.purged, quoting=quoting, everywhere=everywhere)
    if not context.print_json_if_asked():
        context.print(*report_lines(report, context.style))
    return EXIT_DONE if report.complete else EXIT_FAILED


def _show_status(context: CommandContext) -> int:
    """Show for each erased memory which devices have erased it; exit 1 while one has not."""
    answer = context.client().sync_status()
    waiting = [each for each in answer.erasures if each.waiting]
    if not context.print_json_if_asked():
        for each in answer.erasures:
            state = f"waits for {', '.join(map(sanitize, each.waiting))}" if each.waiting else "erased"
            done = f" on {', '.join(map(sanitize, each.done))}" if each.done else ""
            paint = context.style.warn if each.waiting else context.style.good
            context.print(f"{short_id(each.id)}  {paint(state)}{'; erased' if each.waiting and done else ''}{done}")
        if not answer.shared:
            context.message("the memory is not shared: what was erased here is nowhere else; see: mnemo sync --help")
        elif not answer.erasures:
            context.message("nothing was erased since the memory is shared")
    return EXIT_FAILED if waiting else EXIT_DONE


def trash_empty(context: CommandContext) -> None:
    client, options = context.client(), context.options
    counted = client.empty_trash()
    if counted.dropped and not options.dry_run:
        if not options.yes:
            context.confirm(f"erase {_memory_count(counted.dropped)} in the trash for good")
        with shown_progress(context, "trash empty"):
            counted = client.empty_trash(confirm=True)
    if context.wants_json:
        context.print_answer()
    elif not counted.dropped:
        context.message("the trash is empty")
    else:
        verb = "would be erased" if counted.dry_run else "erased"
        context.print(f"{verb}: {_memory_count(counted.dropped)} in the trash, {size_text(counted.bytes)}")
        if not counted.dry_run:
            context.message("their bytes stay in files until they are overwritten; mnemo forget leaves none")


def _filter_from_options(context: CommandContext) -> EraseFilter | None:
    """Return the filter that the options name; None if they name nothing. --all names the whole namespace."""
    options = context.options
    wanted = EraseFilter(**request_fields(options, EraseFilter))
    if wanted == EraseFilter() and not options.all:
        return None
    wanted.namespace = context.namespace.name
    return wanted


def report_lines(report: EraseAnswer, style: TextStyle) -> Iterator[str]:
    """Yield what was erased, place by place, and what is left to do."""
    yield from _plan_lines(report, "erased", style)
    for place in report.places:
        detail = f": {sanitize(place.detail)}" if place.detail else ""
        yield f"  {_STATES[place.state](style, place.state):<11} {style.location(sanitize(place.place))}{detail}"
    searched = report.searched
    yield (
        f"searched {plural(searched.files, 'file')}, {size_text(searched.bytes)}, "
        f"for {plural(searched.needles, 'trace')}: "
        f"{'none is left' if report.complete else 'some are left, see above'}"
    )
    yield from _candidate_lines(report, style)
    if report.candidates:
        yield "  erase these too: mnemo forget with their ids"
    reported = {place.place for place in report.places}
    for path in report.backups:
        if path not in reported:
            yield (
                f"  {style.warn('not changed')} {sanitize(path)} has a copy: delete it when you no longer need it "
                "(--everywhere would have rewritten it)"
            )
    yield f"  {style.warn('not searched')}  backups and exports in your own folders: delete those that have a copy"


def _candidate_lines(report: EraseAnswer, style: TextStyle) -> Iterator[str]:
    for each in report.candidates[:EXAMPLES_SHOWN]:
        yield f"  {style.warn('quotes it')}   {style.location(short_id(each.id))} {sanitize(each.excerpt)}"
    if len(report.candidates) > EXAMPLES_SHOWN:
        yield f"  {style.warn('quotes it')}   and {_memory_count(len(report.candidates) - EXAMPLES_SHOWN)} more"


def _copy_lines(report: EraseAnswer, style: TextStyle) -> Iterator[str]:
    for path in report.backups:
        yield f"  {style.warn('may hold it')} {sanitize(path)}"


def _plan_lines(report: EraseAnswer, verb: str, style: TextStyle) -> Iterator[str]:
    ids = ", ".join(map(short_id, report.purged[:EXAMPLES_SHOWN])) + (
        " …" if len(report.purged) > EXAMPLES_SHOWN else ""
    )
    yield f"{style.good(verb)}: {_count_text(report)} {style.dim(f'({ids})')}"
    for memory_id, sources in report.rederive.items():
        shown = ", ".join(map(short_id, sources))
        yield f"  {short_id(memory_id)} was derived from {shown} too, which stay: derive it again from them"
    if report.revived:
        shown = ", ".join(map(short_id, report.revived))
        yield f"  active again, since the memory that superseded it is erased: {shown}"


def _count_text(report: EraseAnswer) -> str:
    derived = f" and {number_text(len(report.derived))} derived from it" if report.derived else ""
    return _memory_count(len(report.purged)) + derived


def _memory_count(count: int) -> str:
    return plural(count, "memory", "memories")

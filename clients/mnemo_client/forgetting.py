"""The commands by which memories go for good: forget, trash empty."""

from collections.abc import Iterator

from mnemo_client import care_protocol, display
from mnemo_client.errors import EXIT_DONE, EXIT_FAILED, BadUsage, NothingFound
from mnemo_client.invocation import Invocation
from mnemo_client.memories import as_ms, id_of, telling_apart
from mnemo_client.terminal import Look, plain

SHOWN = 10  # memories that are about to be forgotten

_STATES = {"clean": Look.good, "removed": Look.good, "still there": Look.bad}


def forget(invocation: Invocation) -> int:
    """Exit 1 where any trace is still there."""
    options = invocation.options
    wanted = _filter(invocation)
    if bool(options.id) == (wanted is not None):
        raise BadUsage("name memories by their ids, or by options such as --tag", "see: mnemo forget --help")
    client = invocation.client()
    ids = [id_of(invocation, text) for text in options.id]
    with telling_apart(client):
        planned = client.purge_many(ids, filter=wanted, dry_run=True)
    if not planned.purged:
        raise NothingFound("no memory passes these options")
    if options.dry_run:
        if invocation.wants_json:
            invocation.say_answer()
        else:
            invocation.say(*_plan_lines(planned, "would be forgotten", invocation.look))
            invocation.say(*_candidate_lines(planned, invocation.look), *_copy_lines(planned, invocation.look))
        return EXIT_DONE
    quoting, everywhere = options.quoting, options.everywhere
    if not options.yes:
        shown = [client.get(memory_id) for memory_id in planned.purged[:SHOWN]]
        invocation.say(*display.candidate_lines(shown, invocation.look))
        invocation.confirm(f"forget {_counted(planned)} for good, with every trace")
        if planned.candidates and not quoting:
            invocation.say(*_candidate_lines(planned, invocation.look))
            quoting = invocation.ask(f"forget too what quotes it ({_memories(len(planned.candidates))})")
        if planned.backups and not everywhere:
            invocation.say(*_copy_lines(planned, invocation.look))
            everywhere = invocation.ask("rewrite these copies without it too")
    report = client.purge_many(planned.purged, quoting=quoting, everywhere=everywhere)
    if invocation.wants_json:
        invocation.say_answer()
    else:
        invocation.say(*report_lines(report, invocation.look))
    return EXIT_DONE if report.complete else EXIT_FAILED


def trash_empty(invocation: Invocation) -> int:
    client, options = invocation.client(), invocation.options
    counted = client.empty_trash()
    if counted.dropped and not options.dry_run:
        if not options.yes:
            invocation.confirm(f"drop {_memories(counted.dropped)} in the trash for good")
        counted = client.empty_trash(confirm=True)
    if invocation.wants_json:
        invocation.say_answer()
    elif not counted.dropped:
        invocation.tell("the trash is empty")
    else:
        verb = "would leave" if counted.dry_run else "left"
        invocation.say(f"{verb} the trash for good: {_memories(counted.dropped)}, {display.size(counted.bytes)}")
        if not counted.dry_run:
            invocation.tell("old bytes of them stay in files until they are written over; mnemo forget leaves none")
    return EXIT_DONE


def _filter(invocation: Invocation) -> care_protocol.PurgeFilter | None:
    """What the options name; None where they name nothing. A namespace alone is named by --all."""
    options = invocation.options
    wanted = care_protocol.PurgeFilter(
        kinds=options.kind,
        categories=options.category,
        states=options.state,
        tags=options.tag,
        source=options.source,
        speaker=options.speaker,
        since=as_ms(options.since),
        until=as_ms(options.until),
    )
    if wanted == care_protocol.PurgeFilter() and not options.all:
        return None
    wanted.namespace = invocation.namespace.name
    return wanted


def report_lines(report: care_protocol.Purged, look: Look) -> Iterator[str]:
    """What was forgotten, place by place, and what is left to do."""
    yield from _plan_lines(report, "forgotten", look)
    for place in report.places:
        detail = f": {plain(place.detail)}" if place.detail else ""
        yield f"  {_STATES[place.state](look, place.state):<11} {look.place(plain(place.place))}{detail}"
    searched = report.searched
    yield (
        f"searched {display.plural(searched.files, 'file')}, {display.size(searched.bytes)}, "
        f"for {display.plural(searched.needles, 'trace')}: "
        f"{'none is left' if report.complete else 'some are left, as said above'}"
    )
    yield from _candidate_lines(report, look)
    if report.candidates:
        yield "  to forget these too: mnemo forget with their ids"
    told = {place.place for place in report.places}
    for path in report.backups:
        if path not in told:
            yield (
                f"  {look.warn('not touched')} {plain(path)}, which holds it: remove it when you need it no more "
                "(mnemo forget --everywhere rewrites such copies)"
            )
    yield f"  {look.warn('not searched')}  backups and exports in folders of your own: remove those that hold it"


def _candidate_lines(report: care_protocol.Purged, look: Look) -> Iterator[str]:
    for each in report.candidates[:SHOWN]:
        yield f"  {look.warn('quotes it')}   {look.place(display.short_id(each.id))} {plain(each.excerpt)}"
    if len(report.candidates) > SHOWN:
        yield f"  {look.warn('quotes it')}   and {_memories(len(report.candidates) - SHOWN)} more"


def _copy_lines(report: care_protocol.Purged, look: Look) -> Iterator[str]:
    for path in report.backups:
        yield f"  {look.warn('may hold it')} {plain(path)}"


def _plan_lines(report: care_protocol.Purged, verb: str, look: Look) -> Iterator[str]:
    ids = ", ".join(map(display.short_id, report.purged[:SHOWN])) + (" …" if len(report.purged) > SHOWN else "")
    yield f"{look.good(verb)}: {_counted(report)} {look.dim(f'({ids})')}"
    for memory_id, sources in report.rederive.items():
        shown = ", ".join(map(display.short_id, sources))
        yield f"  {display.short_id(memory_id)} was made of {shown} too, which stay: make it anew from them"
    if report.revived:
        shown = ", ".join(map(display.short_id, report.revived))
        yield f"  shown again, since what stood for it goes: {shown}"


def _counted(report: care_protocol.Purged) -> str:
    derived = f" and {display.number(len(report.derived))} made of it" if report.derived else ""
    return _memories(len(report.purged)) + derived


def _memories(count: int) -> str:
    return display.plural(count, "memory", "memories")

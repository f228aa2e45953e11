"""The commands of the lifecycle: consolidate, audit, review."""

from functools import partial

from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.lifecycle import consolidate_lines, cycle_lines, proposal_lines, waiting_operations
from mnemo_client.cli.format.units import SHORT_ID_DIGITS, plural
from mnemo_client.cli.operation_progress import shown_progress
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND, UsageError
from mnemo_client.protocol.lifecycle import ProposalView, ReviewAnswer, Verdict

HISTORY_SHOWN = 10


def consolidate(context: CommandContext) -> int:
    """Run a cycle of consolidation, say what one would do, or list the cycles so far."""
    options, client = context.options, context.client()
    if options.history:
        if options.dry_run or options.merge:
            raise UsageError("--history lists the cycles so far, and runs none", "leave out the other options")
        answer = client.cycles(limit=options.top or HISTORY_SHOWN)
        if not context.print_json_if_asked():
            context.page(list(cycle_lines(answer.cycles, context.style)))
            if not answer.cycles:
                context.message("there was no cycle yet")
        return EXIT_DONE if answer.cycles else EXIT_NOT_FOUND
    if options.top is not None:
        raise UsageError("-k is the number of cycles that --history lists", "give it together with --history")
    with shown_progress(context, "consolidate"):
        done = client.consolidate(dry_run=options.dry_run, merge=options.merge or None)
    if not context.print_json_if_asked():
        context.page(list(consolidate_lines(done, context.style)))
        if not options.dry_run and done.total:
            context.message("take the cycle back with: mnemo undo --cycle")
        if waiting := waiting_operations(done.cycle):
            would = "would wait" if options.dry_run else "waits" if waiting == 1 else "wait"
            context.message(f"{plural(waiting, 'operation')} {would} for your approval: mnemo review")
    return EXIT_DONE


def audit(context: CommandContext) -> int:
    options = context.options
    if options.apply and (context.wants_json or not context.has_terminal):
        raise UsageError("--apply asks about each, and needs a terminal", "see: mnemo review --help")
    client = context.client()
    with shown_progress(context, "audit"):
        answer = client.audit()
    if context.print_json_if_asked():
        return EXIT_DONE
    left = f"; {plural(answer.left, 'is', 'are')} left for the next audit" if answer.left else ""
    looked = plural(answer.reviewed, "memory of core and working was", "memories of core and working were")
    context.message(f"{looked} looked through, {plural(answer.proposed, 'new proposal')}{left}")
    if options.apply:
        return _ask_each(context, answer.proposals)
    show_proposals(context, answer)
    return EXIT_DONE


def review(context: CommandContext) -> int:
    client, options = context.client(), context.options
    if options.ask and (context.wants_json or not context.has_terminal):
        raise UsageError("--ask needs a terminal", "decide with: mnemo review approve ID, mnemo review reject ID")
    answer = client.review(limit=options.top)
    if context.print_json_if_asked():
        return EXIT_DONE if answer.proposals else EXIT_NOT_FOUND
    return _ask_each(context, answer.proposals) if options.ask else show_proposals(context, answer)


def show_proposals(context: CommandContext, answer: ReviewAnswer) -> int:
    """Show proposals and how to decide on them."""
    context.page([line for each in answer.proposals for line in proposal_lines(each, context.style)])
    if not answer.proposals:
        where = "any namespace" if answer.namespace == "*" else f"namespace {answer.namespace}"
        context.message(f"nothing waits for approval in {where}")
        return EXIT_NOT_FOUND
    if answer.cursor is not None:
        context.message(f"these are {len(answer.proposals)} of {answer.total}")
    context.message("decide with: mnemo review approve ID, mnemo review reject ID, or mnemo review --ask")
    return EXIT_DONE


def review_edit(context: CommandContext) -> None:
    options = context.options
    text = context.text(options.text, "write")
    done = context.client().decide(options.id, "approve", text, force=options.force)
    if not context.print_json_if_asked():
        context.print(f"{context.style.good('approved')} {done.id[:SHORT_ID_DIGITS]}")
        context.message("undo this with: mnemo undo")


def _decide(context: CommandContext, verdict: Verdict, done: str) -> int:
    client, options = context.client(), context.options
    if bool(options.id) == options.all:
        raise UsageError("name the operations by their ids, or give --all", "list them with: mnemo review")
    ids = options.id or [each.id for each in client.review(limit=500).proposals if not each.stale]
    answers = []
    for each in ids:
        answers.append(client.decide(each, verdict))
        if not context.wants_json:
            context.print(f"{context.style.good(done)} {answers[-1].id[:SHORT_ID_DIGITS]}")
    if context.wants_json:
        import msgspec

        context.print_value(msgspec.to_builtins(answers))
    elif not ids:
        context.message(f"nothing waits for approval in namespace {context.namespace.name or 'default'}")
    elif verdict == "approve":
        context.message("undo the last of them with: mnemo undo")
    return EXIT_DONE if ids else EXIT_NOT_FOUND


review_approve = partial(_decide, verdict="approve", done="approved")
review_reject = partial(_decide, verdict="reject", done="rejected")


def _ask_each(context: CommandContext, proposals: list[ProposalView]) -> int:
    """Show one proposal after the other and carry out what is answered; the end of the input ends it."""
    decided = 0
    verdicts: dict[str, Verdict] = {"a": "approve", "r": "reject"}
    for each in (each for each in proposals if not each.stale):
        context.print(*proposal_lines(each, context.style))
        answer = context.ask_line("approve (a), reject (r), later (Enter), quit (q)").lower()
        if answer in ("q", "quit"):
            break
        if answer[:1] in verdicts:
            context.client().decide(each.id, verdicts[answer[:1]])
            decided += 1
    context.message(f"{plural(decided, 'operation was', 'operations were')} decided on")
    return EXIT_DONE

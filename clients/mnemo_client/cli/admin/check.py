"""The commands that check and repair the store: check, repair.

They use a running daemon, or else `python -m mnemo_daemon.offline`; no daemon is started, since a damaged store may be
what keeps it from starting.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mnemo_client import process
from mnemo_client.cli import offline_process
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.units import number_text, plural, short_id
from mnemo_client.cli.operation_progress import shown_progress
from mnemo_client.cli.terminal import TextStyle, sanitize, table
from mnemo_client.errors import EXIT_DONE, EXIT_FAILED
from mnemo_client.paths import socket_path
from mnemo_client.protocol.maintenance import CheckAnswer, RepairAnswer

if TYPE_CHECKING:
    from mnemo_client.client import Client

T = TypeVar("T")

EXAMPLES_PER_RULE = 3  # of each violated rule
SUBJECT_CELLS = 44
# The counts that a person has names for; --json has the others.
COUNT_LABELS = {
    "memories": ("memory", "memories"),
    "versions": ("earlier version", "earlier versions"),
    "changes": ("change", "changes"),
    "notes": ("note", "notes"),
    "words": ("text in the word index", "texts in the word index"),
    "vectors": ("memory in the vector index", "memories in the vector index"),
}


def check(context: CommandContext) -> int:
    """Check the store; exit 0 if nothing is wrong, else 1."""
    answer = _ask_or_run_offline(context, CheckAnswer, lambda client: client.check(), ["check"])
    if not context.wants_json:
        context.page(check_lines(answer, context.style))
        if not answer.ok:
            context.message(
                "see what a repair would do: mnemo repair --dry-run; then: mnemo repair"
                if any(violation.mendable for violation in answer.violations)
                else "none of this can be repaired automatically; see what is affected with: mnemo show ID"
            )
    return EXIT_DONE if answer.ok else EXIT_FAILED


def repair(context: CommandContext) -> int:
    """Repair the store; exit 0 if nothing is wrong afterwards, and after a dry run, else 1."""
    dry_run = context.options.dry_run
    words = ["repair", *(["--dry-run"] if dry_run else [])]
    answer = _ask_or_run_offline(context, RepairAnswer, lambda client: client.repair(dry_run=dry_run), words)
    if not context.wants_json:
        context.print(*repair_lines(answer, context.style))
        if dry_run and answer.steps:
            context.message("nothing was changed; repair with: mnemo repair")
    return EXIT_DONE if dry_run or answer.check.ok else EXIT_FAILED


def _ask_or_run_offline(
    context: CommandContext, kind: type[T], ask: "Callable[[Client], T]", words: Sequence[str]
) -> T:
    """Return the daemon's answer or, if none runs, that of the offline program."""
    if process.is_listening(socket_path(context.environ)):
        with shown_progress(context, words[0]):
            answer = ask(context.connect())
        context.print_json_if_asked()
        return answer
    answer_json = offline_process.run_offline(context, *words)
    context.print_json_if_asked(answer_json)
    return msgspec.convert(answer_json, kind)


def check_lines(answer: CheckAnswer, style: TextStyle) -> list[str]:
    """Return the lines about what was checked, and what is wrong."""
    counts = [(answer.checked.get(name, 0), what) for name, what in COUNT_LABELS.items()]
    looked = " · ".join(plural(count, *what) for count, what in counts if count)
    lines = [style.dim(f"checked {looked or 'nothing'} in {answer.seconds:.1f} s")]
    lines += [style.warn(f"note: {sanitize(note)}") for note in answer.notes]
    if answer.ok:
        return [*lines, f"{style.good('no faults found')}"]
    lines += ["", style.bad(plural(sum(answer.totals.values()), "fault"))]
    return [*lines, *_violation_lines(answer, style)]


def _violation_lines(answer: CheckAnswer, style: TextStyle) -> list[str]:
    rows: list[list[str]] = []
    shown: Counter[str] = Counter()
    for violation in answer.violations:
        name = violation.invariant
        shown[name] += 1
        if shown[name] <= EXAMPLES_PER_RULE:
            first = style.bold(sanitize(name)) if shown[name] == 1 else ""
            rows.append([first, f"{violation.table} {_short_subject(violation.subject)}", sanitize(violation.what)])
        if shown[name] == EXAMPLES_PER_RULE and answer.totals[name] > EXAMPLES_PER_RULE:
            rows.append(["", f"and {number_text(answer.totals[name] - EXAMPLES_PER_RULE)} more", ""])
    return table(rows, indent="  ", width=style.width)


def _short_subject(subject: str) -> str:
    """Return the subject with its ids in the short form."""
    words = [short_id(word) if len(word) == 36 and word.count("-") == 4 else word for word in subject.split()]
    return sanitize(" ".join(words))[:SUBJECT_CELLS]


def repair_lines(answer: RepairAnswer, style: TextStyle) -> list[str]:
    """Return the lines about the steps that were taken, or would be, and the check after them."""
    lines = []
    for step in answer.steps:
        lines.append(f"{style.bold('would' if answer.dry_run else 'did')}: {sanitize(step.what)} ({step.how_many})")
        lines.append(style.dim(f"  {sanitize(step.why)}"))
    if not answer.steps:
        lines.append("there is nothing to repair")
    if answer.quarantine:
        lines.append(f"moved to quarantine in the data folder: {sanitize(', '.join(answer.quarantine))}")
    return lines if answer.dry_run else [*lines, "", *check_lines(answer.check, style)]

"""The commands that look whether everything is as it should be, and mend it: check, repair.

A daemon that runs is asked; without one the same is done by `python -m mnemo_daemon.offline`, and no daemon is started:
a store that is damaged may be what keeps it from starting.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mnemo_client import process
from mnemo_client.cli import offline_process
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.units import number_text, plural, short_id
from mnemo_client.cli.terminal import TextStyle, sanitize, table
from mnemo_client.errors import EXIT_DONE, EXIT_FAILED
from mnemo_client.paths import socket_path
from mnemo_client.protocol.maintenance import CheckAnswer, RepairAnswer

if TYPE_CHECKING:
    from mnemo_client.client import Client

T = TypeVar("T")

EXAMPLES_PER_RULE = 3  # of each rule that is broken
SUBJECT_CELLS = 44
# Of what is looked at, what a person knows by name; the rest is behind --json.
COUNT_LABELS = {
    "memories": ("memory", "memories"),
    "versions": ("earlier version", "earlier versions"),
    "changes": ("change", "changes"),
    "notes": ("note", "notes"),
    "words": ("text in the word index", "texts in the word index"),
    "vectors": ("memory in the vector index", "memories in the vector index"),
}


def check(context: CommandContext) -> int:
    """Exit 0 where nothing is wrong, else 1."""
    answer = _ask_or_run_offline(context, CheckAnswer, lambda client: client.check(), ["check"])
    if not context.wants_json:
        context.page(check_lines(answer, context.style))
        if not answer.ok:
            context.message(_next_step(answer))
    return EXIT_DONE if answer.ok else EXIT_FAILED


def repair(context: CommandContext) -> int:
    """Exit 0 where nothing is wrong afterwards, and after a dry run; else 1."""
    dry_run = context.options.dry_run
    words = ["repair", *(["--dry-run"] if dry_run else [])]
    answer = _ask_or_run_offline(context, RepairAnswer, lambda client: client.repair(dry_run=dry_run), words)
    if not context.wants_json:
        context.print(*repair_lines(answer, context.style))
        if dry_run and answer.steps:
            context.message("nothing was changed; do it with: mnemo repair")
    return EXIT_DONE if dry_run or answer.check.ok else EXIT_FAILED


def _ask_or_run_offline(
    context: CommandContext, kind: type[T], ask: "Callable[[Client], T]", words: Sequence[str]
) -> T:
    """What the daemon says, or where none runs, the same said without one."""
    if process.is_listening(socket_path(context.environ)):
        answer = ask(context.connect())
        if context.wants_json:
            context.print_answer()
        return answer
    said = offline_process.run_offline(context, *words)
    if context.wants_json:
        context.print_value(said)
    return msgspec.convert(said, kind)


def check_lines(answer: CheckAnswer, style: TextStyle) -> list[str]:
    """What was looked at, and what is wrong with it."""
    counts = [(answer.checked.get(name, 0), what) for name, what in COUNT_LABELS.items()]
    looked = " · ".join(plural(count, *what) for count, what in counts if count)
    lines = [style.dim(f"looked at {looked or 'nothing'} in {answer.seconds:.1f} s")]
    lines += [style.warn(f"note: {sanitize(note)}") for note in answer.notes]
    if answer.ok:
        return [*lines, f"{style.good('everything is as it should be')}"]
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
    """Ids as people are shown them."""
    words = [short_id(word) if len(word) == 36 and word.count("-") == 4 else word for word in subject.split()]
    return sanitize(" ".join(words))[:SUBJECT_CELLS]


def _next_step(answer: CheckAnswer) -> str:
    if any(violation.mendable for violation in answer.violations):
        return "see what would be done about it: mnemo repair --dry-run; then do it: mnemo repair"
    return "nothing of this can be mended by a program; look at what is named with: mnemo show ID"


def repair_lines(answer: RepairAnswer, style: TextStyle) -> list[str]:
    """What was done, or would be, and how things are then."""
    lines = []
    for step in answer.steps:
        lines.append(f"{style.bold('would' if answer.dry_run else 'did')}: {sanitize(step.what)} ({step.how_many})")
        lines.append(style.dim(f"  {sanitize(step.why)}"))
    if not answer.steps:
        lines.append("there is nothing that could be mended")
    if answer.quarantine:
        lines.append(f"kept in the data folder: {sanitize(', '.join(answer.quarantine))}")
    return lines if answer.dry_run else [*lines, "", *check_lines(answer.check, style)]

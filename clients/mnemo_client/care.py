"""The commands that look whether everything is as it should be, and mend it: check, repair.

A daemon that runs is asked; without one the same is done by `python -m mnemo_daemon.offline`, and no daemon is started:
a store that is damaged may be what keeps it from starting.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mnemo_client import care_protocol, display, launch, offline
from mnemo_client.errors import EXIT_DONE, EXIT_FAILED
from mnemo_client.invocation import Invocation
from mnemo_client.places import socket_path
from mnemo_client.terminal import Look, plain, table

if TYPE_CHECKING:
    from mnemo_client.client import Client

T = TypeVar("T")

EXAMPLES = 3  # of each rule that is broken
SUBJECT_CELLS = 44
# Of what is looked at, what a person knows by name; the rest is behind --json.
LOOKED_AT = {
    "memories": ("memory", "memories"),
    "versions": ("earlier version", "earlier versions"),
    "changes": ("change", "changes"),
    "notes": ("note", "notes"),
    "words": ("text in the word index", "texts in the word index"),
    "vectors": ("memory in the vector index", "memories in the vector index"),
}


def check(invocation: Invocation) -> int:
    """Exit 0 where nothing is wrong, else 1."""
    answer = _asked(invocation, care_protocol.CheckAnswer, lambda client: client.check(), ["check"])
    if not invocation.wants_json:
        invocation.page(check_lines(answer, invocation.look))
        if not answer.ok:
            invocation.tell(_next(answer))
    return EXIT_DONE if answer.ok else EXIT_FAILED


def repair(invocation: Invocation) -> int:
    """Exit 0 where nothing is wrong afterwards, and after a dry run; else 1."""
    dry_run = invocation.options.dry_run
    words = ["repair", *(["--dry-run"] if dry_run else [])]
    answer = _asked(invocation, care_protocol.RepairAnswer, lambda client: client.repair(dry_run=dry_run), words)
    if not invocation.wants_json:
        invocation.say(*repair_lines(answer, invocation.look))
        if dry_run and answer.steps:
            invocation.tell("nothing was changed; do it with: mnemo repair")
    return EXIT_DONE if dry_run or answer.check.ok else EXIT_FAILED


def _asked(invocation: Invocation, kind: type[T], ask: "Callable[[Client], T]", words: Sequence[str]) -> T:
    """What the daemon says, or where none runs, the same said without one."""
    if launch.answers(socket_path(invocation.environ)):
        answer = ask(invocation.connect())
        if invocation.wants_json:
            invocation.say_answer()
        return answer
    said = offline.run(invocation, *words)
    if invocation.wants_json:
        invocation.say_value(said)
    return msgspec.convert(said, kind)


def check_lines(answer: care_protocol.CheckAnswer, look: Look) -> list[str]:
    """What was looked at, and what is wrong with it."""
    counts = [(answer.checked.get(name, 0), what) for name, what in LOOKED_AT.items()]
    looked = " · ".join(display.plural(count, *what) for count, what in counts if count)
    lines = [look.dim(f"looked at {looked or 'nothing'} in {answer.seconds:.1f} s")]
    lines += [look.warn(f"note: {plain(note)}") for note in answer.notes]
    if answer.ok:
        return [*lines, f"{look.good('everything is as it should be')}"]
    lines += ["", look.bad(display.plural(sum(answer.totals.values()), "fault"))]
    return [*lines, *_violation_lines(answer, look)]


def _violation_lines(answer: care_protocol.CheckAnswer, look: Look) -> list[str]:
    rows: list[list[str]] = []
    shown: Counter[str] = Counter()
    for violation in answer.violations:
        name = violation.invariant
        shown[name] += 1
        if shown[name] <= EXAMPLES:
            first = look.bold(plain(name)) if shown[name] == 1 else ""
            rows.append([first, f"{violation.table} {_short(violation.subject)}", plain(violation.what)])
        if shown[name] == EXAMPLES and answer.totals[name] > EXAMPLES:
            rows.append(["", f"and {display.number(answer.totals[name] - EXAMPLES)} more", ""])
    return table(rows, indent="  ", width=look.width)


def _short(subject: str) -> str:
    """Ids as people are shown them."""
    words = [display.short_id(word) if len(word) == 36 and word.count("-") == 4 else word for word in subject.split()]
    return plain(" ".join(words))[:SUBJECT_CELLS]


def _next(answer: care_protocol.CheckAnswer) -> str:
    if any(violation.mendable for violation in answer.violations):
        return "see what would be done about it: mnemo repair --dry-run; then do it: mnemo repair"
    return "nothing of this can be mended by a program; look at what is named with: mnemo show ID"


def repair_lines(answer: care_protocol.RepairAnswer, look: Look) -> list[str]:
    """What was done, or would be, and how things are then."""
    lines = []
    for step in answer.steps:
        lines.append(f"{look.bold('would' if answer.dry_run else 'did')}: {plain(step.what)} ({step.how_many})")
        lines.append(look.dim(f"  {plain(step.why)}"))
    if not answer.steps:
        lines.append("there is nothing that could be mended")
    if answer.quarantine:
        lines.append(f"kept in the data folder: {plain(', '.join(answer.quarantine))}")
    return lines if answer.dry_run else [*lines, "", *check_lines(answer.check, look)]

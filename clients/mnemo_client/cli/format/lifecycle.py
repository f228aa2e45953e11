"""Shows cycles of consolidation: the counts of their steps, and each operation with the beginning of its texts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from mnemo_client.cli.format.records import word_diff
from mnemo_client.cli.format.units import (
    LISTED_LINE_CELLS,
    SHORT_ID_DIGITS,
    local_minute,
    number_text,
    plural,
    short_id,
)
from mnemo_client.cli.terminal import TextStyle, clip, sanitize, table
from mnemo_client.protocol.lifecycle import (
    ConsolidateAnswer,
    CycleOperationView,
    CycleStepView,
    CycleView,
    ProposalView,
)

MILLISECONDS_SHOWN = 100  # of a step that took longer


def consolidate_lines(answer: ConsolidateAnswer, style: TextStyle) -> Iterator[str]:
    """Yield what a cycle did, or would do: a line for each step that did anything, then its operations."""
    scope = "all namespaces" if answer.namespace == "*" else f"namespace {sanitize(answer.namespace)}"
    title = style.bold("a cycle would do this") if answer.dry_run else _cycle_name(answer.cycle, style)
    yield f"{title} {style.dim(f'· {scope}')}"
    yield from step_lines(answer.cycle.steps, style)
    if not answer.total and not waiting_operations(answer.cycle):
        yield style.dim("no memory needs a change")
    for head, operations in groupby(answer.operations, lambda each: (each.step, each.action, each.reason)):
        yield _operation_head(*head, style)
        for operation in operations:
            yield from _operation_lines(operation, style)
    if len(answer.operations) < answer.total:
        yield style.dim(f"and {plural(answer.total - len(answer.operations), 'more operation')}")


def waiting_operations(cycle: CycleView) -> int:
    """Return the number of operations of a cycle that wait for approval."""
    return sum(step.counts.get(name, 0) for step in cycle.steps for name in ("proposed", "waiting"))


def _cycle_name(cycle: CycleView, style: TextStyle) -> str:
    return f"{style.bold('cycle')} {style.location(short_id(cycle.id))}"


def step_lines(steps: Sequence[CycleStepView], style: TextStyle) -> list[str]:
    """A line for each step that did anything or was skipped."""
    rows = []
    for step in steps:
        parts = [f"{sanitize(name)} {count:,}" for name, count in step.counts.items()]
        if step.skipped:
            parts.append(style.warn(f"skipped: {sanitize(step.skipped)}"))
        if parts and step.milliseconds >= MILLISECONDS_SHOWN:
            parts.append(style.dim(f"{step.milliseconds / 1000:.1f} s"))
        if parts:
            rows.append([style.dim(sanitize(step.name)), " · ".join(parts)])
    return table(rows, "  ", style.width)


def cycle_summary(cycle: CycleView, style: TextStyle) -> str:
    """Return a cycle in a line: its epoch, its time, and what it did."""
    counts = Counter[str]()
    for step in cycle.steps:
        counts.update(step.counts)
    did = [f"{sanitize(name)} {number_text(count)}" for name, count in counts.items() if count]
    if cycle.undone_at is not None:
        did = [style.warn("undone")]
    elif cycle.ended_at is None:
        did.append(style.warn("not finished"))
    return " · ".join([str(cycle.epoch), local_minute(cycle.started_at), *(did or ["no memory needed a change"])])


def cycle_lines(cycles: Sequence[CycleView], style: TextStyle) -> Iterator[str]:
    """Yield each cycle with its steps."""
    for cycle in cycles:
        facts = [local_minute(cycle.started_at), "on request" if cycle.requested else "after activity"]
        if cycle.namespace != "*":
            facts.append(f"namespace {sanitize(cycle.namespace)}")
        if cycle.ended_at is None:
            facts.append(style.warn("not finished"))
        if cycle.undone_at is not None:
            facts.append(style.warn("undone"))
        yield f"{_cycle_name(cycle, style)} {style.dim(' · '.join(facts))}"
        yield from step_lines(cycle.steps, style)


def proposal_lines(proposal: ProposalView, style: TextStyle) -> Iterator[str]:
    """Yield a proposal: what would be done and why, the texts with their use, and the changed words of a new text."""
    facts = [sanitize(proposal.reason)] if proposal.reason else []
    if proposal.similarity is not None:
        facts.append(f"similarity {proposal.similarity:.2f}")
    if proposal.stale:
        facts.append(style.warn(sanitize(proposal.stale)))
    action = _aim(proposal.action, "core")  # no other promotion has to be approved
    head = f"{style.bold(proposal.id[:SHORT_ID_DIGITS])} {style.warn(sanitize(action))}"
    if proposal.tag:
        head += f" {sanitize(proposal.tag)}"
    yield head + style.dim("".join(f" · {fact}" for fact in facts))
    for memory in proposal.memories:
        used = f"{memory.layer}, importance {memory.importance:.2f}, recalled {plural(memory.access_count, 'time')}"
        yield f"  {style.location(short_id(memory.id))}  {sanitize(memory.content)}  {style.dim(used)}"
    if proposal.text is not None:
        before = proposal.memories[0].content if proposal.memories else ""
        yield f"  {style.dim('becomes')}   {word_diff(before, proposal.text, style)}"
    elif proposal.action in ("absorb", "supersede", "merge"):
        yield f"  {style.dim('the first stays')}"


def _operation_head(step: str, action: str, reason: str, style: TextStyle) -> str:
    """The step and the action of operations, with their reason."""
    facts = style.dim("".join(f" · {sanitize(each)}" for each in (step, reason) if each not in ("", action)))
    return f"{style.warn(sanitize(_aim(action, 'core' if step == 'gate' else 'working')))}{facts}"


def _aim(action: str, layer: str) -> str:
    return f"promote to {layer}" if action == "promote" else action


def _operation_lines(operation: CycleOperationView, style: TextStyle) -> Iterator[str]:
    """Yield the texts that an operation is about, and the changed words of a new text."""
    known = [(each, text) for each, text in zip(operation.ids, operation.texts, strict=True) if text is not None]
    for memory_id, text in known:
        yield f"  {style.location(short_id(memory_id))}  {clip(sanitize(text), LISTED_LINE_CELLS)}"
    if operation.text is not None and operation.step == "session_distillation":  # nothing becomes it: the notes stay
        yield f"  {style.dim('new')}       {sanitize(operation.text)}"
    elif operation.text is not None:
        before = known[0][1] if known else ""
        if before == operation.text:
            yield f"  {style.dim('the first stays')}"
        else:
            yield f"  {style.dim('becomes')}   {word_diff(before, operation.text, style)}"

"""Shows facts: lists of them, conflicts, and the chains that they make."""

from collections.abc import Sequence

from mnemo_client.cli.format.units import local_date, short_id
from mnemo_client.cli.terminal import TextStyle, sanitize, table
from mnemo_client.protocol.knowledge import ConflictView, FactView
from mnemo_client.protocol.retrieval import FactChainView, FactLink


def fact_lines(facts: Sequence[FactView], style: TextStyle) -> list[str]:
    """Return a line for each fact: what it says, since when, how it stands, its memory and its id."""
    return table([_fact_row(each, style) for each in facts], width=style.width)


def conflict_lines(conflicts: Sequence[ConflictView], style: TextStyle) -> list[str]:
    """Return a heading for each conflict, then a line for each of the facts."""
    lines: list[str] = []
    for each in conflicts:
        lines.append(style.bold(f"{sanitize(each.subject)} · {sanitize(each.predicate)}"))
        lines += ["  " + line for line in fact_lines(each.facts, style)]
    return lines


def chain_lines(chains: Sequence[FactChainView], style: TextStyle) -> list[str]:
    """Return a line for each chain: the entities on the way, and the predicates between them with their direction."""
    return [_chain_line(each, style) for each in chains]


def _fact_row(fact: FactView, style: TextStyle) -> list[str]:
    since = f"since {local_date(fact.valid_from)}" if fact.valid_from else ""
    until = f"until {local_date(fact.valid_to)}" if fact.valid_to is not None else ""
    doubt = style.warn("contradicted") if fact.conflicts_with else ""
    state = "" if fact.status == "open" else style.warn(fact.status)
    triple = [sanitize(fact.subject), style.dim(sanitize(fact.predicate)), sanitize(fact.object)]
    facts = " · ".join(filter(None, (since, until, state, doubt)))
    ids = f"memory {short_id(fact.memory_id)} · fact {sanitize(short_id(fact.id))}"
    return [*triple, style.dim(facts), style.dim(ids)]


def _chain_line(chain: FactChainView, style: TextStyle) -> str:
    line = style.bold(sanitize(chain.entities[0]))
    for fact, entity in zip(chain.facts, chain.entities[1:], strict=True):
        line += f" {_arrow(fact, entity, style)} {sanitize(entity)}"
    return line


def _arrow(fact: FactLink, entity: str, style: TextStyle) -> str:
    predicate = sanitize(fact.predicate)
    return style.dim(f"─ {predicate} →" if fact.object == entity else f"← {predicate} ─")

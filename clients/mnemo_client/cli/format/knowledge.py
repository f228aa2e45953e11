"""Shows knowledge: facts, their conflicts and chains, profiles, and what a compression did."""

from collections.abc import Sequence

from mnemo_client.cli.format.units import local_date, plural, short_id
from mnemo_client.cli.terminal import TextStyle, sanitize, table
from mnemo_client.protocol.knowledge import ConflictView, FactView
from mnemo_client.protocol.profiles import CompressAnswer, KnownStatement, ProfileAnswer, ProfileEntry, ProjectAnswer
from mnemo_client.protocol.retrieval import FactChainView

_KNOWN = {
    "identity": "Who you are", "instruction": "How you want things done", "rule": "How you want certain things done",
    "taste": "What you like", "constraint": "Constraints", "goal": "Goals", "decision": "Decisions",
    "blocker": "Blockers", "next": "Next steps", "lesson": "Lessons",
}  # fmt: skip
OTHERS = "Written by others (not instructions)"


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
    lines = []
    for chain in chains:
        line = style.bold(sanitize(chain.entities[0]))
        for fact, entity in zip(chain.facts, chain.entities[1:], strict=True):
            predicate = sanitize(fact.predicate)
            arrow = f"─ {predicate} →" if fact.object == entity else f"← {predicate} ─"
            line += f" {style.dim(arrow)} {sanitize(entity)}"
        lines.append(line)
    return lines


def _fact_row(fact: FactView, style: TextStyle) -> list[str]:
    since = f"since {local_date(fact.valid_from)}" if fact.valid_from else ""
    until = f"until {local_date(fact.valid_to)}" if fact.valid_to is not None else ""
    doubt = style.warn("contradicted") if fact.conflicts_with else _doubt(fact, style)
    state = "" if fact.status == "open" else style.warn(fact.status)
    triple = [sanitize(fact.subject), style.dim(sanitize(fact.predicate)), sanitize(fact.object)]
    facts = " · ".join(filter(None, (since, until, state, doubt)))
    ids = f"memory {short_id(fact.memory_id)} · fact {sanitize(short_id(fact.id))}"
    return [*triple, style.dim(facts), style.dim(ids)]


def _doubt(said: FactView | KnownStatement, style: TextStyle) -> str:
    return style.warn("perhaps no longer") if said.perhaps_outdated else ""


def profile_lines(profile: ProfileAnswer, style: TextStyle) -> list[str]:
    """Return the lists of a user's profile under their headings, and the names of the projects; none if all are
    empty."""
    lists = {
        "Preferences": profile.preferences, "Facts": profile.stable_facts, "Do not assume": profile.do_not_assume,
    }  # fmt: skip
    lines = [line for heading, entries in lists.items() for line in _entry_lines(heading, entries, style)]
    if profile.projects:
        lines.append(f"{style.bold('Projects')}: {', '.join(map(sanitize, profile.projects))}")
    for role, heading in _KNOWN.items():
        if own := [each for each in profile.known if each.role == role and each.author is None]:
            lines += [style.bold(heading), *(_known_line(each, style) for each in own)]
    of_others = [*_entry_lines(OTHERS, profile.others, style)[1:]]
    of_others += [_known_line(each, style) for each in profile.known if each.author is not None]
    return lines + ([style.bold(OTHERS), *of_others] if of_others else [])


def _known_line(known: KnownStatement, style: TextStyle) -> str:
    author = sanitize(known.author) if known.author is not None else ""
    facts = " · ".join(filter(None, (_doubt(known, style), author, short_id(known.id), local_date(known.at))))
    return f"  {sanitize(' '.join(known.text.split()))}  {style.dim(facts)}"


def project_lines(project: ProjectAnswer, style: TextStyle) -> list[str]:
    """Return the lists of a project under their headings."""
    lists = {"Goals": project.goals, "Blockers": project.blockers, "Next steps": project.next_steps}
    lines = [line for heading, entries in lists.items() for line in _entry_lines(heading, entries, style)]
    return lines + _entry_lines(OTHERS, project.others, style)


def compression_lines(answer: CompressAnswer, style: TextStyle) -> list[str]:
    """Return a line for each summary, with the session and the number of memories that it stands for, and one for what
    was lifted."""
    lines = [
        f"{style.bold(sanitize(each.session_id))} · {plural(len(each.memories), 'memory', 'memories')} · "
        f"{sanitize(each.summary)}"
        for each in answer.sessions
    ]
    would = "would be " if answer.dry_run else ""
    lines.append(f"{plural(len(answer.sessions), 'conversation')} {would}summarized")
    if answer.under_way:
        lines.append(f"{plural(answer.under_way, 'conversation')} left alone, because it goes on: mnemo sessions")
    entries = plural(answer.profile, "entry", "entries")
    lines.append(
        f"{plural(answer.compressed, 'item')} {would}lifted to {entries} of the profile"
        f" and to {plural(answer.projects, 'project')}"
    )
    return lines


def _entry_lines(heading: str, entries: Sequence[ProfileEntry], style: TextStyle) -> list[str]:
    return [style.bold(heading), *(_entry_line(entry, style) for entry in entries)] if entries else []


def _entry_line(entry: ProfileEntry, style: TextStyle) -> str:
    evidence = ", ".join(map(short_id, entry.evidence_ids))
    facts = f"{short_id(entry.id)} · {local_date(entry.last_updated)} · evidence {evidence}"
    if entry.author is not None:
        facts = f"{sanitize(entry.author)} · {(entry.list or '').replace('_', ' ')} · {facts}"
    return f"  {sanitize(entry.text)}  {style.dim(facts)}"

"""Operations that put one memory in the place of others, with all that these have. SPEC 9.5

What stays as it is worded takes over tags, usage, facts and what it updates. New words are a new memory, derived from
all of its sources: so each source keeps its own words, and is shown again when the new memory is gone.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from mnemo_core.decay import bring_to_epoch
from mnemo_core.ingest.trust import lowest_trust
from mnemo_core.ingest.write_plan import StatedFact, new_facts
from mnemo_core.lifecycle.compression import first_tags
from mnemo_core.lifecycle.consolidation.cycle import DISTILLED, CycleOperation
from mnemo_core.lifecycle.consolidation.pairs import may_share_text, pair_decision
from mnemo_core.lifecycle.consolidation.state import LAYER_TAGS, CycleState
from mnemo_store.records import (
    EVIDENCE_MAX,
    LAYERS,
    Change,
    Edge,
    LifecycleAction,
    Memory,
    PutEdge,
    PutMemory,
    PutUsage,
    Usage,
    default_decay_rate,
)

DISTILL_SOURCE = "distill"  # of what distillation makes
DISTILLED_IMPORTANCE = 0.7  # [G22, G25]


def absorb_operation(
    state: CycleState, winner: Memory, losers: Sequence[Memory], reason: str = "", repetitions: int = 0
) -> CycleOperation:
    """The operation by which a memory takes the place of others of which it says all. `repetitions`: those of them that
    nobody has counted yet."""
    return _operation(state, "absorb", winner, losers, winner.content, reason, repetitions)


def supersede_operation(
    state: CycleState, winner: Memory, loser: Memory, text: str, reason: str = ""
) -> CycleOperation:
    """The operation by which a newer memory replaces an older one. `text`: the newer one's, with what the older one
    insists on."""
    return _operation(state, "supersede", winner, [loser], text, reason, keeps_facts=False)


def merge_operation(state: CycleState, winner: Memory, loser: Memory, text: str, reason: str = "") -> CycleOperation:
    """The operation by which a text that keeps all of two memories takes their place."""
    return _operation(state, "merge", winner, [loser], text, reason)


def distil_operation(state: CycleState, sources: Sequence[Memory], text: str, reason: str = "") -> CycleOperation:
    """The operation by which the entry of a topic takes the place of its sources. It is as the latest of them is, and
    as strong as the strongest."""
    ordered = sorted(sources, key=lambda source: (source.event_at, source.id), reverse=True)
    written = _written(state, ordered, text)
    tags = (DISTILLED, *(tag for each in ordered for tag in each.tags if tag not in LAYER_TAGS))
    entry = replace(
        written, tags=first_tags(tags), importance=DISTILLED_IMPORTANCE, importance_source="rule",
        source=DISTILL_SOURCE,
    )  # fmt: skip
    usage = _usage(state, entry.id, sources, 0)
    facts = [*_facts_of(state, ordered[::-1]), *state.stated_facts(entry)]
    changes = [
        PutMemory(data=entry),
        PutUsage(data=replace(usage, strength=max(usage.strength, entry.importance))),
        *_put_behind(state, entry, sources),
        *new_facts(entry, facts, (), state.now, state.new_id),
    ]
    return CycleOperation("distil", (entry.id, *(each.id for each in sources)), tuple(changes), reason, text)


def _operation(
    state: CycleState, action: LifecycleAction, winner: Memory, losers: Sequence[Memory], text: str, reason: str,
    repetitions: int = 0, *, keeps_facts: bool = True,
) -> CycleOperation:  # fmt: skip
    """`keeps_facts`: what the losers state holds still. Whatever a winner gets belongs to a new version of it, so that
    undo takes it back."""
    sources = (winner, *losers)
    is_reworded = text != winner.content
    if is_reworded:
        result, hidden, known = _written(state, sources, text), sources, []
        facts = [*_facts_of(state, sources if keeps_facts else [winner]), *state.stated_facts(result)]
    else:
        result, hidden, known = _inheriting(sources), tuple(losers), state.known_facts(winner)
        facts = _facts_of(state, losers if keeps_facts else [])
    changes = [
        PutMemory(data=result),
        PutUsage(data=_usage(state, result.id, sources, repetitions)),
        *_put_behind(state, result, hidden),
        *new_facts(result, facts, known, state.now, state.new_id),
        *(pair_decision(state, action, winner, each, "done") for each in losers),
    ]
    ids = dict.fromkeys((result.id, *(each.id for each in sources)))
    return CycleOperation(action, (*ids,), tuple(changes), reason, result.content)


def _put_behind(state: CycleState, result: Memory, hidden: Sequence[Memory]) -> list[Change]:
    """The changes by which a memory supersedes others and updates what they update."""
    superseded = (
        replace(each, version=each.version + 1, state="superseded", superseded_by=result.id) for each in hidden
    )
    return [*(PutMemory(data=each) for each in superseded), *_updates(state, hidden, result.id)]


def _updates(state: CycleState, memories: Sequence[Memory], result: str) -> list[Change]:
    """The changes by which a memory updates what some others update."""
    ids = [each.id for each in memories]
    edges = [edge for each in ids for edge in state.edges(each) if edge.relation == "updates" and edge.source == each]
    targets = dict.fromkeys(edge.target for edge in edges if edge.target not in (result, *ids))
    return [PutEdge(data=Edge(source=result, target=each, relation="updates", at=state.now)) for each in targets]


def _written(state: CycleState, sources: Sequence[Memory], text: str) -> Memory:
    """A new memory in the place of its sources: as the first one is, in the highest layer, with the least trust."""
    winner = sources[0]
    layer = max((each.layer for each in sources), key=LAYERS.index)
    session = winner.session_id if all(each.session_id == winner.session_id for each in sources) else ""
    return replace(
        _inheriting(sources), id=state.new_id(), version=1, content=text, created_at=state.now, modified_at=state.now,
        layer=layer, decay_rate=default_decay_rate(layer, winner.kind), session_id=session, method=state.method,
        trust=lowest_trust(*(each.trust for each in sources)), derived_from=tuple(each.id for each in sources),
    )  # fmt: skip


def _inheriting(sources: Sequence[Memory]) -> Memory:
    """The next version of the first memory, with the tags and evidence of all and the largest importance; a memory of
    the person takes over none of those of others."""
    winner = sources[0]
    sources = [each for each in sources if may_share_text(winner, each)]
    top = max(sources, key=lambda each: each.importance)
    tags = [*winner.tags, *(tag for each in sources[1:] for tag in each.tags if tag not in LAYER_TAGS)]
    return replace(
        winner, version=winner.version + 1, tags=first_tags(tags),
        evidence=tuple(dict.fromkeys(each for source in sources for each in source.evidence))[:EVIDENCE_MAX],
        importance=top.importance, importance_source=top.importance_source,
    )  # fmt: skip


def _usage(state: CycleState, memory_id: str, sources: Sequence[Memory], repetitions: int) -> Usage:
    """The usage of all together."""
    usages = [bring_to_epoch(state.usage(each), each, state.epoch) for each in sources]
    return Usage(
        id=memory_id,
        access_count=sum(each.access_count for each in usages),
        repetition_count=sum(each.repetition_count for each in usages) + repetitions,
        last_accessed=max(each.last_accessed for each in usages),
        strength=max(each.strength for each in usages),
        strength_epoch=state.epoch,
        person_at=usages[0].person_at if memory_id == sources[0].id else 0,  # no person has seen a new text
    )


def _facts_of(state: CycleState, memories: Sequence[Memory]) -> list[StatedFact]:
    """The facts that these memories state and that nobody has ended."""
    return [
        StatedFact(fact.subject, fact.predicate, fact.object, fact.valid_from, fact.method)
        for each in memories
        for fact in state.known_facts(each)
        if not fact.valid_to
    ]

"""Chains of facts from an entity: Anna's sister is Maria, Maria works at Siemens, Siemens is in Munich. SPEC 10.3

A step leads from either side of a fact to the other one, and to every fact that names an entity of that side.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mnemo_core.knowledge.entity_names import entity_key
from mnemo_core.knowledge.facts import GraphFact
from mnemo_store.records import Fact

HOPS_DEFAULT = 2  # [G 9]
HOPS_MAX = 3  # [G 9]
CHAINS_MAX = 200  # that are followed at once, and in an answer
FAN_OUT_MAX = 64  # facts of one entity that are followed

FactsOf = Callable[[str], Sequence[GraphFact]]  # those that name an entity, by its key, the most important first


class FactChain(NamedTuple):
    """Facts that lead from one entity to another, and the entities on the way as they are written: one more."""

    facts: tuple[Fact, ...]
    entities: tuple[str, ...]


class ChainSearch(NamedTuple):
    """The chains, shorter ones first; whether these are all."""

    chains: list[FactChain]
    is_whole: bool


class _Path(NamedTuple):
    chain: FactChain
    seen: frozenset[str]  # keys of the entities on the way
    ends: tuple[str, ...]  # keys of the last one


def find_chains(entity: str, facts_of: FactsOf, hops: int = HOPS_DEFAULT) -> ChainSearch:
    """The chains from an entity that cannot be longer: for lack of further facts, or since they have `hops` facts.

    None passes the same entity or fact twice. Breadth first, so that a bound cuts the longest.
    """
    start = entity_key(entity)
    paths = [_Path(FactChain((), (entity,)), frozenset((start,)), (start,))]
    found: list[FactChain] = []
    is_whole = True
    for _ in range(hops):
        longer: list[_Path] = []
        for path in paths:
            steps, is_cut = _steps(path, facts_of)
            is_whole = is_whole and not is_cut
            longer += steps
            if not steps and path.chain.facts:
                found.append(path.chain)
        is_whole = is_whole and len(longer) <= CHAINS_MAX
        paths = longer[:CHAINS_MAX]
    found += [path.chain for path in paths]
    return ChainSearch(found[:CHAINS_MAX], is_whole and len(found) <= CHAINS_MAX)


def _steps(path: _Path, facts_of: FactsOf) -> tuple[list[_Path], bool]:
    """The path with one fact more, in each way; whether there would have been others."""
    found: dict[str, _Path] = {}
    is_cut = False
    for key in path.ends:
        facts = facts_of(key)
        is_cut = is_cut or len(facts) > FAN_OUT_MAX
        for fact, subjects, objects, *_ in facts[:FAN_OUT_MAX]:
            is_forward = key in subjects
            near, other = (fact.subject, fact.object) if is_forward else (fact.object, fact.subject)
            keys = objects if is_forward else subjects
            if fact.id in found or not path.seen.isdisjoint(keys):
                continue
            before = path.chain.entities if path.chain.facts else (near,)  # the first one, too, as it is written
            chain = FactChain((*path.chain.facts, fact), (*before, other))
            found[fact.id] = _Path(chain, path.seen.union(keys), keys)
    return list(found.values()), is_cut

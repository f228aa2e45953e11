"""A made family: who is related to whom, who works where, and where that is; with values that changed, and doubts."""

import random
from typing import NamedTuple

from mnemo_core.text.syntax.statements import Triple
from mnemo_store.records import Fact
from tests.support.samples import AT, sample_id

DAY_MS = 86_400_000
FIRST = ("Ada", "Bela", "Cora", "Dina", "Edda", "Faro", "Gila", "Hugo", "Ines", "Jaro", "Kira", "Lior", "Mira")
LAST = ("Amsel", "Birke", "Distel", "Eiche", "Fink", "Ginster")
PEOPLE = tuple(f"{first} {last}" for last in LAST for first in FIRST)
FIRMS = tuple(f"Firma{each}" for each in "ABCDEFGHIJ")
TOWNS = tuple(f"Stadt{each}" for each in "ABCDEF")
LANDS = ("Nordland", "Suedland")
RELATIONS = ("sister", "brother", "mother", "friend")
SIZE = 300


class DatedTriple(NamedTuple):
    """A fact, and the day from which it holds."""

    triple: Triple
    day: int


def family(seed: int = 7) -> list[DatedTriple]:
    """300 facts: a net of relations, employers, homes, and the places of firms and towns; 30 people change employers,
    and of 6 two homes are told for the same day."""
    chance = random.Random(seed)
    found = [DatedTriple(Triple(firm, "is based in", chance.choice(TOWNS)), 1) for firm in FIRMS]
    found += [DatedTriple(Triple(town, "is in", chance.choice(LANDS)), 1) for town in TOWNS]
    found += [DatedTriple(Triple(each, "work at", chance.choice(FIRMS[:9])), 2) for each in PEOPLE]
    for each in PEOPLE[:30]:
        (first,) = (said.triple.object for said in found if said.triple[:2] == (each, "work at"))
        found.append(DatedTriple(Triple(each, "work at", chance.choice([one for one in FIRMS if one != first])), 9))
    found += [DatedTriple(Triple(each, "live in", TOWNS[0]), 3) for each in PEOPLE[:6]]
    found += [DatedTriple(Triple(each, "live in", TOWNS[1]), 3) for each in PEOPLE[:6]]
    seen: set[Triple] = set()
    while len(found) < SIZE:
        one, other = chance.sample(PEOPLE, 2)
        triple = Triple(one, chance.choice(RELATIONS), other)
        if triple not in seen:
            seen.add(triple)
            found.append(DatedTriple(triple, 1))
    return found


def fact_of(number: int, said: DatedTriple, **fields: object) -> Fact:
    """The fact as it would be stored."""
    values = {"memory": sample_id(10_000 + number), "content_hash": "00", "created_at": AT,
              "valid_from": AT + said.day * DAY_MS, **said.triple._asdict(), **fields}  # fmt: skip
    return Fact(id=sample_id(number), **values)  # type: ignore[arg-type]

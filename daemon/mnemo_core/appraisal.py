"""What a text is and how much it matters, before anything is written. SPEC 5.3, 5.4"""

from typing import Any

from numpy.typing import NDArray

from mnemo_core import profiles
from mnemo_core.changing import Draft
from mnemo_core.intake import LOW_IMPORTANCE, Item, Scores
from mnemo_core.profiles import Door, Profile
from mnemo_core.routing import Role, Route, route
from mnemo_core.salience import Rarity, Salience, importance, novelty, salience
from mnemo_core.secrets import without_masks

SIGNALS = ("entity", "number", "preference", "technical")


def score(
    content: str,
    profile: Profile,
    vectors: NDArray[Any] | None,
    centroid: NDArray[Any] | None,
    found: Salience | None = None,
) -> Scores:
    """0.6 novelty + 0.4 salience; without a vector novelty counts as 1.0. `found`: the salience, where it is known."""
    found = found or salience_of(content, profile)
    new = novelty(vectors, centroid)
    signals = {name: words for name in SIGNALS if (words := getattr(found, name))}
    return Scores(importance(new, found.value), new, found.value, signals)


def salience_of(content: str, profile: Profile, rarity: Rarity | None = None) -> Salience:
    """What the text holds, by the signals that the profile goes by. What stands for a secret is none of it."""
    content = without_masks(content)
    if profile.salience == "L":
        return Salience(profiles.salience_by_letter(content, rarity), "", "", "", "")
    return salience(content, rarity)


def routed(draft: Draft, door: Door, profile: Profile, role: Role = "") -> Route:
    """Kind, form and category: the caller's word, and where there is none, by rule. SPEC 5.4"""
    return route(
        draft.content, session_id=draft.session_id, tags=draft.tags, kind=draft.kind, category=draft.category,
        role=role, from_note=door == "note", has_evidence=bool(draft.evidence), has_trace=draft.trace is not None,
        profile=profile,
    )  # fmt: skip


def judged(item: Item, found: Route, scores: Scores | None, event_at: int | None) -> Item:
    """The item with what it is and how much it matters; what the caller gave is never overruled. SPEC 5.3, 5.4

    What is scored too low at a door that may set aside is discarded.
    """
    draft, profile, door = item.draft, item.profile, item.door
    given = draft.importance
    fields: dict[str, Any] = {"kind": found.kind, "category": found.category, "form": draft.form or found.form}
    if draft.event_at is None and event_at is not None:
        fields["event_at"] = event_at
    discarded = item.discarded
    if given is None and scores is not None and door in profile.scored:
        settled = profiles.settled_importance(profile, door, scores.importance)
        fields |= {"importance": settled, "importance_source": "rule"}
        if not discarded and profiles.is_set_aside(profile, door, scores.importance, given):
            discarded = LOW_IMPORTANCE
    elif given is None:
        default = profiles.default_importance(profile, door, found.kind, draft.tags)
        fields |= {"importance": default, "importance_source": "rule"}
    return item._replace(draft=draft._replace(**fields), scores=scores, why=found.why, discarded=discarded)

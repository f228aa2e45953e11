"""Classification and importance of a text before it is written. SPEC 5.3, 5.4"""

from typing import Any

from numpy.typing import NDArray

from mnemo_core.ingest import policies
from mnemo_core.ingest.classification import Classification, Role, classify
from mnemo_core.ingest.mutations import Draft
from mnemo_core.ingest.policies import EntryPoint, Policy
from mnemo_core.ingest.signals.salience import Rarity, Salience, importance, measure_salience, novelty
from mnemo_core.ingest.write_plan import LOW_IMPORTANCE, IngestItem, IngestScores
from mnemo_core.text.secrets import remove_masks

SIGNALS = ("entity", "number", "preference", "technical")


def score(
    content: str,
    policy: Policy,
    vectors: NDArray[Any] | None,
    centroid: NDArray[Any] | None,
    found: Salience | None = None,
) -> IngestScores:
    """0.6 novelty + 0.4 salience; without a vector novelty counts as 1.0. `found`: the salience, where it is known."""
    found = found or salience_of(content, policy)
    new = novelty(vectors, centroid)
    signals = {name: words for name in SIGNALS if (words := getattr(found, name))}
    return IngestScores(importance(new, found.value), new, found.value, signals)


def salience_of(content: str, policy: Policy, rarity: Rarity | None = None) -> Salience:
    """Salience of the text by the signals of the policy. Masks of secrets count for nothing."""
    content = remove_masks(content)
    if policy.salience == "L":
        return Salience(policies.salience_source_l(content, rarity), "", "", "", "")
    return measure_salience(content, rarity)


def classify_draft(draft: Draft, entry_point: EntryPoint, policy: Policy, role: Role = "") -> Classification:
    """Kind, form and category: the caller's word, and where there is none, by rule. SPEC 5.4"""
    return classify(
        draft.content, session_id=draft.session_id, tags=draft.tags, kind=draft.kind, category=draft.category,
        role=role, from_note=entry_point == "note", has_evidence=bool(draft.evidence),
        has_trace=draft.trace is not None, policy=policy,
    )  # fmt: skip


def apply_scores(
    item: IngestItem, found: Classification, scores: IngestScores | None, event_at: int | None
) -> IngestItem:
    """Return the item with its classification and importance; values given by the caller are kept. SPEC 5.3, 5.4

    An item scored too low at an entry point that may discard is discarded.
    """
    draft, policy, entry_point = item.draft, item.policy, item.entry_point
    given = draft.importance
    fields: dict[str, Any] = {"kind": found.kind, "category": found.category, "form": draft.form or found.form}
    if draft.event_at is None and event_at is not None:
        fields["event_at"] = event_at
    discarded = item.discard_reason
    if given is None and scores is not None and entry_point in policy.scored:
        settled = policies.final_importance(policy, entry_point, scores.importance)
        fields |= {"importance": settled, "importance_source": "rule"}
        if not discarded and policies.is_discarded(policy, entry_point, scores.importance, given):
            discarded = LOW_IMPORTANCE
    elif given is None:
        default = policies.default_importance(policy, entry_point, found.kind, draft.tags)
        fields |= {"importance": default, "importance_source": "rule"}
    return item._replace(draft=draft._replace(**fields), scores=scores, why=found.why, discard_reason=discarded)

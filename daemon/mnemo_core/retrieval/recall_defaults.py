"""The recall parameters of a request that does not give them, as each source prescribes them. SPEC 7.1, 15"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from mnemo_core.retrieval.ranking.rankers import Ranker


class RecallDefaults(NamedTuple):
    """The recall parameters of a request that does not give them. SPEC 7.1

    token_budget: None for no budget. min_importance: of every memory, 0 to 1. list_top_k: the least top_k of a query
    that asks for a list.
    """

    ranker: Ranker = "auto"
    top_k: int = 5
    token_budget: int | None = 2000  # [L 2.1]
    preferences: Literal["first", "inline"] = "inline"
    cut: Literal["none", "gap"] = "none"
    rerank: bool = False
    min_importance: float = 0.0
    list_top_k: int = 1


LIST_TOP_K = 20  # where 73% of the evidence of multi-hop questions is found, 48% among the first 5 (SPEC 7.5)

# By the name of a policy (ingest/policies.py); `own` is missing: its defaults are the [recall] settings.
RECALL_DEFAULTS: Mapping[str, RecallDefaults] = {
    "L": RecallDefaults(ranker="cosine", preferences="first", min_importance=0.2),  # [L 2.4 to 2.6]
    "M": RecallDefaults(ranker="hybrid", top_k=10, token_budget=None),  # no word of a budget [M3, M8]
    "E": RecallDefaults(ranker="cosine", top_k=10, token_budget=None),  # [E7]
    "G": RecallDefaults(ranker="layered", top_k=20),  # whose floor is 0.30 [G 4.1, G39, G41]
    "T": RecallDefaults(ranker="fused", top_k=10),  # whose floor is 0.6 [T12]
}

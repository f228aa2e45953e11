"""The recall parameters of a request that does not give them, as each source prescribes them. SPEC 7.1, 15"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from mnemo_core.retrieval.ranking.rankers import Ranker
from mnemo_core.retrieval.result_selection import Copies

MIN_IMPORTANCE_UNASKED = 0.2  # [L 2.4]


class ContextDefaults(NamedTuple):
    """The parameters of a context block that its request does not give. SPEC 11"""

    cut: Literal["none", "gap"] = "gap"
    format: Literal["block", "m"] = "block"
    dates: Literal["episodic", "all", "none"] = "all"


class RecallDefaults(NamedTuple):
    """The recall parameters of a request that does not give them. SPEC 7.1

    token_budget: None for no budget. min_importance: of every memory, 0 to 1; min_importance_unasked: of what nobody
    asked to be kept. expand: what `auto` means. copies: near ones are shown once, equal ones alone are, or all are
    shown. list_top_k: the least top_k of a query that asks for a list.
    """

    ranker: Ranker = "auto"
    top_k: int = 5
    token_budget: int | None = 2000  # [L 2.1]
    preferences: Literal["first", "inline"] = "inline"
    cut: Literal["none", "gap"] = "none"
    rerank: bool = False
    min_importance: float = 0.0
    min_importance_unasked: float = MIN_IMPORTANCE_UNASKED
    min_score: float = 0.0
    expand: Literal["auto", "false"] = "auto"
    copies: Copies = "near"
    context: ContextDefaults = ContextDefaults()
    list_top_k: int = 1


LIST_TOP_K = 20  # where 73% of the evidence of multi-hop questions is found, 48% among the first 5 (SPEC 7.5)

# What a source has that says nothing of a ranker, a budget, weak memories, widened queries and copies.
_SILENT = RecallDefaults(
    ranker="cosine", token_budget=None, min_importance_unasked=0.0, expand="false", copies="all"
)  # fmt: skip

# By the name of a policy (ingest/policies.py); `own` is missing: its defaults are the [recall] settings.
RECALL_DEFAULTS: Mapping[str, RecallDefaults] = {
    "L": _SILENT._replace(
        preferences="first", min_importance=0.2, token_budget=2000, context=ContextDefaults("none", "block", "episodic")
    ),  # [L 2.4 to 2.6, L 4]
    "M": _SILENT._replace(ranker="hybrid", top_k=10, context=ContextDefaults("none", "m")),  # [M3, M8, M22]
    "E": _SILENT._replace(top_k=10, min_score=0.7),  # [E7]
    "G": _SILENT._replace(ranker="layered", top_k=20, token_budget=2000, expand="auto"),  # floor 0.30 [G 4.1, G39, G41]
    "T": _SILENT._replace(ranker="fused", top_k=6, copies="equal"),  # whose floor is 0.6 [T12, T13]
}

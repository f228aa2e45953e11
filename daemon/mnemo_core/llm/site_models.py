"""The names under which a call site can be given a model of its own. SPEC 12.2 [G47]"""

from collections.abc import Mapping
from typing import Literal

from mnemo_core.llm.tasks import Site

ModelKey = Literal[Site, "resume"]

# The model of a key without one is that of its broader key: the groups of call sites that the source gives one model.
BROADER_KEYS: Mapping[ModelKey, ModelKey] = {
    "triage": "gate",
    "reconcile": "merge",
    "insert_merge": "merge",
    "audit": "gate",
    "distill": "audit",
    "fact_extract": "extract",
    "resume_compress": "resume",
}


def key_of_model(site: Site, models: Mapping[ModelKey, str]) -> ModelKey | None:
    """Return the key by which a site has its model; None where it has the default."""
    key: ModelKey | None = site
    while key is not None and key not in models:
        key = BROADER_KEYS.get(key)
    return key

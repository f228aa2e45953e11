"""The models of call sites, by their own names and by those of the groups of the source. SPEC 12.2, G47"""

from typing import get_args

import pytest

from mnemo_core.llm.tasks import BROADER_KEYS, key_of_model
from mnemo_core.llm_sites import ModelKey, Site

GROUPS = ("gate", "merge", "audit", "expand", "extract", "resume", "naming")


@pytest.mark.parametrize(
    ("site", "with_every_group", "without_audit", "without_gate_and_audit"),
    [
        ("triage", "gate", "gate", None),
        ("gate", "gate", "gate", None),
        ("merge", "merge", "merge", "merge"),
        ("reconcile", "merge", "merge", "merge"),
        ("insert_merge", "merge", "merge", "merge"),
        ("audit", "audit", "gate", None),
        ("distill", "audit", "gate", None),
        ("expand", "expand", "expand", "expand"),
        ("extract", "extract", "extract", "extract"),
        ("fact_extract", "extract", "extract", "extract"),
        ("resume_compress", "resume", "resume", "resume"),
        ("naming", "naming", "naming", "naming"),
        ("answer", None, None, None),
    ],
)
def test_G47_a_call_site_has_the_model_of_its_group_and_audit_that_of_gate_where_it_has_none(
    site: Site, with_every_group: ModelKey | None, without_audit: ModelKey | None,
    without_gate_and_audit: ModelKey | None,
) -> None:  # fmt: skip
    def key_with(*groups: ModelKey) -> ModelKey | None:
        return key_of_model(site, dict.fromkeys(groups, "some"))

    assert key_with("gate", "merge", "audit", "expand", "extract", "resume", "naming") == with_every_group
    assert key_with("gate", "merge", "expand", "extract", "resume", "naming") == without_audit
    assert key_with("merge", "expand", "extract", "resume", "naming") == without_gate_and_audit
    assert key_with() is None  # the default model
    assert key_with("gate", "merge", "audit", "extract", "resume", site) == site


def test_the_keys_are_the_call_sites_and_the_groups_of_the_source() -> None:
    assert set(get_args(ModelKey)) == {*get_args(Site), *GROUPS}
    assert set(BROADER_KEYS.values()) <= set(GROUPS)

"""Years with a memory, in short: what was told is found, no layer is skipped, and no language model does harm. SPEC 9

`make bench-decade` lives ten years of 10,000 cycles.
"""

from pathlib import Path

import pytest

from tests.simulation.decade import Decade, VectorCache, cached_minilm
from tests.simulation.person_years import YearsPlan

PLAN = YearsPlan(blocks=90, memories=130, facts=25, recalls=60, years=1.0)


@pytest.fixture(scope="module")
def embedder(minilm_folder: Path) -> object:
    return cached_minilm(minilm_folder, VectorCache())


def test_what_was_told_over_the_years_is_found_whatever_the_language_model_does(
    tmp_path: Path, embedder: object, minilm_folder: Path
) -> None:
    decade = Decade(tmp_path, 1, PLAN, embedder, minilm_folder, crashes=0.08, jumps=0.03, eras=8)  # type: ignore[arg-type]
    report = decade.live()
    assert report.lost == []
    assert report.did["facts found"] == PLAN.facts
    assert report.at_end["cycles"] > PLAN.blocks / 2
    assert report.did["killed where it wrote"]
    assert all(decade.world.scripted.asked.values())

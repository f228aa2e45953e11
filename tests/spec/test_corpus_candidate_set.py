"""The channels of recall, however they are run. SPEC 7.2"""

from pathlib import Path

import numpy as np
import pytest

from mnemo_daemon.retrieval.candidates import candidate_retrieval
from mnemo_daemon.retrieval.candidates.corpus import sorted_unique
from tests.support.store_services import services_in

TEXTS = ("The boat is blue.", "Ann painted the boat.", "The shed has a blue door.", "Rain again.")


def test_words_are_found_the_same_on_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with services_in(tmp_path) as services:
        for text in TEXTS:
            services.add(text)
        at_once = services.recalled("blue boat")
        assert sorted(at_once) == sorted(TEXTS[:3])
        monkeypatch.setattr(candidate_retrieval, "PARALLEL_MIN", 0)
        assert services.recalled("blue boat") == at_once


def test_each_number_comes_once_and_they_rise() -> None:
    assert sorted_unique(np.array([7, 2, 7, -1, 2], np.int64)).tolist() == [-1, 2, 7]
    assert sorted_unique(np.array([3], np.uint32)).tolist() == [3]
    assert sorted_unique(np.empty(0, np.uint32)).tolist() == []

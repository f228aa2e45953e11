"""Weights of `auto` that have not seen the conversation they are asked about, served by the daemon's own API.

The features are those of the daemon's own code, the fit is the one that the shipped weights come from. A daemon takes
no other weights than those it comes with: the one asked is a copy of the program, with its weights replaced.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from mnemo_core.retrieval.ranking.learned_ranker import LearnedRanker
from mnemo_daemon.retrieval.candidates.learned_ranking import WEIGHTS_FILE
from tests.bench.fit_fusion import (
    Features,
    FittedQuestion,
    TrainingExample,
    document,
    fit,
    loaded,
    looked_at,
    own_examples,
)
from tests.support.running_daemon import RunningDaemon, running

ROOT = Path(__file__).parents[2]
PARTS = ("store", "daemon", "clients")  # each holds packages


class TrainingSet(NamedTuple):
    """The data that weights are fitted on: questions by conversation, and the project's own sets if included."""

    names: Features
    conversations: list[TrainingExample]
    own: list[TrainingExample]

    def without(self, conversation: str) -> list[TrainingExample]:
        return [each for each in self.conversations if each.asked.name != conversation] + self.own


def seen(data: Path, asked: Sequence[FittedQuestion], own_stores: Path | None, scratch: Path) -> TrainingSet:
    """Looks at a copy of a daemon's folder, while no daemon has it open: the time stands still for who looks."""
    embedding = loaded()
    copied = scratch / "looked-at"
    shutil.copytree(data, copied, ignore=shutil.ignore_patterns("run"))
    names, found = looked_at(copied, asked, embedding)
    shutil.rmtree(copied)
    own_names, own = own_examples(own_stores, embedding) if own_stores else (names, [])
    embedding.close()
    assert own_names == names
    return TrainingSet(names, found, own)


def weights_without(conversation: str, of: TrainingSet, *, with_own: bool) -> LearnedRanker:
    return fit(of.names, of.without(conversation) if with_own else of._replace(own=[]).without(conversation))


@contextmanager
def running_with(weights: LearnedRanker, data: Path, scratch: Path) -> Iterator[RunningDaemon]:
    """A daemon of these weights on that folder, which no other has open."""
    program = scratch / "program"
    if not program.exists():
        for part in PARTS:
            shutil.copytree(ROOT / part, program / part, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    replaced = program / WEIGHTS_FILE.relative_to(ROOT)
    replaced.write_text(json.dumps(document(weights)))
    environ = {"PYTHONPATH": os.pathsep.join(str(program / part) for part in PARTS)}
    asks = "from mnemo_daemon.retrieval.candidates.learned_ranking import WEIGHTS_FILE; print(WEIGHTS_FILE)"
    answered = subprocess.check_output([sys.executable, "-c", asks], env={**os.environ, **environ}, text=True).strip()
    assert Path(answered).samefile(replaced), f"the daemon would take its weights from {answered}"
    with running(data, environ) as daemon:
        yield daemon

"""Fit the judge of prompts to lives and their questions, and to prompts that nothing bears on, and measure it.

    python -m tests.bench.fit_contexts

Each life of `tests/fixtures/readings` is stored, and asked its questions and some of `unrelated_prompts.txt`, a quarter
of which are German. Prints the weights for `mnemo_core/retrieval/abstention.py`, and of each life what the judge
says that was fitted to the others. `bench_month` measures whole contexts.
"""

import random
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.abstention import BEARING_MIN, PromptSigns, signs_of
from mnemo_daemon.retrieval.question import Question
from mnemo_store.indexes.attributes import MemoryFilter
from tests.bench.bench_answers import lines
from tests.bench.bench_day import ModelWorld
from tests.bench.fit_answers import READINGS, lives
from tests.bench.tables import show
from tests.simulation.replay import IDLE_SECONDS
from tests.simulation.world import in_simulated_time, place_for_worlds

UNRELATED_EACH = 120  # of the unrelated prompts, in each life
PENALTY = 0.3
BEGIN, PAUSE_SECONDS = datetime(2026, 3, 2, tzinfo=UTC), 43_200.0  # a text in half a day
STEPS = 6  # until every text has its vector and its role


class JudgedPrompt(NamedTuple):
    """A prompt in a life, and whether a memory of it bears on it."""

    life: str
    signs: PromptSigns
    bears: bool


def judged_prompts() -> Iterator[JudgedPrompt]:
    """The prompts of all lives, where anything is a candidate."""
    unrelated = (READINGS / "unrelated_prompts.txt").read_text(encoding="utf-8").splitlines()
    for name, (texts, questions) in lives().items():
        chance = random.Random(name)
        asked = [(each["question"], True) for each in lines(questions) if each["evidence"]]
        asked += [(prompt, False) for prompt in chance.sample(unrelated, UNRELATED_EACH)]
        statements = lines(texts)
        with tempfile.TemporaryDirectory(dir=place_for_worlds()) as scratch:
            world = ModelWorld(Path(scratch), chance)
            world.map_bytes = 1 << 30
            with in_simulated_time(world.clock):
                world.begin_at(BEGIN)
                world.open()
                for each in statements:
                    world.clock.go_on(PAUSE_SECONDS)
                    answer = world.ask("POST", "/v1/memories", {"content": each["text"]})
                    assert answer.is_ok, answer.value
                for _ in range(STEPS):
                    world.step(IDLE_SECONDS)
                for prompt, bears in asked:
                    if signs := prompt_signs(world, prompt):
                        yield JudgedPrompt(name, signs, bears)
                world.throw_away()


def prompt_signs(world: ModelWorld, prompt: str) -> PromptSigns | None:
    """The signs of a prompt; None where no memory is a candidate."""
    assert world.daemon is not None
    recall, scope = world.daemon.recall, MemoryFilter(namespaces=("default",), now=world.store.now())
    context = recall.run(Question(prompt, scope, cut="gap", unasked="prompt"))
    assert context.page.evidence is not None
    with world.store.snapshot() as snapshot:
        found = recall.result_builder.prompt_candidates(context, context.page.evidence, context.rows, snapshot)
    return signs_of(prompt, [*found.values()]) if found else None


class PromptModel(NamedTuple):
    """Weights of the signs, and the constant."""

    weights: NDArray[np.float64]
    bias: float

    def bearing(self, signs: PromptSigns) -> float:
        return float(1 / (1 + np.exp(-(self.weights @ np.array(signs) + self.bias))))


def fitted(prompts: list[JudgedPrompt]) -> PromptModel:
    from sklearn.linear_model import LogisticRegression

    signs = np.array([each.signs for each in prompts], np.float64)
    mean, scale = signs.mean(axis=0), signs.std(axis=0)
    model = LogisticRegression(C=PENALTY, max_iter=2000).fit((signs - mean) / scale, [each.bears for each in prompts])
    weights = model.coef_[0] / scale
    return PromptModel(weights, float(model.intercept_[0] - weights @ mean))


def main() -> None:
    prompts = [*judged_prompts()]
    rows = {}
    for life in dict.fromkeys(each.life for each in prompts):
        model = fitted([each for each in prompts if each.life != life])
        some = [(each.bears, model.bearing(each.signs) >= BEARING_MIN) for each in prompts if each.life == life]
        kept = [passes for bears, passes in some if bears]
        silent = [not passes for bears, passes in some if not bears]
        rows[life] = (f"{sum(kept)}/{len(kept)}", f"{sum(silent)}/{len(silent)}")
    show("fitted to the other lives", ("questions with a context", "unrelated prompts without one"), rows)
    model = fitted(prompts)
    print("WEIGHTS", [float(f"{each:.4g}") for each in model.weights], "BIAS", float(f"{model.bias:.4g}"))


if __name__ == "__main__":
    main()

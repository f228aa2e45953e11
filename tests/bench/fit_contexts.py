"""Fit the judge of prompts to lives and their questions, and to prompts that nothing bears on, and measure it.

    python -m tests.bench.fit_contexts

Each life of `tests/fixtures/readings` is stored, and asked its questions, some of `unrelated_prompts.txt`, a quarter of
which are German, and some questions of other lives, which weigh less: a person rarely asks what their memory has
nothing near to. The prompts of the month `gardener` count as well. Prints the weights for
`mnemo_core/retrieval/abstention.py`, and what the judge says of each life that was fitted to the others. `bench_month`
measures whole contexts.
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
from tests.bench.bench_month import life_of, lived_month, namespace_of, rows_of, words_of
from tests.bench.fit_answers import READINGS, lives
from tests.bench.tables import show
from tests.simulation.replay import IDLE_SECONDS
from tests.simulation.world import in_simulated_time, place_for_worlds

UNRELATED_EACH, OTHERS_EACH = 120, 80  # of the unrelated prompts and of the questions of other lives, in each life
OTHERS_WEIGHT, MONTH_WEIGHT = 0.3, 5.0  # of such a question, and of a prompt of MONTH, in the fit
MONTHS, MONTH = READINGS.with_name("months"), "gardener"
PENALTY = 0.3
BEGIN, PAUSE_SECONDS = datetime(2026, 3, 2, tzinfo=UTC), 43_200.0  # a text in half a day
STEPS = 6  # until every text has its vector and its role


class JudgedPrompt(NamedTuple):
    """A prompt in a life, and whether a memory of it bears on it."""

    life: str
    signs: PromptSigns
    bears: bool
    weight: float = 1.0


def judged_prompts() -> Iterator[JudgedPrompt]:
    """The prompts of all lives and of the month, where anything is a candidate."""
    yield from month_prompts()
    unrelated = (READINGS / "unrelated_prompts.txt").read_text(encoding="utf-8").splitlines()
    for name, (texts, questions) in lives().items():
        chance = random.Random(name)
        asked = [(question, True, 1.0) for question in answered(questions)]
        asked += [(prompt, False, 1.0) for prompt in chance.sample(unrelated, UNRELATED_EACH)]
        others = [each for life, (_, asked_of) in lives().items() if life != name for each in answered(asked_of)]
        asked += [(question, False, OTHERS_WEIGHT) for question in chance.sample(others, OTHERS_EACH)]
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
                for prompt, bears, weight in asked:
                    if signs := prompt_signs(world, prompt):
                        yield JudgedPrompt(name, signs, bears, weight)
                world.throw_away()


def answered(questions: Path) -> list[str]:
    return [each["question"] for each in lines(questions) if each["evidence"]]


def month_prompts() -> Iterator[JudgedPrompt]:
    file = MONTHS / MONTH
    with tempfile.TemporaryDirectory(dir=place_for_worlds()) as scratch:
        world = lived_month(Path(scratch), MONTH, life_of(file.with_suffix(".life")))[0]
        with in_simulated_time(world.clock):
            for prompt, project, must, _ in rows_of(file.with_suffix(".prompts")):
                if signs := prompt_signs(world, prompt, namespace_of(project)):
                    yield JudgedPrompt(MONTH, signs, bool(words_of(must)), MONTH_WEIGHT)
            world.throw_away()


def prompt_signs(world: ModelWorld, prompt: str, namespace: str = "default") -> PromptSigns | None:
    """The signs of a prompt; None where no memory is a candidate."""
    assert world.daemon is not None
    recall, scope = world.daemon.recall, MemoryFilter(namespaces=("default", namespace), now=world.store.now())
    context = recall.run(Question(prompt, scope, cut="gap", unasked="prompt"))
    assert context.page.evidence is not None
    with world.store.snapshot() as snapshot:
        found = recall.result_builder.prompt_candidates(context, context.page.evidence, context.rows, snapshot)
    return signs_of([*found.values()], recall.result_builder.personal_odds(context)) if found else None


class PromptModel(NamedTuple):
    """Weights of the signs, and the constant."""

    weights: NDArray[np.float64]
    bias: float

    def bearing(self, signs: PromptSigns) -> float:
        return float(1 / (1 + np.exp(-(self.weights @ np.array(signs) + self.bias))))


def fitted(prompts: list[JudgedPrompt]) -> PromptModel:
    from sklearn.linear_model import LogisticRegression

    signs, weights = [each.signs for each in prompts], [each.weight for each in prompts]
    model = LogisticRegression(C=PENALTY, max_iter=5000).fit(signs, [each.bears for each in prompts], weights)
    return PromptModel(model.coef_[0], float(model.intercept_[0]))


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

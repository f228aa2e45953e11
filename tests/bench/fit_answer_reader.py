"""Fit the reader of answers: the default embedding model, trained further to say whether a text answers a question.

    pip install jax                                   # only for this
    python -m tests.bench.fit_answer_reader           # an hour of two processors; what it gives on the held-out half
    python -m tests.bench.fit_answer_reader --write   # and write the weights that are shipped

The training data are the worlds and single texts of `tests/fixtures/readings`: 16 statements of one person's world with
40 questions each, half of them near misses that no statement answers, and texts with two near misses each. Question and
text are read together, as one sequence; a linear layer on the first and the mean token vector gives the log odds. All
weights but the embeddings of words are trained (Adam, binary cross-entropy), and what changed in a matrix is kept as
two factors of a low rank (Hu and others 2021). `fit_answers` fits what is made of the reader's score, to other texts.

The weights that are shipped had two epochs of what was written first, 500 steps with `persons.txt` and `short.txt`, and
2,200 steps, at 1.2e-4 and 1e-4, of what was written later (`notes`, `documents`, `people`, `appointments`, `chats`,
`everyday`, `german_third`) with a third of the rest. Half of the last 1,400 steps read pairs of changes instead: for
these, the reader was no better than the judge of changes.
"""

import os
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import mnemo_daemon
from mnemo_client.paths import models_folder
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue, ModelManifest
from mnemo_daemon.models.cross_encoder import PAIR_TOKENS, QUESTION_TOKENS, READER
from mnemo_daemon.models.embedders import encoder_graph
from mnemo_daemon.models.embedders.embedding import load_embedder
from tests.bench import harness
from tests.bench.bench_answers import lines
from tests.bench.tables import show

READINGS = Path(__file__).parents[1] / "fixtures" / "readings"
WEIGHTS = Path(mnemo_daemon.__file__).parent / "projections" / READER
RANK = 64
EPOCHS = 2
BATCH = 32
RATE = 2e-4  # of learning, at most: it rises in the first 6% of the steps and falls to 1%
DROPOUT = 0.1
RIGHT_WEIGHT = 2.0  # of a text that answers, in the loss: one in seven does
HARD = 3  # texts of a world nearest to a question that do not answer it, and
EASY = 1  # any others
PARTS = ("query", "key", "value", "attended", "inner", "outer")  # the products of a layer, in their order
HEADS = 12
SEED = 0

Params = dict[str, Any]


class LabelledWorld(NamedTuple):
    """Statements by their number, and questions with the numbers of those that answer, and that perhaps do."""

    texts: Mapping[int, str]
    questions: Sequence[tuple[str, frozenset[int], frozenset[int]]]


class ReadPair(NamedTuple):
    question: str
    text: str
    answers: bool = False


def worlds(path: Path) -> Iterator[LabelledWorld]:
    """The worlds of a file: lines `N: statement`, and `q: question => 3,?7` with `-` where none answers."""
    for block in re.split(r"^# world .*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        texts = {int(number): text for number, text in re.findall(r"^(\d+): (.+)$", block, re.MULTILINE)}
        asked = re.findall(r"^q: (.+?) => (.+)$", block, re.MULTILINE)
        yield LabelledWorld(texts, [
            (question, frozenset(map(int, re.findall(r"(?<![?\d])\d+", answers))),
             frozenset(map(int, re.findall(r"\?(\d+)", answers))))
            for question, answers in asked
        ])  # fmt: skip


def training_pairs(manifest: ModelManifest) -> list[ReadPair]:
    embedder, chance, pairs = load_embedder(manifest), random.Random(SEED), list[ReadPair]()
    for path in sorted((READINGS / "worlds").glob("*.txt")):
        for world in worlds(path) if not path.stem.startswith("heldout") else ():
            numbers = [*world.texts]
            vectors = np.stack([each[0] for each in embedder.encode_batch([*world.texts.values()])])
            for question, right, perhaps in world.questions:
                near = np.argsort(-vectors @ embedder.encode_query(question))
                wrong = [numbers[place] for place in near if numbers[place] not in right | perhaps]
                some = [*wrong[:HARD], *chance.sample(wrong[HARD:], EASY)]
                pairs += [ReadPair(question, world.texts[number], answers=True) for number in sorted(right)]
                pairs += [ReadPair(question, world.texts[number]) for number in some]
    rows = lines(READINGS / "questions.jsonl")
    for row, other in zip(rows, [*rows[1:], rows[0]], strict=True):
        pairs += [ReadPair(row["question"], row["text"], answers=True), ReadPair(row["question"], other["text"])]
        pairs += [ReadPair(question, row["text"]) for question in row["not_answered"]]
    return pairs


class Batches:
    """Pairs as token ids, padded to the longest of a batch: the training needs batches, the daemon never pads."""

    def __init__(self, manifest: ModelManifest) -> None:
        self._tokenizer = encoder_graph.open_tokenizer(manifest.path("tokenizer.json"))

    def ids(self, pair: ReadPair) -> list[int]:
        asked, text = (self._tokenizer.encode(each).ids for each in pair[:2])
        return [*asked[:QUESTION_TOKENS], *text[1:]][:PAIR_TOKENS]

    def of(
        self, pairs: Sequence[ReadPair], chance: random.Random | None = None
    ) -> Iterator[tuple[list[int], Any, Any]]:
        """Places, ids and mask of each batch, of pairs of about one length; shuffled by `chance`."""
        ids, order = [self.ids(pair) for pair in pairs], [*range(len(pairs))]
        if chance:
            chance.shuffle(order)
        stretches = [order[start : start + 20 * BATCH] for start in range(0, len(order), 20 * BATCH)]
        ordered = [sorted(each, key=lambda place: len(ids[place])) for each in (stretches if chance else [order])]
        batches = [each[start : start + BATCH] for each in ordered for start in range(0, len(each), BATCH)]
        if chance:
            chance.shuffle(batches)
        for places in batches:
            width = (max(len(ids[place]) for place in places) + 15) // 16 * 16  # few shapes, each compiled once
            rows, mask = np.zeros((BATCH, width), np.int32), np.zeros((BATCH, width), np.float32)
            mask[:, 0] = 1
            for row, place in enumerate(places):
                rows[row, : len(ids[place])], mask[row, : len(ids[place])] = ids[place], 1
            yield places, rows, mask


def read_weights(path: Path) -> tuple[Params, list[dict[str, str]]]:
    """The constants of the float32 graph by name, and of each layer the name of each constant by its part."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(path).graph
    constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    own = [(node.op_type, [name for name in node.input if name in constants]) for node in graph.node]
    matrices = [names[0] for kind, names in own if kind == "MatMul" and names and constants[names[0]].shape[0] > 1]
    biases = [names[0] for kind, names in own if kind == "Add" and names]
    norms = [names for kind, names in own if kind == "LayerNormalization"][1:]
    layers = []
    for layer in range(len(norms) // 2):
        some = slice(len(PARTS) * layer, len(PARTS) * (layer + 1))
        found = dict(zip(PARTS, matrices[some], strict=True))
        found |= {f"{part}.bias": name for part, name in zip(PARTS, biases[some], strict=True)}
        for place, (gain, shift) in enumerate(norms[2 * layer : 2 * layer + 2]):
            found |= {f"gain{place}": gain, f"shift{place}": shift}
        layers.append(found)
    return constants, layers


def log_odds(weights: Params, fixed: Params, layers: Sequence[Mapping[str, str]], ids: Any, mask: Any, key: Any) -> Any:
    """Return what the reader gives for each row of ids. key: of the random numbers of dropout, None where nothing is
    dropped."""
    import jax
    from jax import numpy as jnp

    def normed(value: Any, gain: Any, shift: Any) -> Any:
        centred = value - value.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-12) * gain + shift

    def dropped(value: Any, salt: int) -> Any:
        if key is None:
            return value
        kept = jax.random.bernoulli(jax.random.fold_in(key, salt), 1 - DROPOUT, value.shape)
        return value * kept / (1 - DROPOUT)

    value = normed(fixed["c0"][ids] + fixed["c1"][: ids.shape[1]], fixed["c4"], fixed["c5"])
    rows, tokens, width = value.shape
    hidden = (1 - mask)[:, None, None, :] * -1e9
    for number, names in enumerate(layers):
        own = {part: weights[name] for part, name in names.items()}

        def product(value: Any, part: str, own: Params = own) -> Any:
            return value @ own[part] + own[f"{part}.bias"]

        query, keys, values = (
            product(value, part).reshape(rows, tokens, HEADS, -1).transpose(0, 2, 1, 3) for part in PARTS[:3]
        )
        seen = jax.nn.softmax(query @ keys.transpose(0, 1, 3, 2) / np.sqrt(width / HEADS) + hidden, -1)
        context = (dropped(seen, 3 * number) @ values).transpose(0, 2, 1, 3).reshape(rows, tokens, width)
        attended = dropped(product(context, "attended"), 3 * number + 1)
        value = normed(attended + value, own["gain0"], own["shift0"])
        outer = product(jax.nn.gelu(product(value, "inner"), approximate=False), "outer")
        value = normed(dropped(outer, 3 * number + 2) + value, own["gain1"], own["shift1"])
    mean = (value * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return jnp.concatenate([value[:, 0], mean], -1) @ weights["head"] + weights["bias"]


def trained(pairs: Sequence[ReadPair], batches: Batches, path: Path) -> Params:
    """The constants of the graph that changed, with the head."""
    import jax
    from jax import numpy as jnp

    constants, layers = read_weights(path)
    names = [name for layer in layers for name in layer.values()]
    weights: Params = {name: jnp.array(constants[name]) for name in names}
    fixed = {name: jnp.array(constants[name]) for name in constants if name not in weights}
    width = constants["c4"].shape[0]
    weights["head"] = jnp.array(np.random.default_rng(SEED).normal(0, 0.02, 2 * width), jnp.float32)
    weights["bias"] = jnp.zeros(())

    def loss(weights: Params, ids: Any, mask: Any, right: Any, share: Any, key: Any) -> Any:
        odds = log_odds(weights, fixed, layers, ids, mask, key)
        return (share * (jnp.logaddexp(0, odds) - right * odds)).sum() / share.sum()

    @jax.jit  # type: ignore[untyped-decorator]
    def step(weights: Params, first: Params, second: Params, number: Any, rate: Any, *given: Any) -> Any:
        found, change = jax.value_and_grad(loss)(weights, *given)
        size = jnp.sqrt(sum((each**2).sum() for each in change.values()))
        change = {name: each * jnp.minimum(1, 1 / size) for name, each in change.items()}
        first = {name: 0.9 * first[name] + 0.1 * each for name, each in change.items()}
        second = {name: 0.999 * second[name] + 0.001 * each**2 for name, each in change.items()}
        left, spread = 1 - 0.9**number, 1 - 0.999**number
        moved = {name: rate * (first[name] / left) / (jnp.sqrt(second[name] / spread) + 1e-8) for name in weights}
        return {name: weights[name] - moved[name] for name in weights}, first, second, found

    first = second = {name: jnp.zeros_like(each) for name, each in weights.items()}
    chance, number, losses = random.Random(SEED), 0, list[float]()
    total = EPOCHS * -(-len(pairs) // BATCH)
    for _ in range(EPOCHS):
        for places, ids, mask in batches.of(pairs, chance):
            number += 1
            rate = RATE * min(1.0, number / (0.06 * total)) * max(0.01, 1 - number / total)
            right, share = np.zeros(BATCH, np.float32), np.zeros(BATCH, np.float32)
            right[: len(places)] = [pairs[place].answers for place in places]
            share[: len(places)] = 1 + right[: len(places)] * (RIGHT_WEIGHT - 1)
            key = jax.random.fold_in(jax.random.PRNGKey(SEED), number)
            weights, first, second, found = step(weights, first, second, number, rate, ids, mask, right, share, key)
            losses.append(float(found))
            if number % 100 == 0:
                print(f"step {number} of {total}: loss {np.mean(losses[-100:]):.3f}", flush=True)
    return {
        name: np.asarray(each) - constants.get(name, np.zeros((), np.float32)) for name, each in weights.items()
    }  # fmt: skip


def packed(changes: Params) -> dict[str, NDArray[Any]]:
    """The changes as they are shipped: of matrices two factors of a low rank."""
    found: dict[str, NDArray[Any]] = {"head": changes["head"], "bias": changes["bias"]}
    for name, change in changes.items():
        if change.ndim == 2:
            left, sizes, right = np.linalg.svd(change, full_matrices=False)
            roots = np.sqrt(sizes[:RANK])
            found |= {f"{name}.a": (left[:, :RANK] * roots).astype(np.float16)}
            found |= {f"{name}.b": (roots[:, None] * right[:RANK]).astype(np.float16)}
        elif name not in found:
            found[name] = change.astype(np.float16)
    return found


def measure(score: Callable[[str, Sequence[str]], Sequence[float]]) -> None:
    """Show how often the best statement answers, and how well its score tells answered questions from near misses."""
    for half in ("heldout", "heldout_second", "heldout_third"):
        first, best, is_answered = list[bool](), list[float](), list[bool]()
        for world in worlds(READINGS / "worlds" / f"{half}.txt"):
            for question, right, perhaps in world.questions:
                scores = score(question, [*world.texts.values()])
                if right:
                    first.append([*world.texts][int(np.argmax(scores))] in right | perhaps)
                if not perhaps:
                    best.append(max(scores))
                    is_answered.append(bool(right))
        show(half, ("",), {
            f"first statement answers, of {len(first)}": [f"{np.mean(first):.3f}"],
            "AUC, answered against near misses": [f"{area(best, is_answered):.3f}"],
        })  # fmt: skip
    ask, texts = lines(READINGS / "notes" / "ask.jsonl"), lines(READINGS / "notes" / "life.jsonl")
    notes = [score(each["question"], [texts[place // 3]["text"]])[0] for place, each in enumerate(ask)]
    known = [bool(each["answers"]) for each in ask]
    show("passages of notes", ("",), {"AUC": [f"{area(notes, known):.3f}"]})


def area(scores: Sequence[float], right: Sequence[bool]) -> float:
    """The area under the ROC curve: how often a right one scores above a wrong one."""
    order, is_right = np.argsort(np.argsort(scores)) + 1.0, np.array(right)
    count = is_right.sum()
    return float((order[is_right].sum() - count * (count + 1) / 2) / (count * (len(scores) - count)))


def main(*, write: bool = False) -> None:
    manifest = ModelCatalogue(models_folder(dict(os.environ))).installed(DEFAULT_EMBEDDING)
    exact = manifest.exact() if manifest else None
    if manifest is None or exact is None:
        raise SystemExit("mnemo models pull all-MiniLM-L6-v2 first")
    batches = Batches(manifest)
    changes = packed(trained(training_pairs(manifest), batches, exact.path()))
    if write:
        np.savez_compressed(WEIGHTS, allow_pickle=False, **changes)
    import jax
    from jax import numpy as jnp

    constants, layers = read_weights(exact.path())
    fixed = {name: jnp.array(each) for name, each in constants.items()}
    whole = {name: change.astype(np.float32) for name, change in changes.items()}
    weights: Params = {
        name: constants[name] + (whole[f"{name}.a"] @ whole[f"{name}.b"] if f"{name}.a" in whole else whole[name])
        for layer in layers for name in layer.values()
    } | {"head": whole["head"], "bias": whole["bias"]}  # fmt: skip
    read = jax.jit(lambda ids, mask: log_odds(weights, fixed, layers, ids, mask, None))

    def score(question: str, texts: Sequence[str]) -> list[float]:
        pairs, found = [ReadPair(question, text) for text in texts], np.zeros(len(texts))
        for places, ids, mask in batches.of(pairs):
            found[places] = np.asarray(read(ids, mask))[: len(places)]
        return found.tolist()

    measure(score)


if __name__ == "__main__":
    harness.run(main)

"""The forms in which the default model could run, side by side: speed, closeness to float32, dependence on the batch.

    python tests/bench/bench_embedding.py FOLDER [--rounds 20]

FOLDER holds model.safetensors, tokenizer.json and config.json of all-MiniLM-L6-v2. The forms take turns, and the best
time of each counts, so that other work on the machine blurs them all alike. Figures of adr/0002-embedding-form.md.
"""

import importlib
import logging
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from mnemo_daemon.models.embedders import encoder_graph
from tests.bench import harness

SHORT = (
    "Maria prefers oat milk in her coffee and never takes any sugar.",
    "Where did we decide to move the customer database next year?",
    "Backups run at half past two every night and are kept for a fortnight.",
)
LONG = (
    "We decided to keep the database in one place, because the team knows it well and the licence is free; the other "
    "way was a hosted service, which costs about four hundred euros a month. The decision was made in March by Ines, "
    "Tom and the two people from operations, after a long talk about backups. " * 3,
    "The train leaves at ten past seven from platform four, and it is never late, except when there is snow on the "
    "line. Whoever takes the bicycle along has to book a place for it two days before, by telephone or at the "
    "counter; in summer there are often none left at the weekend. " * 3,
)
THREADS = 2
BATCH_TOKENS = 256
BLOCK = 32


class Candidate(NamedTuple):
    """A form of the graph, and how many texts it may be given in one run."""

    session: encoder_graph.OnnxSession
    size: Callable[[int], int]  # tokens of a text → texts a run


def main(folder: Path, *, rounds: int = 20) -> None:
    logging.disable(logging.WARNING)
    tokenizer = encoder_graph.open_tokenizer(folder / "tokenizer.json")
    texts = {name: [tokenizer.encode(t).ids[:256] for t in some] for name, some in (("short", SHORT), ("long", LONG))}
    candidates = _build(folder)
    best = _measure(candidates, texts, rounds)
    lengths = ", ".join(f"{name} {np.mean([len(ids) for ids in some]):.0f} tokens" for name, some in texts.items())
    print(f"best of {rounds}; {lengths}; texts a second on 1 and on {THREADS} threads")
    print("cosine: the least to float32; drift: the largest difference of a number alone and beside another text")
    exact = next(iter(candidates.values()))
    for name, candidate in candidates.items():
        closeness, drift = _compare(candidate, exact, texts["short"] + texts["long"])
        rates = [f"{kind} {1 / best[name, kind, 1]:5.0f} {1 / best[name, kind, THREADS]:5.0f}" for kind in texts]
        query = best[name, "query", 1] * 1e3
        print(f"{name:24} {'  '.join(rates)}  query {query:4.1f} ms  cosine {closeness:.4f}  drift {drift:.0e}")


def _build(folder: Path) -> dict[str, Candidate]:
    encoder = encoder_graph.read_encoder(folder)
    exact = encoder_graph.build_graph(encoder)
    fixed = encoder_graph.prepare(encoder, folder / "tokenizer.json", []).graph

    def many(tokens: int) -> int:
        return max(1, BATCH_TOKENS // tokens)

    quantization: Any = importlib.import_module("onnxruntime.quantization")
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch, "exact.onnx"), Path(scratch, "dynamic.onnx")
        source.write_bytes(exact)
        options = {"DefaultTensorType": onnx.TensorProto.FLOAT}
        kind = quantization.QuantType.QInt8
        quantization.quantize_dynamic(source, target, weight_type=kind, per_channel=True, extra_options=options)
        dynamic = encoder_graph.open_session(target.read_bytes())
    weights_only = encoder_graph.open_session(_with_blocks(exact))
    return {
        "float32": Candidate(encoder_graph.open_session(exact), many),
        "8-bit weights, level 4": Candidate(weights_only, many),
        "fixed scales": Candidate(encoder_graph.open_session(fixed), many),
        "fixed scales, one a run": Candidate(encoder_graph.open_session(fixed), lambda _: 1),
        "dynamic, one a run": Candidate(dynamic, lambda _: 1),
        "dynamic, batched": Candidate(dynamic, many),
    }


def _with_blocks(exact: bytes) -> bytes:
    """The graph with its weights in blocks of 32 numbers of 8 bits, and activations by onnxruntime's own blocks."""
    model = onnx.load_from_string(exact)
    constants = {constant.name: constant for constant in model.graph.initializer}
    for place, node in enumerate(model.graph.node):
        if node.op_type != "MatMul" or node.input[1] not in constants:
            continue
        weight = numpy_helper.to_array(constants[node.input[1]])
        inputs, outputs = weight.shape
        blocks = weight.T.reshape(outputs, inputs // BLOCK, BLOCK)
        steps = np.abs(blocks).max(axis=2, keepdims=True) / 127
        values = (np.round(blocks / steps) + 128).astype(np.uint8)
        names = [f"{node.input[1]}_values", f"{node.input[1]}_steps"]
        pair = (values, steps.reshape(-1).astype(np.float32))
        model.graph.initializer.extend(numpy_helper.from_array(v, n) for v, n in zip(pair, names, strict=True))
        model.graph.initializer.remove(constants[node.input[1]])
        about = {"K": inputs, "N": outputs, "bits": 8, "block_size": BLOCK, "accuracy_level": 4}
        product = helper.make_node(
            "MatMulNBits", [node.input[0], *names], node.output, domain=encoder_graph.CONTRIB, **about
        )
        model.graph.node[place].CopyFrom(product)
    return bytes(model.SerializeToString())


def _measure(
    candidates: dict[str, Candidate], texts: dict[str, list[list[int]]], rounds: int
) -> dict[tuple[str, str, int], float]:
    """Seconds a text by (form, kind of text, threads), and a single short query's."""
    best: dict[tuple[str, str, int], float] = {}

    def note(key: tuple[str, str, int], seconds: float) -> None:
        best[key] = min(best.get(key, seconds), seconds)

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(rounds):
            for name, candidate in candidates.items():
                for kind, some in texts.items():
                    batches = [np.array([ids] * candidate.size(len(ids)), np.int32) for ids in some] * THREADS
                    total = sum(len(batch) for batch in batches)
                    note((name, kind, 1), _seconds(candidate, batches, map) / total)
                    note((name, kind, THREADS), _seconds(candidate, batches, pool.map) / total)
                note((name, "query", 1), _seconds(candidate, [np.array([texts["short"][0]], np.int32)], map))
    return best


def _seconds(candidate: Candidate, batches: list[NDArray[np.int32]], run_all: Any) -> float:
    began = time.perf_counter()
    list(run_all(lambda batch: candidate.session.run(None, {"ids": batch}), batches))
    return time.perf_counter() - began


def _compare(candidate: Candidate, exact: Candidate, texts: list[list[int]]) -> tuple[float, float]:
    """The least cosine to float32, and the largest difference of a number alone and beside another text."""
    cosines, drifts = [], []
    for ids in texts:
        other = [ids[0], *([2003] * (len(ids) - 2)), ids[-1]]
        (alone,) = candidate.session.run(None, {"ids": np.array([ids], np.int32)})[0]
        neighbour = candidate.session.run(None, {"ids": np.array([ids, other], np.int32)})[0][0]
        (true,) = exact.session.run(None, {"ids": np.array([ids], np.int32)})[0]
        cosines.append(float(alone @ true))
        drifts.append(float(np.abs(alone - neighbour).max()))
    return min(cosines), max(drifts)


if __name__ == "__main__":
    harness.run(main)

"""Fits the map from the multilingual encoder's space to that of the default model, and says what it gives.

    OPENBLAS_NUM_THREADS=1 python -m tests.bench.fit_multilingual [--write]

A ridge regression over English texts of the project's own, so no text is needed in two languages: the encoder puts what
means the same into nearly the same place in each of its languages. What other languages have in common is taken away:
the mean of German texts becomes zero (two that have nothing to do with each other had a cosine of 0.37, then 0.06 as in
English; French and Spanish ones 0.03 and 0.09). `--write` replaces the shipped map. Then questions in one
language about made worlds in the other: how often the statement that answers has the highest cosine.
"""

import argparse
import io
import itertools
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

import mnemo_daemon
from mnemo_client.paths import models_folder
from mnemo_core.text.languages import is_foreign, sentences
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, MULTILINGUAL, ModelCatalogue
from mnemo_daemon.models.embedders.embedder import Embedder
from mnemo_daemon.models.embedders.embedding import load_embedder
from mnemo_daemon.models.embedders.multilingual import MAP, MultilingualEncoder
from tests.bench.fit_answer_reader import READINGS, LabelledWorld, worlds
from tests.bench.tables import show

ROOT = Path(__file__).resolve().parents[2]
TRANSLATED = READINGS / "translated.txt"
DOCUMENTS = ("README.md", "clients/docs/*.md", "daemon/docs/*.md", "daemon/docs/adr/*.md", "store/docs/*.md")
RIDGE = 20.0
LETTERS = range(20, 400)  # of a text that is fitted to
TOGETHER = 64

Floats = NDArray[np.float32]


def training_texts() -> tuple[list[str], list[str]]:
    """Texts in English, and in other languages: of the made worlds that are not held out, of the labelled sets, and of
    the documents."""
    found = set[str]()
    for path in sorted(READINGS.rglob("*.txt")):
        if "heldout" not in path.name and path != TRANSLATED:
            found.update(re.findall(r"^(?:\d+|q): (.+?)(?: => .*)?$", path.read_text(encoding="utf-8"), re.MULTILINE))
    for path in sorted(READINGS.glob("*.jsonl")):
        if "heldout" not in path.name:
            found.update(json.loads(line).get("text") or "" for line in path.read_text(encoding="utf-8").splitlines())
    for path in itertools.chain.from_iterable(map(ROOT.glob, DOCUMENTS)):
        found.update(sentences(path.read_text(encoding="utf-8")))
    texts = sorted(text for text in found if len(text) in LETTERS)
    return [text for text in texts if not is_foreign(text)], [text for text in texts if is_foreign(text)]


def first_hits(world: LabelledWorld, ask: Callable[[str], Floats], tell: Callable[[str], Floats]) -> int:
    """The number of questions whose answer has the highest cosine."""
    numbers, told = [*world.texts], np.array([tell(text) for text in world.texts.values()])
    return sum(
        numbers[int((told @ ask(question)).argmax())] in right for question, right, _ in world.questions if right
    )


def _with_ones(encoder: MultilingualEncoder, texts: Sequence[str]) -> NDArray[np.float64]:
    found = np.array([encoder.encode_unmapped(text) for text in texts], np.float64)
    return np.concatenate([found, np.ones((len(found), 1))], axis=1)


def plain_default() -> Embedder:
    """The default model alone."""
    manifest = ModelCatalogue(models_folder(os.environ)).require_installed(DEFAULT_EMBEDDING)
    return load_embedder(msgspec.structs.replace(manifest, beside=None), late=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    manifest = ModelCatalogue(models_folder(os.environ)).installed(MULTILINGUAL)
    if manifest is None:
        raise SystemExit("mnemo models pull first")
    default, encoder = plain_default(), MultilingualEncoder(manifest)
    if write:
        texts, foreign = training_texts()
        found, others = _with_ones(encoder, texts), _with_ones(encoder, foreign)
        wanted = np.concatenate([[rows[0] for rows in default.encode_batch(texts[at : at + TOGETHER])]
                                 for at in range(0, len(texts), TOGETHER)])  # fmt: skip
        fitted = np.linalg.solve(found.T @ found + RIDGE * np.eye(found.shape[1]), found.T @ wanted)
        fitted[-1] -= (others @ fitted).mean(axis=0)
        stored = io.BytesIO()
        np.savez_compressed(stored, map=fitted.astype(np.float16))
        (Path(mnemo_daemon.__file__).parent / "projections" / MAP).write_bytes(stored.getvalue())
        print(f"fitted to {len(texts)} texts, centred on {len(foreign)}")
        encoder = MultilingualEncoder(manifest)
    titles = re.findall("^# world (.+)$", TRANSLATED.read_text(encoding="utf-8"), re.MULTILINE)
    rows, plain = dict[str, tuple[int, ...]](), default.encode_query
    for title, world in zip(titles, worlds(TRANSLATED), strict=True):
        ask, tell = (encoder.encode, plain) if title.endswith("| en") else (plain, encoder.encode)
        rows[title] = (
            sum(bool(right) for _, right, _ in world.questions),
            first_hits(world, plain, plain),
            first_hits(world, ask, tell),
        )
    rows["all"] = tuple(map(sum, zip(*rows.values(), strict=True)))
    show("Worlds, asked in the other language", ("questions", "the default: answer first", "with the encoder"), rows)


if __name__ == "__main__":
    main()

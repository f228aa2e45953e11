"""Retrieval quality through the daemon's own API: one memory a turn, one namespace a conversation, every ranker.

    python -m tests.bench.quality [FOLDER] [--rankers auto,words] [--pooled] [--distractors 100000 --texts FOLDER]
                                  [--leave-one-out [--own FOLDER]] [--block] [--dump FILE] [--questions 200]

FOLDER holds a benchmark: `score.py` with its loader and metrics, and the data. Nothing of it belongs to the project.
Without it, those of the project's own conversations are asked on which nothing was fitted. The store
is filled once; every question is asked of each ranker, `dry`, 50 answers. Intervals are of a bootstrap over the
questions, 95%.

--leave-one-out adds `auto` with weights fitted on all conversations but the one that is asked, beside the shipped ones,
which know none of them. With --own once more, fitted on the project's own sets too.
"""

import importlib.util
import json
import math
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple, TextIO, get_args

import numpy as np

from mnemo_client.client import Client
from mnemo_client.protocol.choices import Mode, Ranker
from mnemo_client.protocol.memories import NewMemory
from tests.bench import harness, left_out
from tests.bench.distractors import Distractor, distractors
from tests.bench.fit_fusion import FittedQuestion
from tests.bench.tables import RANKERS, difference, fell_back, percentiles, share, show
from tests.support import recall_sets
from tests.support.running_daemon import running

TOP_K = 50
BATCH = 500
KS = (1, 5, 10, 25, 50)
METRICS = ("R@1", "R@5", "R@10", "R@50", "all@10", "nDCG@10")
POOL = "all"  # the namespace of all conversations
SEED = 7


class QualityProbe(NamedTuple):
    """A question, where it is asked, and the ids of the memories that hold its evidence."""

    conversation: str
    namespace: str
    text: str
    category: str
    evidence: tuple[str, ...]
    now: str = ""  # the end of the conversation, from which a time that the question names is seen


class Way(NamedTuple):
    """The method for a question: a ranker, and its mode if it has some."""

    name: str
    ranker: Ranker
    mode: Mode = "hybrid"


AUTO = Way("auto", "auto")
WAYS = (
    *(Way(ranker, ranker) for ranker in RANKERS),
    *(Way(f"hybrid:{mode}", "hybrid", mode) for mode in get_args(Mode) if mode != "hybrid"),
)


class WayResult(NamedTuple):
    """The result of one method for one question."""

    put: QualityProbe
    row: dict[str, float]
    ranked: list[str]
    took_ms: float
    fell_back: bool


def load_benchmark(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("benchmark_score", folder / "score.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def score(ranked: Sequence[str], evidence: Sequence[str]) -> dict[str, float]:
    """The benchmark's metrics, for what comes without a loader of its own."""
    right = set(evidence)
    places = [place for place, name in enumerate(ranked) if name in right]
    row: dict[str, float] = {}
    for k in KS:
        count = sum(place < k for place in places)
        row[f"R@{k}"], row[f"hit@{k}"] = count / len(right), float(count > 0)
        row[f"all@{k}"] = float(count == len(right))
    row["MRR"] = 1 / (places[0] + 1) if places else 0.0
    ideal = sum(1 / math.log2(place + 2) for place in range(min(10, len(right))))
    row["nDCG@10"] = sum(1 / math.log2(place + 2) for place in places if place < 10) / ideal
    return row


def the_projects_own() -> Any:
    return SimpleNamespace(
        conversations=lambda: recall_sets.conversations(recall_sets.UNSEEN), score=score, CATEGORIES={}
    )


def remember(client: Client, conversation: Any, namespace: str) -> dict[str, str]:
    """The memory id of each turn."""
    turns = {}
    for start in range(0, len(conversation.turns), BATCH):
        part = conversation.turns[start : start + BATCH]
        memories = [
            NewMemory(
                content=turn.text, speaker=turn.speaker, session_id=f"{conversation.name}-{turn.session}",
                event_at=turn.at.isoformat(), namespace=namespace, key=f"{conversation.name}/{turn.id}",
            )
            for turn in part
        ]  # fmt: skip
        results = client.remember_many(memories)
        for turn, result in zip(part, results, strict=True):
            turns[turn.id] = result.memory.id  # type: ignore[union-attr]
    return turns


def distract(client: Client, made: Sequence[Distractor], begin: datetime, end: datetime) -> None:
    """Lays other texts beside the conversations, a file a session, at times within theirs.

    In the namespace `default`, which is part of every other one. Nothing looks for what is near them: that is the
    intake's to measure.
    """
    chance = random.Random(SEED)
    days = {each.source: begin + chance.random() * (end - begin) for each in made}
    for start in range(0, len(made), BATCH):
        client.remember_many([
            NewMemory(content=each.text, session_id=each.source[-128:], event_at=days[each.source].isoformat(),
                      dedup="off")
            for each in made[start : start + BATCH]
        ])  # fmt: skip


def questions(
    benchmark: Any, conversations: Sequence[Any], ids: dict[str, dict[str, str]], pooled: bool
) -> list[QualityProbe]:
    """Those that have evidence."""
    found = []
    for conversation in conversations:
        known = ids[conversation.name]
        for question in conversation.questions:
            evidence = tuple(known[name] for name in question.evidence if name in known)
            category = benchmark.CATEGORIES.get(question.category, str(question.category))
            if evidence:
                namespace = POOL if pooled else conversation.name
                now = max(turn.at for turn in conversation.turns).isoformat()
                found.append(QualityProbe(conversation.name, namespace, question.text, category, evidence, now))
    return found


def ways_named(text: str) -> list[Way]:
    """`all`, or names with commas between. Raises ValueError with those there are."""
    known = {way.name: way for way in WAYS}
    names = known if text == "all" else text.split(",")
    unknown = set(names) - set(known)
    if unknown:
        raise ValueError(f"no such ranker: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return [way for way in WAYS if way.name in names]


def ask(client: Client, put: QualityProbe, way: Way, benchmark: Any) -> WayResult:
    answer = client.recall(
        put.text, top_k=TOP_K, token_budget=None, dry=True, ranker=way.ranker, mode=way.mode, namespace=put.namespace,
        now=put.now or None,
    )  # fmt: skip
    ranked = [memory.id for memory in answer.memories]
    is_other = fell_back(answer, way.ranker) or (way.ranker == "hybrid" and answer.mode != way.mode)
    return WayResult(put, benchmark.score(ranked, put.evidence), ranked, answer.took_ms, is_other)


def ask_all(
    client: Client, asked: Sequence[QualityProbe], ways: Sequence[Way], benchmark: Any
) -> dict[str, list[WayResult]]:
    """Each question once by vectors first, unmeasured: then every way finds the question's own vector known."""
    found: dict[str, list[WayResult]] = defaultdict(list)
    for put in asked:
        client.recall(put.text, dry=True, ranker="cosine", namespace=put.namespace)
        for way in ways:
            found[way.name].append(ask(client, put, way, benchmark))
    return found


def ask_left_out(
    data: Path,
    every: Sequence[QualityProbe],
    asked: Sequence[QualityProbe],
    own_stores: Path | None,
    benchmark: Any,
    scratch: Path,
) -> dict[str, list[WayResult]]:
    """Of a folder that no daemon has open: `auto` with weights that know all conversations but the one asked about.

    In the order of `asked`, so that its intervals are over the same questions as those of other ways.
    """
    known = [
        FittedQuestion("talk", put.conversation, put.namespace, put.text, frozenset(put.evidence)) for put in every
    ]
    conversations = list(dict.fromkeys(put.conversation for put in every))
    if len(conversations) < 2:
        raise SystemExit("of one conversation none can be left out")
    seen = left_out.seen(data, known, own_stores, scratch)
    found: dict[str, list[WayResult]] = {}
    for with_own in (False, True) if own_stores else (False,):
        by_put: dict[QualityProbe, WayResult] = {}
        for conversation in conversations:
            weights = left_out.weights_without(conversation, seen, with_own=with_own)
            part = [put for put in asked if put.conversation == conversation]
            with left_out.running_with(weights, data, scratch) as daemon, daemon.client() as client:
                daemon.wait_for_vectors()
                by_put |= zip(part, ask_all(client, part, [AUTO], benchmark)[AUTO.name], strict=True)
        found["auto, left out, with own" if with_own else "auto, left out"] = [by_put[put] for put in asked]
    return found


def show_rankers(found: dict[str, list[WayResult]], title: str) -> None:
    rows: dict[str, list[object]] = {}
    first = next(iter(found.values()))
    for ranker, answers in found.items():
        shares = [share([each.row[metric] for each in answers]) for metric in METRICS]
        than = difference([each.row["R@10"] for each in first], [each.row["R@10"] for each in answers])
        took = percentiles([each.took_ms for each in answers])
        rows[ranker] = [*shares, than if answers is not first else "", took, sum(each.fell_back for each in answers)]
    columns = [*METRICS, f"R@10: {next(iter(found))} ahead by", "took, question's vector known", "fell back"]
    show(f"{title}: {len(first)} questions, % [95% interval]", columns, rows)


def show_categories(found: dict[str, list[WayResult]], metric: str) -> None:
    first = next(iter(found.values()))
    names = sorted({each.put.category for each in first})
    rows: dict[str, list[object]] = {
        ranker: [share([each.row[metric] for each in answers if each.put.category == name]) for name in names]
        for ranker, answers in found.items()
    }
    counts = [f"{name} ({sum(each.put.category == name for each in first)})" for name in names]
    show(f"{metric} by category (questions)", counts, rows)


def show_block(client: Client, asked: Sequence[QualityProbe]) -> None:
    """The share of the evidence that is returned within the budget of 2,000 tokens."""
    shares: dict[str, list[list[float]]] = defaultdict(list)
    by_category: dict[str, list[list[float]]] = defaultdict(list)
    for put in asked:
        given = {
            "recall, top_k 100": client.recall(put.text, top_k=100, dry=True, namespace=put.namespace),
            "recall": client.recall(put.text, dry=True, namespace=put.namespace),
        }
        blocks = {
            name: ([memory.id for memory in answer.memories], answer.total_tokens) for name, answer in given.items()
        }
        for name, options in (("context, cut none, top_k 100", {"cut": "none", "top_k": 100}),
                              ("context, top_k 100", {"top_k": 100}), ("context", {})):  # fmt: skip
            context = client.context(put.text, namespace=put.namespace, **options)
            blocks[name] = (context.memories, context.total_tokens)
        for name, (ids, tokens) in blocks.items():
            right = len(set(put.evidence).intersection(ids))
            shares[name].append([right / len(put.evidence), right == len(put.evidence), tokens, not ids])
        by_category[put.category].append([*shares["recall"][-1][:3], given["recall"].list_top_k is not None])
    rows: dict[str, list[object]] = {}
    for name, measured in shares.items():
        evidence, whole, counts, none = (list(column) for column in zip(*measured, strict=True))
        rows[name] = [share(evidence), share(whole), f"{np.mean(counts):.0f}", share(none)]
    show(f"Evidence handed over within 2,000 tokens, {len(asked)} questions",
         ["share of evidence", "all of it", "tokens, mean", "nothing handed over"], rows)  # fmt: skip
    rows = {}
    for name, measured in sorted(by_category.items()):
        evidence, whole, counts, lists = (list(column) for column in zip(*measured, strict=True))
        rows[f"{name} ({len(measured)})"] = [share(evidence), share(whole), f"{np.mean(counts):.0f}", share(lists)]
    show("The same of recall without options, by category",
         ["share of evidence", "all of it", "tokens, mean", "asks for a list"], rows)  # fmt: skip


def dump(file: TextIO, found: dict[str, list[WayResult]]) -> None:
    """A line of JSON for each ranker and question."""
    for ranker, answers in found.items():
        for each in answers:
            place = {name: at for at, name in enumerate(each.ranked)}
            line = {
                "ranker": ranker, "conversation": each.put.conversation, "category": each.put.category,
                "question": each.put.text, "evidence": each.put.evidence,
                "places": [place.get(name) for name in each.put.evidence], "first": each.ranked[:10],
                "took_ms": each.took_ms, **each.row,
            }  # fmt: skip
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def main(
    folder: Path | None = None, *, rankers: str = "all", pooled: bool = False, distractors_: int = 0,
    texts: tuple[Path, ...] = (), leave_one_out: bool = False, own: Path | None = None, block: bool = False,
    dump_: Path | None = None, questions_: int = 0, conversations_: int = 0,
) -> None:  # fmt: skip
    ways = ways_named(rankers)
    benchmark: ModuleType | Any = load_benchmark(folder) if folder else the_projects_own()
    conversations = benchmark.conversations()[: conversations_ or None]
    neighbour = distractors(distractors_, texts) if distractors_ else []
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        with running(data) as daemon, daemon.client() as client:
            ids = {each.name: remember(client, each, POOL if pooled else each.name) for each in conversations}
            times = [turn.at for each in conversations for turn in each.turns]
            distract(client, neighbour, min(times), max(times))
            daemon.wait_for_vectors(7200)
            every = questions(benchmark, conversations, ids, pooled)
            asked = random.Random(SEED).sample(every, min(questions_ or len(every), len(every)))
            found = ask_all(client, asked, ways, benchmark)
            if block:
                show_block(client, asked)
        if leave_one_out:
            found |= ask_left_out(data, every, asked, own, benchmark, Path(scratch))
    title = f"{len(conversations)} conversations{' in one namespace' if pooled else ''}"
    show_rankers(found, title + (f" beside {len(neighbour)} other texts" if neighbour else ""))
    show_categories(found, "R@10")
    show_categories(found, "R@1")
    if dump_:
        with dump_.open("w", encoding="utf-8") as file:
            dump(file, found)


if __name__ == "__main__":
    harness.run(main)

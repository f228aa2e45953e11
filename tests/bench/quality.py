"""Retrieval quality through the daemon's own API: one memory a turn, one namespace a conversation.

    python -m tests.bench.quality FOLDER [--ranker auto] [--pooled]

FOLDER holds the benchmark: `score.py` with its loader and metrics, and the data. Nothing of it belongs to the project.
"""

import argparse
import importlib.util
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from mnemo_client.client import Client
from mnemo_client.protocol import NewMemory
from tests.running import running

TOP_K = 50
BATCH = 500


def load_benchmark(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("benchmark_score", folder / "score.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranker", default="auto")
    parser.add_argument("--pooled", action="store_true", help="all conversations in one namespace")
    options = parser.parse_args()
    benchmark = load_benchmark(options.folder)
    rows: dict[str, list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch, running(Path(scratch) / "data") as daemon, daemon.client() as client:
        conversations = benchmark.conversations()
        known = {
            conversation.name: remember(client, conversation, "all" if options.pooled else conversation.name)
            for conversation in conversations
        }
        daemon.wait_for_vectors()
        took = []
        for conversation in conversations:
            ids = known[conversation.name]
            namespace = "all" if options.pooled else conversation.name
            for question in conversation.questions:
                answer = client.recall(question.text, top_k=TOP_K, token_budget=None, dry=True, ranker=options.ranker,
                                       namespace=namespace)  # fmt: skip
                assert options.ranker == "words" or not answer.degraded, answer.degraded
                took.append(answer.took_ms)
                ranked = [memory.id for memory in answer.memories]
                row = benchmark.score(ranked, tuple(ids[name] for name in question.evidence if name in ids))
                rows["all"].append(row)
                rows[benchmark.CATEGORIES[question.category]].append(row)
    metrics = ("R@1", "R@5", "R@10", "R@50", "all@10", "nDCG@10")
    print(f"{options.ranker}{' pooled' if options.pooled else ''}: p50 {statistics.median(took):.2f} ms")
    print(f"{'':14}{'n':>6}" + "".join(f"{metric:>9}" for metric in metrics))
    for name, found in rows.items():
        means = "".join(f"{100 * statistics.fmean(row[metric] for row in found):9.1f}" for metric in metrics)
        print(f"{name:14}{len(found):6}{means}")


if __name__ == "__main__":
    main()

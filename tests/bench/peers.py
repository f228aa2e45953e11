"""Other memories, filled and asked as their own pages tell: one a process, in the environment that `make bench-peers`
installs them into. Needs nothing of the project.

    python peers.py SYSTEM TASK MODEL FOLDER

SYSTEM is chroma, mem0 or sqlite. TASK is a JSON file: {"memories": [{"id", "scope", "text"}], "questions": [{"scope",
"text"}], "top_k"}. MODEL is the folder of the embedding model that mnemod uses: the same files run here, one text at a
time, as there. FOLDER is empty, and is where everything is kept. What comes of it is one JSON object on the standard
output. No connection is made: telemetry is off, and nothing is fetched.
"""

import importlib
import json
import logging
import os
import sqlite3
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

BATCH = 100
TOKENS_MAX = 256
DIMENSIONS = 384
RRF_K = 10  # of reciprocal rank fusion
RANKS = 200  # of each list that is fused
WARM_UP = ("what is there to know", "who was that", "a first question")


class PeerEncoder:
    """The embedding model: mnemod's own ONNX file and tokenizer."""

    def __init__(self, folder: Path) -> None:
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # read when onnxruntime is loaded
        onnxruntime: Any = importlib.import_module("onnxruntime")
        tokenizers: Any = importlib.import_module("tokenizers")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_cpu_mem_arena = False
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        self._session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)
        self._output = self._session.get_outputs()[0].name
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(TOKENS_MAX)

    def encode(self, text: str) -> np.ndarray:
        ids = np.array([self._tokenizer.encode(text).ids], np.int32)
        vector: np.ndarray = self._session.run([self._output], {"ids": ids})[0][0]
        return vector


class MemoryPeer(Protocol):
    """The interface to fill and ask each system. Ids are those of the task."""

    def add(self, memories: Sequence[dict[str, str]]) -> None: ...

    def ask(self, scope: str, question: str, top_k: int) -> list[str]: ...


class Chroma:
    """A persistent client, a collection a scope, cosine distance, and its own index."""

    def __init__(self, encoder: PeerEncoder, folder: Path) -> None:
        chromadb: Any = importlib.import_module("chromadb")
        config: Any = importlib.import_module("chromadb.config")
        self._client = chromadb.PersistentClient(str(folder), config.Settings(anonymized_telemetry=False))
        self._encode = encoder.encode
        self._collections: dict[str, Any] = {}

    def add(self, memories: Sequence[dict[str, str]]) -> None:
        for scope in dict.fromkeys(memory["scope"] for memory in memories):
            own = [memory for memory in memories if memory["scope"] == scope]
            texts = [memory["text"] for memory in own]
            vectors = [self._encode(text).tolist() for text in texts]
            self._collection(scope).add(ids=[memory["id"] for memory in own], documents=texts, embeddings=vectors)

    def ask(self, scope: str, question: str, top_k: int) -> list[str]:
        found = self._collection(scope).query(
            query_embeddings=[self._encode(question).tolist()], n_results=top_k, include=["documents"]
        )
        ids: list[str] = found["ids"][0]
        return ids

    def _collection(self, scope: str) -> Any:
        if scope not in self._collections:
            self._collections[scope] = self._client.get_or_create_collection(
                f"scope-{scope}", embedding_function=None, metadata={"hnsw:space": "cosine"}
            )
        return self._collections[scope]


class Mem0:
    """`infer=False`: texts as they are, without its LLM. A user a scope, and the vector store it comes with.

    Its keyword channel would fetch a tokenizer and a spaCy model from the network, and is off.
    """

    def __init__(self, encoder: PeerEncoder, folder: Path) -> None:
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder), "OPENAI_API_KEY": "unused"}
        mem0: Any = importlib.import_module("mem0")
        logging.disable(logging.WARNING)
        store = {"path": str(folder / "vectors"), "on_disk": True, "embedding_model_dims": DIMENSIONS}
        self._memory = mem0.Memory.from_config({
            "vector_store": {"provider": "qdrant", "config": store},
            "embedder": {"provider": "openai", "config": {"embedding_dims": DIMENSIONS}},
            "history_db_path": str(folder / "history.db"),
        })  # fmt: skip
        embedding: Any = importlib.import_module("mem0.embeddings.base")

        class Ours(embedding.EmbeddingBase):  # type: ignore[misc]  # known only where it is installed
            def embed(self, text: str, memory_action: str | None = None) -> list[float]:
                vector: list[float] = encoder.encode(text).tolist()
                return vector

        self._memory.embedding_model = Ours()

    def add(self, memories: Sequence[dict[str, str]]) -> None:
        for memory in memories:
            self._memory.add(
                [{"role": "user", "content": memory["text"]}], user_id=memory["scope"], infer=False,
                metadata={"task": memory["id"]},
            )  # fmt: skip

    def ask(self, scope: str, question: str, top_k: int) -> list[str]:
        found = self._memory.search(question, filters={"user_id": scope}, top_k=top_k, threshold=0.0)
        return [each["metadata"]["task"] for each in found["results"]]


class Sqlite:
    """A baseline written in an afternoon: FTS5 with its stemmer, every vector compared, the two ranks fused."""

    def __init__(self, encoder: PeerEncoder, folder: Path) -> None:
        self._encode = encoder.encode
        self._database = sqlite3.connect(folder / "memories.db")
        self._database.executescript(
            "CREATE TABLE memories (id TEXT, scope TEXT, vector BLOB);"
            "CREATE INDEX by_scope ON memories (scope);"
            "CREATE VIRTUAL TABLE texts USING fts5 (text, scope UNINDEXED, tokenize = 'porter unicode61');"
        )
        self._matrices: dict[str, tuple[list[str], np.ndarray]] = {}

    def add(self, memories: Sequence[dict[str, str]]) -> None:
        with self._database:
            for memory in memories:
                vector = self._encode(memory["text"]).astype(np.float32).tobytes()
                row = self._database.execute(
                    "INSERT INTO memories VALUES (?, ?, ?)", (memory["id"], memory["scope"], vector)
                )
                self._database.execute(
                    "INSERT INTO texts (rowid, text, scope) VALUES (?, ?, ?)",
                    (row.lastrowid, memory["text"], memory["scope"]),
                )
        self._matrices.clear()

    def ask(self, scope: str, question: str, top_k: int) -> list[str]:
        ids, matrix = self._matrix(scope)
        sims = matrix @ self._encode(question)
        scores: dict[str, float] = {}
        nearest = [ids[at] for at in np.argsort(-sims, kind="stable")[:RANKS]]
        for ranked in (nearest, self._by_words(scope, question)):
            for rank, name in enumerate(ranked, start=1):
                scores[name] = scores.get(name, 0.0) + 1 / (RRF_K + rank)
        return sorted(scores, key=lambda name: -scores[name])[:top_k]

    def _by_words(self, scope: str, question: str) -> list[str]:
        words = "".join(character if character.isalnum() else " " for character in question).split()
        if not words:
            return []
        rows = self._database.execute(
            "SELECT memories.id FROM texts JOIN memories ON memories.rowid = texts.rowid"
            " WHERE texts MATCH ? AND texts.scope = ? ORDER BY bm25(texts) LIMIT ?",
            (" OR ".join(f'"{word}"' for word in words), scope, RANKS),
        )
        return [name for (name,) in rows]

    def _matrix(self, scope: str) -> tuple[list[str], np.ndarray]:
        if scope not in self._matrices:
            rows = self._database.execute("SELECT id, vector FROM memories WHERE scope = ?", (scope,)).fetchall()
            vectors = np.frombuffer(b"".join(vector for _, vector in rows), np.float32).reshape(len(rows), -1)
            self._matrices[scope] = [name for name, _ in rows], vectors
        return self._matrices[scope]


SYSTEMS: dict[str, type[Chroma] | type[Mem0] | type[Sqlite]] = {"chroma": Chroma, "mem0": Mem0, "sqlite": Sqlite}


def run(peer: MemoryPeer, task: dict[str, Any]) -> dict[str, Any]:
    memories, questions = task["memories"], task["questions"]
    began = time.perf_counter()
    for start in range(0, len(memories), BATCH):
        peer.add(memories[start : start + BATCH])
    ingest = time.perf_counter() - began
    for question in WARM_UP:
        peer.ask(questions[0]["scope"], question, task["top_k"])
    ranked, took = [], []
    for question in questions:
        began = time.perf_counter()
        ranked.append(peer.ask(question["scope"], question["text"], task["top_k"]))
        took.append((time.perf_counter() - began) * 1000)
    return {"ranked": ranked, "took_ms": took, "ingest_seconds": ingest, **memory_of("self")}


def memory_of(process: int | str) -> dict[str, int]:
    """Bytes of a process in memory: all, and what is its own and no file's."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    values = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    return {"resident_bytes": int(values["VmRSS"][0]) * 1024, "private_bytes": int(values["RssAnon"][0]) * 1024}


def main() -> None:
    system, task, model, folder = sys.argv[1:]
    loaded = json.loads(Path(task).read_text(encoding="utf-8"))
    json.dump(run(SYSTEMS[system](PeerEncoder(Path(model)), Path(folder)), loaded), sys.stdout)


if __name__ == "__main__":
    main()

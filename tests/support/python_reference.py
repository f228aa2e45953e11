"""Sentences that nobody here wrote and every Python has, its reference and the docstrings of its library; and a store
of them, which is written without a daemon, since that would read what each of them states."""

import ast
import contextlib
import pydoc_data.topics
import re
import sysconfig
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from mnemo_store.batches import batched
from mnemo_store.records import Change, Memory, PutMemory, PutUsage, Usage
from mnemo_store.store import Store, WriteResult

NAMESPACE = "reference"
WRITTEN_AT_ONCE = 500
DAYS = 700  # over which they happened
DAY_MS = 86_400_000
CHARACTERS = range(31, 1000)  # of a sentence
NO_DOCUMENTATION = {"site-packages", "test", "tests", "idlelib", "lib2to3"}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def reference_sentences(count: int) -> list[str]:
    """The first sentences, each once; numbered from the second round on where there are too few."""
    found = list(islice(_distinct(), count))
    numbered = (f"Part {number}: {each}" for number in range(2, 100) for each in found)
    return [*found, *islice(numbered, count - len(found))]


def write_reference(folder: Path, count: int) -> None:
    """Write the sentences as memories of a new store, an equal number on each of the last days."""
    with contextlib.closing(Store.open(folder)) as store:
        now = int(time.time() * 1000)
        for some in batched(enumerate(reference_sentences(count)), WRITTEN_AT_ONCE):
            changes = list[Change]()
            for number, text in some:
                at = now - DAY_MS * (1 + number * DAYS // count)
                memory = Memory(
                    id=store.new_id(), content=text, created_at=at, modified_at=at, event_at=at, namespace=NAMESPACE
                )
                changes += [PutMemory(data=memory), PutUsage(data=Usage(id=memory.id))]
            store.transact(partial(_written, changes), by="api").result()


def _written(changes: Sequence[Change], state: object) -> WriteResult[None]:
    return WriteResult(tuple(changes), None, "add")


def _distinct() -> Iterator[str]:
    seen = set[str]()
    for text in _texts():
        for part in re.split(r"(?<=[.:])\s+", text):
            sentence = " ".join(part.split())
            if len(sentence) in CHARACTERS and sentence not in seen:
                seen.add(sentence)
                yield sentence


def _texts() -> Iterator[str]:
    yield from pydoc_data.topics.topics.values()
    library = Path(sysconfig.get_path("stdlib"))
    for file in sorted(library.rglob("*.py")):
        if NO_DOCUMENTATION.isdisjoint(file.relative_to(library).parts):
            tree = ast.parse(file.read_text(encoding="utf-8", errors="replace"))
            for node in ast.walk(tree):
                if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
                    yield text

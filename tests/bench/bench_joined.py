"""Reconciliation, merges and near-duplicates on labelled pairs of memories, with the embedding model.

    python -m tests.bench.bench_joined [--model FILE.gguf] [--wrong]

The pairs of `tests/fixtures/llm/joined.jsonl` were written before any rule was tried on them. Rules were then corrected
by what the first 120 showed, and in two places by the held-out ones. `same`: reworded. `update`: the newer replaces the
older. `absorb`: one says all of the other. `merge`: each adds something to one subject. `apart`: two things that look
alike. Each pair is of a user of its own, and passes through whole cycles: in the buffer by the rules alone, in the
working layer with merging on, by models that answer as labelled, that always say one thing, and with --model by a real
one. A pair is joined if one memory stands for both. It is right if that is what the label says, and if the newer value
stands of an update. Specifics are lost if a number or a name of either text stands no more, unless the pair is an
update: they are looked for by patterns of this module alone, which know no other notation of a number (`6`, `six`).
"""

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from mnemo_client.paths import models_folder
from mnemo_core.lifecycle.consolidation.steps import STEPS
from mnemo_core.llm.merge import MergedText
from mnemo_core.llm.reconcile import ReconcileAnswer, Relation
from mnemo_core.llm.tasks import AnyTask, TaskInputs
from mnemo_daemon.lifecycle import consolidation
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.models.language.language_model import LanguageModel
from mnemo_daemon.models.language.task_runner import CallLog, TaskRunner
from mnemo_daemon.settings import LifecycleSettings
from mnemo_store.records import Layer
from mnemo_store.store import Store
from tests.bench import harness
from tests.bench.tables import show
from tests.support.consolidation_services import Answers, ConsolidationServices
from tests.support.samples import AT, sample_memory
from tests.support.store_services import put, services_in

FIXTURE = Path(__file__).parents[1] / "fixtures" / "llm" / "joined.jsonl"
LABELS = ("same", "update", "absorb", "merge", "apart")
HOUR_MS = 3_600_000
CYCLES = 10  # as many as it takes to decide on all pairs
DEADLINE_S = 120.0
_SPECIFIC = re.compile(r"\d+(?:[.,:]\d+)*|(?<=[\w,] )[A-ZÄÖÜ]\w+")


class JoinedPair(NamedTuple):
    """A pair and what stands for it: one text, or both."""

    older: str
    newer: str
    label: str
    held_out: bool
    standing: tuple[str, ...]

    @property
    def is_joined(self) -> bool:
        return len(self.standing) == 1

    @property
    def is_right(self) -> bool:
        if self.label == "update":
            return self.standing == (self.newer,)
        return self.is_joined == (self.label != "apart")

    @property
    def loses(self) -> bool:
        """A number or a name of one of the texts stands no more."""
        wanted = {each for text in (self.older, self.newer) for each in _SPECIFIC.findall(text)}
        return self.label != "update" and not wanted <= set(_SPECIFIC.findall(" x ".join(("x", *self.standing))))


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FIXTURE.read_text(encoding="utf-8").splitlines()]


def as_labelled(labels: Mapping[frozenset[str], str]) -> Answers:
    """A model that answers what the labels say, and merges into the sentences of both."""

    def answers(task: AnyTask, inputs: TaskInputs) -> Any:
        label = labels[frozenset(inputs.sources)]
        if task.site == "merge":
            fuller = max(inputs.sources, key=len)
            return MergedText({"same": fuller, "absorb": fuller, "merge": " ".join(inputs.sources)}.get(label, ""))
        relations: dict[str, Relation] = {"update": "update", "same": "absorb", "absorb": "absorb"}
        return ReconcileAnswer(relations.get(label, "keep_both"))

    return answers


def always(relation: Relation, place: int) -> Answers:
    """A model that says the same of every pair, and drops one of the texts in a merge."""
    return lambda task, inputs: MergedText(inputs.sources[place]) if task.site == "merge" else ReconcileAnswer(relation)


@contextmanager
def asking(model: Path) -> Iterator[Answers]:
    """The answers of a language model, whatever its grade."""
    served = LanguageModel(model, allow_unknown=True)
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "data")
        runner = TaskRunner(lambda _: served, CallLog(store), lambda: "full")

        def answers(task: AnyTask, inputs: TaskInputs) -> Any:
            result = runner.run(task, inputs, DEADLINE_S)
            return result.answer if result.method == "llm" else None

        yield answers
        store.close()
    served.close()


def joined(layer: Layer, answers: Answers | None) -> list[JoinedPair]:
    """The pairs after whole cycles."""
    with tempfile.TemporaryDirectory() as folder:
        embedding = EmbeddingService(ModelCatalogue(models_folder(os.environ)))
        with services_in(Path(folder) / "data", embedding) as services:
            embedding.refresh()
            services.indexing.start()
            cycles = ConsolidationServices(services, answers, LifecycleSettings(merge=True))
            services.at = AT + 24 * HOUR_MS
            pairs = []
            for number, row in enumerate(rows()):
                user = {"user_id": f"u{number}", "layer": layer}
                older = sample_memory(2 * number, row["older"], **user)
                at = dict.fromkeys(("created_at", "modified_at", "event_at"), AT + 2 * HOUR_MS)
                newer = replace(sample_memory(2 * number + 1, row["newer"], **user), **at)
                pairs.append((row, cycles.put(older), cycles.put(newer)))
            put(services)
            for _ in range(CYCLES):
                cycles.run()
                put(services)
            found = [JoinedPair(**row, standing=_standing(cycles, older.id, newer.id))
                     for row, older, newer in pairs]  # fmt: skip
            cycles.close()
        embedding.close()
    return found


def _standing(services: ConsolidationServices, *ids: str) -> tuple[str, ...]:
    """The texts of what stands for some memories."""
    found = {}
    for each in ids:
        memory = services.services.memory(each)
        while memory.superseded_by:
            memory = services.services.memory(memory.superseded_by)
        found[memory.id] = memory.content
    return tuple(found.values())


def table(title: str, found: Sequence[JoinedPair], *, is_verbose: bool) -> None:
    shown = {}
    for held_out in (False, True):
        for label in LABELS:
            some = [each for each in found if (each.held_out, each.label) == (held_out, label)]
            joins, rights, losses = (
                [getattr(each, name) for each in some] for name in ("is_joined", "is_right", "loses")
            )
            shown[f"{label}, held out" if held_out else label] = (len(some), sum(joins), sum(rights), sum(losses))
    show(title, ("pairs", "joined", "right", "specifics lost"), shown)
    for each in found:
        if is_verbose and (each.loses or (each.is_joined and not each.is_right)):
            print("lost:" if each.loses else "wrong:", each)


def main(*, model: Path | None = None, wrong: bool = False) -> None:
    labels = {frozenset((row["older"], row["newer"])): row["label"] for row in rows()}
    silent: Answers = lambda _task, _inputs: None  # noqa: E731
    steps = ("reconcile", "near_duplicates", "merge")
    vars(consolidation)["STEPS"] = tuple(step for step in STEPS if step.name in steps)
    models: dict[str, tuple[Layer, Answers | None]] = {
        "buffer, no model": ("buffer", None),
        "working, the rules of the tasks": ("working", silent),
        "working, answers as labelled": ("working", as_labelled(labels)),
        "working, always update, merged into the first": ("working", always("update", 0)),
        "working, always absorb, merged into the last": ("working", always("absorb", 1)),
    }
    for name, (layer, answers) in models.items():
        table(name, joined(layer, answers), is_verbose=wrong)
    if model:
        with asking(model) as answers:
            table(f"working, {model.name}", joined("working", answers), is_verbose=wrong)


if __name__ == "__main__":
    harness.run(main)

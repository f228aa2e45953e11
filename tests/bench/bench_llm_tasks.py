"""The fallbacks of the writing tasks on labelled texts, and the share of a model's answers that every task accepts.

    python -m tests.bench.bench_llm_tasks [--model FILE.gguf] [--groups 6] [--sites merge,summarize]

Summaries: the share of the distinct numbers and names of a text that stand in its summary of at most 400 characters,
next to that of the leading sentences of the same length, over made conversations and the paragraphs of the project's
pages. Merges: the pairs of `tests/fixtures/llm/merges.jsonl` that become one text or are kept apart, as labelled.
Names: those of `topics.jsonl`, printed to be read, and the share that has one of the labelled words. With --model, each
registered task is asked about so many groups of texts; the kinds of the rejections are counted.
"""

import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from mnemo_core.llm.faithfulness import rejection_kind
from mnemo_core.llm.merge import merge_by_sentences
from mnemo_core.llm.registry import TASKS
from mnemo_core.llm.summarize import SUMMARY_CHARACTERS, extract_name, extract_summary
from mnemo_core.llm.tasks import TaskInputs
from mnemo_core.text.languages import sentences
from mnemo_daemon.models.language.language_model import LanguageModel
from mnemo_daemon.models.language.task_runner import CallLog, TaskRunner
from mnemo_store.store import Store
from tests.bench import harness
from tests.bench.tables import difference, share, show

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "llm"
PAGES = ("README.md", "clients/docs/*.md", "daemon/docs/*.md", "store/docs/*.md")
PARAGRAPH_MIN = 700  # characters: of a shorter one, a summary leaves little out
CONVERSATIONS, FACTS, TURNS_OF_TALK = 40, 10, 9
DEADLINE_S = 120.0
TALK = (
    "How was your weekend?", "Oh, quite nice, we mostly stayed at home and rested.", "That sounds great, honestly.",
    "I am still a little tired from all of it.", "Yes, me too, it has been a long week for everybody.",
    "The weather was not great either, was it?", "No, it rained nearly all the time.", "Well, we can talk later.",
    "Sure, let me know when you have some time.", "I had too much coffee again.", "Same here, as always.",
)  # fmt: skip


def rows_of(name: str) -> list[dict[str, list[str]]]:
    return [json.loads(line) for line in (FIXTURES / name).read_text(encoding="utf-8").splitlines()]


def specifics(text: str) -> set[str]:
    """Numbers, and words with a capital within a sentence."""
    names = {word for each in sentences(text) for word in re.findall(r"(?<=[\w,] )[A-ZÄÖÜ]\w+", each)}
    return names | set(re.findall(r"\d+", text))


def paragraphs() -> Iterator[tuple[str, ...]]:
    for page in sorted(path for pattern in PAGES for path in ROOT.glob(pattern)):
        for block in page.read_text(encoding="utf-8").split("\n\n"):
            text = " ".join(block.split())
            if len(text) >= PARAGRAPH_MIN and not text.startswith(("|", "#", "```", "-")) and specifics(text):
                yield (text,)


def conversations() -> Iterator[tuple[str, ...]]:
    chance = random.Random(7)
    facts = [row["texts"][1] for row in rows_of("merges.jsonl") if row["texts"][1].isascii()]
    for _ in range(CONVERSATIONS):
        turns = [*chance.sample(facts, FACTS), *chance.sample(TALK, TURNS_OF_TALK)]
        chance.shuffle(turns)
        yield tuple(turns)


def lead(texts: Sequence[str]) -> str:
    """The leading sentences that fit into a summary."""
    text = ""
    for sentence in (each for source in texts for each in sentences(source)):
        if len(text) + len(sentence) + 1 > SUMMARY_CHARACTERS:
            break
        text = f"{text} {sentence}"
    return text


def covered(texts: Sequence[str], summarize: Callable[[Sequence[str]], str]) -> float:
    wanted = specifics("\n".join(texts)) or {""}
    said = summarize(texts)
    return sum(each in said for each in wanted) / len(wanted)


def show_summaries() -> None:
    rows = {}
    for name, groups in (("conversations", [*conversations()]), ("paragraphs of pages", [*paragraphs()])):
        own = [covered(texts, lambda each: extract_summary(TaskInputs(tuple(each))).summary) for texts in groups]
        leading = [covered(texts, lead) for texts in groups]
        rows[name] = (len(groups), share(own), share(leading), difference(own, leading))
    show("Summaries: share of numbers and names", ("n", "selected", "leading", "difference"), rows)


def show_merges() -> None:
    found = Counter[tuple[bool, bool]]()
    for row in rows_of("merges.jsonl"):
        is_apart = not merge_by_sentences(TaskInputs(tuple(row["texts"]))).text
        found[bool(row["apart"]), is_apart] += 1
        if bool(row["apart"]) != is_apart:
            print("kept apart:" if is_apart else "united:", row["texts"])
    labels = {True: "contradict each other", False: "one subject"}
    rows = {labels[label]: (found[label, False], found[label, True]) for label in labels}
    show("Merges of labelled pairs", ("united", "kept apart"), rows)


def show_names() -> None:
    right = []
    for row in rows_of("topics.jsonl"):
        name = extract_name(TaskInputs(tuple(row["texts"]))).name
        right.append(float(any(each in name.casefold() for each in row["names"])))
        print(f"{'+' if right[-1] else '-'} {name:<40} {row['texts'][0]}")
    show("Names with a labelled word", ("n", "share"), {"topics": (len(right), share(right))})


def show_answers(model: Path, number: int, sites: Sequence[str]) -> None:
    groups = [tuple(row["texts"]) for row in (*rows_of("topics.jsonl")[:number], *rows_of("merges.jsonl")[:number])]
    served = LanguageModel(model, allow_unknown=True)
    rows: dict[str, tuple[object, ...]] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "data")
        runner = TaskRunner(lambda _: served, CallLog(store), lambda: "full")
        for task in (task for task in TASKS if not sites or task.site in sites):
            results = [runner.run(task, TaskInputs(texts, f"What about {texts[0]}"), DEADLINE_S) for texts in groups]
            reasons = Counter(rejection_kind(result.reason) for result in results if result.method == "fallback")
            print(task.site, reasons.total(), "of", len(results), "rejected", flush=True)  # it takes minutes
            most = ", ".join(f"{kind} {count}" for kind, count in reasons.most_common(3))
            rows[task.site] = (len(results), share([float(result.method == "llm") for result in results]), most)
        store.close()
    served.close()
    show(f"Answers of {model.name} that are accepted", ("n", "accepted", "rejected most for"), rows)


def main(*, model: Path | None = None, groups: int = 6, sites: tuple[str, ...] = ()) -> None:
    show_summaries()
    show_merges()
    show_names()
    if model:
        show_answers(model, groups, sites)


if __name__ == "__main__":
    harness.run(main)

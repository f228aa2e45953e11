"""Questions that name a time, asked of a diary. SPEC 7.5a

    python -m tests.bench.bench_time_questions FOLDER [--only memories,notes] [--show] [--off]

FOLDER holds diary.jsonl ({"id", "at", "text"}; `at` null: a fact of no day) and time_questions.jsonl ({"id",
"question", "asked_at", "shape", "from", "until", "only_time", "evidence"}; `from` and `until` are the first and the
last day of what it names). The diary is stored as memories, and again as one Markdown file for each day and one for the
facts. A hit is right where it is evidence, or, of a question for an interval, where its entry was written within it.
--show prints what went wrong, --off asks with `time: off`.
"""

import datetime as dt
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import UNSET

from mnemo_client.client import Client
from mnemo_client.protocol.choices import TimeReading
from mnemo_client.protocol.memories import NewMemory
from mnemo_client.protocol.retrieval import RecallAnswer, RecalledMemory
from tests.bench import harness
from tests.bench.bench_answers import lines
from tests.bench.bench_documents import wait_for_notes
from tests.bench.tables import share, show
from tests.support.running_daemon import running

TOP_K = 20
FIRST = 5  # of the hits of a question for a span
FACTS = "facts"  # the note of what is of no day
INTERVALS = ("day", "span")
WAIT_SECONDS = 600.0
BATCH = 100
LANGUAGE_MODEL_OFF = {"MNEMO_LLM_LEVEL": "off"}


class AskedTime(NamedTuple):
    """A question of the set."""

    id: str
    text: str
    asked_at: str
    shape: str
    first: str | None
    last: str | None
    only_time: bool
    evidence: frozenset[str]


class TimedAnswer(NamedTuple):
    """The answer to a question: for each hit whether it is right, and whether the interval was read rightly."""

    question: AskedTime
    is_right: list[bool]
    is_read: bool
    answer: RecallAnswer
    took_ms: float


def questions_of(folder: Path) -> list[AskedTime]:
    return [
        AskedTime(
            each["id"], each["question"], each["asked_at"], each["shape"], each["from"], each["until"],
            bool(each.get("only_time")), frozenset(each["evidence"]),
        )
        for each in lines(folder / "time_questions.jsonl")
    ]  # fmt: skip


def store_memories(client: Client, diary: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """The entries by the id of the memory that holds them."""
    held: dict[str, list[str]] = defaultdict(list)
    for start in range(0, len(diary), BATCH):
        some = diary[start : start + BATCH]
        memories = [NewMemory(content=each["text"], event_at=each["at"] or UNSET) for each in some]
        results = client.remember_many(memories)
        for each, result in zip(some, results, strict=True):
            held[result.memory.id].append(each["id"])  # type: ignore[union-attr]
    return held


def day_of(entry: Mapping[str, str]) -> str:
    return entry["at"][:10] if entry["at"] else FACTS


def write_notes(folder: Path, diary: Sequence[Mapping[str, str]]) -> None:
    days: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for each in diary:
        days[day_of(each)].append(each)
    folder.mkdir()
    for day, entries in days.items():
        text = "\n\n".join(map(_passage, entries))
        (folder / f"{day}.md").write_text(f"# {day}\n\n{text}\n", encoding="utf-8")


def _passage(entry: Mapping[str, str]) -> str:
    return f"## {entry['at'][11:16]}\n\n{entry['text']}" if entry["at"] else entry["text"]


class DiaryJudge:
    """Says which hits are right."""

    def __init__(self, diary: Sequence[Mapping[str, str]], held: Mapping[str, Sequence[str]] | None) -> None:
        """held: the entries of each memory; None: hits are passages of notes of a day."""
        self._days = {each["id"]: day_of(each) for each in diary}
        self._texts = {each["id"]: " ".join(each["text"].split()) for each in diary}
        self._held = held

    def entries(self, hit: RecalledMemory) -> list[str]:
        if self._held is not None:
            return list(self._held.get(hit.id, ()))
        if hit.note is None:
            return []
        day = Path(hit.note.path).stem
        said = " ".join(hit.content.split())
        return [each for each, of in self._days.items() if of == day and self._texts[each] in said]

    def is_right(self, hit: RecalledMemory, asked: AskedTime) -> bool:
        entries = self.entries(hit)
        if not asked.evidence.isdisjoint(entries):
            return True
        if asked.shape not in INTERVALS or not asked.first or not asked.last:
            return False
        return any(asked.first <= self._days[each] <= asked.last for each in entries)


def local_day(at: int | None, *, is_end: bool = False) -> str | None:
    if at is None:
        return None
    return dt.datetime.fromtimestamp((at - is_end) / 1000).astimezone().date().isoformat()


def is_read_rightly(asked: AskedTime, answer: RecallAnswer, first_day: str) -> bool:
    """Return whether the interval is the one of the set; of other questions, whether none was read, or the order."""
    read = answer.time
    has_interval = read is not None and (read.begin is not None or read.until is not None)
    if asked.shape not in INTERVALS:
        order = read.order if read is not None else ""
        return order == (asked.shape if asked.shape in ("last", "first") else "")
    if read is None or not has_interval:
        return False
    begin, end = local_day(read.begin), local_day(read.until, is_end=True)
    is_begin = begin == asked.first or (begin is None and asked.first is not None and asked.first <= first_day)
    return is_begin and (end == asked.last or (end is None and asked.last is None))


def ask_all(
    client: Client, asked: Sequence[AskedTime], judge: DiaryJudge, first_day: str, reading: TimeReading
) -> list[TimedAnswer]:
    found = []
    for each in asked:
        began = time.perf_counter()
        answer = client.recall(each.text, top_k=TOP_K, token_budget=None, dry=True, now=each.asked_at, time=reading)
        took = 1000 * (time.perf_counter() - began)
        right = [judge.is_right(hit, each) for hit in answer.memories]
        found.append(TimedAnswer(each, right, is_read_rightly(each, answer, first_day), answer, took))
    return found


def report(title: str, found: Sequence[TimedAnswer]) -> None:
    rows: dict[str, list[object]] = {}
    groups: dict[str, list[TimedAnswer]] = defaultdict(list)
    for each in found:
        groups[each.question.shape].append(each)
        if each.question.shape in INTERVALS:
            groups[f"{each.question.shape}, {'only the time' if each.question.only_time else 'specific'}"].append(each)
        if each.question.shape in ("last", "first"):
            groups["last and first"].append(each)
    for name, answers in sorted(groups.items()):
        count = len(answers)
        firsts = [float(each.is_right[:1] == [True]) for each in answers]
        fives = [_share_of_first(each) for each in answers]
        evidence = [float(any(each.is_right[:FIRST])) for each in answers]
        read = [float(each.is_read) for each in answers]
        rows[f"{name} ({count})"] = [share(firsts), share(fives), share(evidence), share(read)]
    columns = ("first hit right", f"of the first {FIRST} right", f"any of {FIRST} right", "time read rightly")
    show(title, columns, rows)


def _share_of_first(each: TimedAnswer) -> float:
    """Of the first hits, at most as many as could be right, the share that is."""
    possible = max(1, min(FIRST, len(each.question.evidence)))
    return sum(each.is_right[:possible]) / possible


def show_faults(found: Sequence[TimedAnswer]) -> None:
    for each in found:
        if each.is_right[:1] == [True] and each.is_read:
            continue
        asked, read = each.question, each.answer.time
        print(f"\n{asked.id} {asked.shape} {asked.first}..{asked.last} only={asked.only_time}: {asked.text}")
        if read is not None:
            end = local_day(read.until, is_end=True)
            print(f"   read {local_day(read.begin)}..{end} [{read.words}] {read.order} {read.within} of {read.of}")
        print(f"   evidence {sorted(asked.evidence)} {each.is_right[:8]}")
        for hit in each.answer.memories[:3]:
            print(f"   {hit.score:.2f} {local_day(hit.event_at)} {hit.kind} {hit.content[:100]!r}")


def main(
    folder: Path, *, only: tuple[str, ...] = ("memories", "notes"), show_: bool = False, off: bool = False
) -> None:
    diary, asked = lines(folder / "diary.jsonl"), questions_of(folder)
    first_day = min(day_of(each) for each in diary if each["at"])
    reading: TimeReading = "off" if off else "auto"
    for form in only:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            with running(folder / "data", LANGUAGE_MODEL_OFF) as daemon, daemon.client() as client:
                if form == "memories":
                    judge = DiaryJudge(diary, store_memories(client, diary))
                else:
                    write_notes(folder / "notes", diary)
                    client.add_root(folder / "notes")
                    wait_for_notes(client, len(set(map(day_of, diary))))
                    judge = DiaryJudge(diary, None)
                daemon.wait_for_vectors(WAIT_SECONDS)
                found = ask_all(client, asked, judge, first_day, reading)
        report(f"As {form}, {len(asked)} questions, % [95% interval]", found)
        if show_:
            show_faults(found)


if __name__ == "__main__":
    harness.run(main)

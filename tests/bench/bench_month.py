"""Resume and contexts after a month of a person's life: what an agent is given, and what it should be given. SPEC 11

    python -m tests.bench.bench_month FOLDER NAME [--show] [--print]

FOLDER holds NAME.life (id, time, entry point, project or -, session or -, who, label, text), NAME.resume (project or
-, `must` or `not`, words) and NAME.prompts (prompt, project or -, words that must be in the context or -, words that
must not), separated by tabs; alternatives within words by `|`, several by `; `. The month is lived in simulated time
with the real embedding model, through the routes of the daemon: deliberate memories, turns of conversations, memories
of agents, and notes in a folder, while cycles and jobs run as they come. A line of a block is junk where every entry
that it holds has a label of JUNK. --show prints what is missing and what is junk, which nobody does with a held-out
month; --print prints the resumes.
"""

import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from mnemo_core.sessions.resume import tokens_of
from tests.bench import harness
from tests.bench.bench_day import ModelWorld
from tests.bench.tables import show
from tests.simulation.replay import IDLE_SECONDS
from tests.simulation.world import in_simulated_time, place_for_worlds

NONE = "-"
JUNK = frozenset(("question", "small", "answer", "script", "replaced", "event"))
CALM_SECONDS = 600.0  # between two steps of the world while nothing is said
CALM_STEPS = 48  # at most, between two entries: a night needs no more
MATCHED_CHARS = 28  # of an entry, by which a line of a block is known to hold it
AGENTS = "mcp"  # the entry point of agents


class LifeEntry(NamedTuple):
    """A line of the life."""

    id: str
    at: datetime
    via: str
    project: str
    session: str
    who: str
    label: str
    text: str


class WantedWords(NamedTuple):
    """Words that a block must have, or must not have; each with its alternatives."""

    must: tuple[tuple[str, ...], ...]
    never: tuple[tuple[str, ...], ...]


class BlockCounts:
    """The counts of the blocks of a kind."""

    def __init__(self) -> None:
        self.must = self.met = self.never = self.broken = self.lines = self.junk = self.tokens = self.blocks = 0
        self.unasked = self.silent = 0  # prompts that nothing bears on, and those of them without a block

    def row(self) -> tuple[str, ...]:
        return (
            f"{self.met}/{self.must}", f"{self.broken}/{self.never}", f"{self.junk}/{self.lines}",
            f"{self.silent}/{self.unasked}", f"{self.tokens / max(1, self.blocks):.0f}",
        )  # fmt: skip


def rows_of(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def life_of(path: Path) -> list[LifeEntry]:
    found = []
    for number, at, via, project, session, who, label, text in rows_of(path):
        found.append(
            LifeEntry(number, datetime.fromisoformat(at).replace(tzinfo=UTC), via, project, session, who, label, text)
        )
    return sorted(found, key=lambda entry: entry.at)


def words_of(cell: str) -> tuple[tuple[str, ...], ...]:
    cell = cell.removeprefix("must:").removeprefix("not:").strip()
    if cell in ("", NONE):
        return ()
    return tuple(tuple(each.strip().casefold() for each in some.split("|")) for some in cell.split(";"))


def namespace_of(project: str) -> str:
    return "default" if project == NONE else project


class MonthClock:
    """Lets the jobs of a world run until a time comes."""

    def __init__(self, world: ModelWorld) -> None:
        self._world = world

    def wait_until(self, at: datetime) -> None:
        left = at.timestamp() - self._world.clock.milliseconds / 1000
        for _ in range(CALM_STEPS):
            if left <= CALM_SECONDS:
                break
            self._world.step(max(CALM_SECONDS, left / CALM_STEPS))
            left = at.timestamp() - self._world.clock.milliseconds / 1000
        if left > 0:
            self._world.clock.go_on(left)


class LivedMonth:
    """A month, lived in a world."""

    def __init__(self, world: ModelWorld, life: Sequence[LifeEntry]) -> None:
        self._world = world
        self._clock = MonthClock(world)
        self._life = life
        self._noted: dict[Path, list[str]] = {}

    def live(self) -> None:
        """Say and write each entry at its time, and let the world come to rest after it."""
        self._world.notes_folder.folder.mkdir(exist_ok=True)
        self._world.ask("POST", "/v1/notes/roots", {"path": str(self._world.notes_folder.folder)})
        for entry in self._life:
            self._clock.wait_until(entry.at)
            getattr(self, f"_{entry.via}")(entry)
            self._world.step()
        for _ in range(4):
            self._world.step(IDLE_SECONDS)

    def resume(self, project: str) -> str:
        return str(
            self._world.ask("GET", "/v1/resume", namespace=namespace_of(project), entry_point=AGENTS).value["text"]
        )

    def context(self, prompt: str, project: str) -> str:
        asked = {"prompt": prompt, "session_id": "now"}
        answer = self._world.ask("POST", "/v1/hooks/prompt", asked, namespace=namespace_of(project))
        return str(answer.value.get("context") or "")

    def _remember(self, entry: LifeEntry) -> None:
        self._store("/v1/memories", {"content": entry.text}, entry, "api")

    def _agent(self, entry: LifeEntry) -> None:
        self._store("/v1/memories", {"content": entry.text, "agent_id": "helper"}, entry, AGENTS)

    def _turn(self, entry: LifeEntry) -> None:
        said = {"role": "user" if entry.who == "user" else "agent", "content": entry.text}
        self._store("/v1/turns", {"session_id": entry.session, "turns": [said]}, entry, "api")

    def _note(self, entry: LifeEntry) -> None:
        name = f"{entry.at:%Y-%m-%d}.md" if entry.project == NONE else f"{entry.project}.md"
        path = self._world.notes_folder.folder / name
        lines = self._noted.setdefault(path, [f"# {path.stem}"])
        lines += ["", entry.text]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        for watch in self._world.notes_folder.watches:
            watch.on_paths([name])

    def _store(self, route: str, body: dict[str, object], entry: LifeEntry, entry_point: str) -> None:
        answer = self._world.ask("POST", route, body, namespace=namespace_of(entry.project), entry_point=entry_point)
        if not answer.is_ok:
            raise SystemExit(f"{entry.id}: {answer.value}")


class BlockJudge:
    """Says what a block has, lacks and should not have."""

    def __init__(self, life: Iterable[LifeEntry], *, shows: bool) -> None:
        self._labels = [(_plain(entry.text), entry.label) for entry in life]
        self._shows = shows

    def judge(self, counts: BlockCounts, name: str, block: str, wanted: WantedWords) -> None:
        text = block.casefold()
        missing = [words for words in wanted.must if not any(word in text for word in words)]
        broken = [words for words in wanted.never if any(word in text for word in words)]
        junk = []
        for line in block.splitlines():
            if labels := self._labels_in(line):
                counts.lines += 1
                if labels <= JUNK:
                    counts.junk += 1
                    junk.append((sorted(labels), line[:150]))
        counts.must += len(wanted.must)
        counts.met += len(wanted.must) - len(missing)
        counts.never += len(wanted.never)
        counts.broken += len(broken)
        counts.tokens += tokens_of(block)
        counts.blocks += 1
        if self._shows and (missing or broken or junk):
            print(f"\n{name}")
            for title, found in (("missing", missing), ("wrong", broken), ("junk", junk)):
                for each in found:
                    print(f"  {title}: {each}")

    def _labels_in(self, line: str) -> set[str]:
        plain = _plain(line)
        return {label for text, label in self._labels if text[:MATCHED_CHARS] in plain}


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def lived_month(folder: Path, name: str, life: Sequence[LifeEntry]) -> tuple[ModelWorld, LivedMonth]:
    """A world in the folder in which the month has been lived."""
    world = ModelWorld(folder, random.Random(name))
    world.map_bytes = 1 << 30
    with in_simulated_time(world.clock):
        world.begin_at(life[0].at)
        world.open()
        month = LivedMonth(world, life)
        month.live()
    return world, month


def main(folder: Path, name: str, *, show_: bool = False, print_: bool = False) -> None:
    file = folder / name
    life = life_of(file.with_suffix(".life"))
    judge, counts = BlockJudge(life, shows=show_), {"resume": BlockCounts(), "context": BlockCounts()}
    with tempfile.TemporaryDirectory(dir=place_for_worlds()) as scratch:
        world, month = lived_month(Path(scratch), name, life)
        with in_simulated_time(world.clock):
            lines = rows_of(file.with_suffix(".resume"))
            for project in sorted({each[0] for each in lines}):
                by = Counter[str]()
                must, never = (
                    tuple(words for each in lines if each[:2] == [project, kind] for words in words_of(each[2]))
                    for kind in ("must", "not")
                )
                block = month.resume(project)
                by.update([project])
                if print_:
                    print(block, "\n")
                judge.judge(counts["resume"], f"resume of {project}", block, WantedWords(must, never))
            for prompt, project, must_cell, never_cell in rows_of(file.with_suffix(".prompts")):
                block = month.context(prompt, project)
                wanted = WantedWords(words_of(must_cell), words_of(never_cell))
                judge.judge(counts["context"], f"{prompt} [{project}]", block, wanted)
                if not wanted.must:
                    counts["context"].unasked += 1
                    counts["context"].silent += not block
                    if show_ and block:
                        print(f"\nnothing bears on: {prompt}\n{block}")
            world.throw_away()
    show(
        f"{len(life)} entries", ("must", "wrong", "junk lines", "silent", "tokens"),
        {name: each.row() for name, each in counts.items()},
    )  # fmt: skip


if __name__ == "__main__":
    harness.run(main)

"""The table of states in SPEC 2.1, tried whole: every operation, from every state that a memory can be in."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec
import pytest

from mnemo_core.ingest.mutations import Draft
from mnemo_core.ingest.write_plan import IngestItem
from mnemo_daemon.errors import Refusal
from mnemo_daemon.maintenance.store_check import StoreCheck
from mnemo_daemon.maintenance.trash import Expiry, Trash
from mnemo_store.records import Memory
from tests.support.erasure_services import ErasureServices
from tests.support.samples import WAIT_SECONDS, quick_folder, write
from tests.support.store_services import PERSON

SPEC = Path(__file__).parents[2] / "daemon" / "docs" / "data-model.md"
DAY_MS = 86_400_000
TEXT = "The ferry leaves at noon."
DRAFT = Draft(content=TEXT, namespace="default", user_id="local", trust="user", source="cli")


class StateGround(ErasureServices):
    """A store with one memory in a given state, under the key `k`."""

    def __init__(self, folder: Path, state: str) -> None:
        super().__init__(folder)
        self.trash_bin = Trash(self.store, self.views)
        former = state.removeprefix("trashed ").strip("()") if state.startswith("trashed") else state
        self.one = self._made("active" if former == "trashed" else former)
        if state.startswith("trashed"):
            self.trash(self.one)
        self.at += 1

    def _made(self, state: str) -> str:
        item = IngestItem(DRAFT._replace(key="k"), discard_reason="low_importance" if state == "discarded" else "")
        memory = self.write_item(item)
        self.at += 1
        if state == "superseded":
            self.add("The ferry leaves at one.", supersedes=(memory.id,))
        elif state == "compressed":
            summary = self.add("A summary about ferries.", derived_from=(memory.id,))
            write(self.store, msgspec.structs.replace(memory, state=state, version=2, superseded_by=summary))
        elif state == "archived":
            write(self.store, msgspec.structs.replace(memory, state=state, version=2))
        return memory.id

    def write_item(self, item: IngestItem) -> Memory:
        return self.memories.write_one(item, PERSON).result(WAIT_SECONDS).result.memory

    def state(self) -> str:
        """The state, with that before the trash; `gone`."""
        with self.store.snapshot() as snapshot:
            memory, entry = snapshot.memory(self.one), snapshot.trash(self.one)
        if memory is None:
            return "gone"
        if memory.state != "trashed":
            return memory.state
        assert entry is not None
        return "trashed" if entry.state == "active" else f"trashed ({entry.state})"


def expire(services: StateGround) -> None:
    services.edit(services.one, expires_at=services.at + 1)
    services.at += 2
    Expiry(services.store, services.views).run_slice()


def keep_days(services: StateGround) -> None:
    services.at += 31 * DAY_MS
    services.trash_bin.run_retention_slice(30)


def supersede(services: StateGround) -> None:
    services.add("The ferry leaves at three.", supersedes=(services.one,))


def supersede_and_undo(services: StateGround) -> None:
    supersede(services)
    services.at += 1
    services.undo(services.store.seq)


def undo(services: StateGround) -> None:
    """Take back a deletion or, where the memory is in the trash, the restoration."""
    if services.state().startswith("trashed"):
        services.restore(services.one)
    else:
        services.trash(services.one)
    services.at += 1
    services.undo(services.store.seq)


OPERATIONS: dict[str, Callable[[StateGround], object]] = {
    "delete": lambda services: services.trash(services.one),
    "restore": lambda services: services.restore(services.one),
    "edit the text": lambda services: services.edit(services.one, content="The ferry leaves at two."),
    "edit a tag": lambda services: services.edit(services.one, tags=("sea",)),
    "supersede": supersede,
    "supersede, and undo": supersede_and_undo,
    "supersede twice": lambda services: [
        services.add(f"The ferry leaves at {at}.", supersedes=(services.one,)) for at in "45"
    ],
    "write the same under its key": lambda services: services.add(TEXT, key="k"),
    "write another text under its key": lambda services: services.add("The ferry sank.", key="k"),
    "write the same text": lambda services: services.add(TEXT),
    "recall": lambda services: services.memories.record_use([services.one]).result(WAIT_SECONDS),
    "expire": expire,
    "31 days, `trash.keep_days` 30": keep_days,
    "empty the trash": lambda services: services.trash_bin.empty([], "cli", confirm=True),
    "forget": lambda services: services.forget(services.one),
    "delete or restore, and undo": undo,
}


@cache
def table() -> dict[str, dict[str, str]]:
    """By operation and state, the state afterwards or the code of the refusal."""
    text = SPEC.read_text(encoding="utf-8").partition("| operation | active |")
    rows = [
        [cell.strip() for cell in row.strip("|").split("|")] for row in "".join(text[1:]).split("\n\n")[0].split("\n")
    ]
    return {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_takes_every_state_to_the_one_in_the_table(operation: str) -> None:
    assert table().keys() == OPERATIONS.keys()
    found = {}
    for state in table()[operation]:
        with quick_folder() as folder:
            services = StateGround(folder, state)
            assert services.state() == state
            try:
                OPERATIONS[operation](services)
                found[state] = services.state()
            except Refusal as refusal:
                assert services.state() == state
                found[state] = f"`{refusal.code}`"
            report = StoreCheck(services.store, services.views).run()
            services.close()
            assert report.violations == [], (operation, state)
    assert found == table()[operation]


def test_a_trashed_memory_whose_summary_was_erased_is_shown_when_it_is_restored() -> None:
    with quick_folder() as folder:
        services = StateGround(folder, "trashed (compressed)")
        with services.store.snapshot() as snapshot:
            summary = snapshot.memory(services.one).superseded_by  # type: ignore[union-attr]
        services.forget(summary)
        services.restore(services.one)
        assert services.state() == "active"
        services.close()


def test_a_text_behind_two_replacements_is_stored_when_it_is_said_again() -> None:
    with quick_folder() as folder:
        services = StateGround(folder, "active")
        second = services.add("The ferry leaves at one.", supersedes=(services.one,))
        services.at += 1
        services.add("The ferry leaves at two.", supersedes=(second,))
        services.at += 1
        assert services.state() == "superseded"
        assert services.add(TEXT) != services.one
        services.close()

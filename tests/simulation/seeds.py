"""Lives by the number: what may happen in one, and how many go well."""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.simulation import events, reads, store_operations, writes
from tests.simulation.life import MEMORIES_MAX, LifeOperation, SimulatedLife
from tests.simulation.world import place_for_worlds

STEPS = 40


def is_open(life: SimulatedLife) -> bool:
    return life.world.is_open


def has_room(life: SimulatedLife) -> bool:
    return is_open(life) and len(life.state.memories) < MEMORIES_MAX


def is_well(life: SimulatedLife) -> bool:
    """True if no fault is active: for events after which nobody could tell what has to hold on a failing disk."""
    return is_open(life) and life.is_settled


def has_notes(life: SimulatedLife) -> bool:
    return bool(life.world.notes_folder.files) and life.world.notes_folder.is_there


OPERATIONS: tuple[LifeOperation, ...] = (
    LifeOperation(12, "remember", writes.remember, has_room),
    LifeOperation(4, "remember together", writes.remember_together, has_room),
    LifeOperation(3, "batch", writes.batch, has_room),
    LifeOperation(8, "edit", writes.edit, is_open),
    LifeOperation(5, "delete", writes.delete, is_open),
    LifeOperation(1, "delete by filter", writes.delete_by_filter, is_open),
    LifeOperation(4, "restore", writes.restore, is_open),
    LifeOperation(5, "undo", writes.undo, is_open),
    LifeOperation(3, "get", reads.get, is_open),
    LifeOperation(3, "list", reads.list_pages, is_open),
    LifeOperation(4, "search", reads.search, is_open),
    LifeOperation(5, "recall", reads.recall, is_open),
    LifeOperation(3, "recall as of", reads.recall_as_of, is_open),
    LifeOperation(3, "history", reads.history, is_open),
    LifeOperation(2, "diff", reads.diff, is_open),
    LifeOperation(2, "status", reads.status, is_open),
    LifeOperation(2, "clock steps back", events.clock_steps_back),
    LifeOperation(2, "time goes by", events.time_goes_by),
    LifeOperation(4, "restart", events.restart),
    LifeOperation(3, "kill", events.kill),
    LifeOperation(5, "kill in the middle", events.kill_in_the_middle, is_open),
    LifeOperation(2, "kill at the start", events.kill_at_start, is_well),
    LifeOperation(2, "lose the database", events.lose_the_database, is_well),
    LifeOperation(1, "lose the journal", events.lose_the_journal, is_well),
    LifeOperation(1, "lose the views", events.lose_the_views, is_well),
    LifeOperation(1, "lose the manifest", events.lose_the_manifest, is_well),
    LifeOperation(4, "disk fails", events.disk_fails, is_well),
    LifeOperation(3, "disk keeps failing", events.disk_keeps_failing, is_well),
    LifeOperation(2, "disk fills up", events.disk_fills_up, is_well),
    LifeOperation(1, "database cannot be read", events.database_cannot_be_read, is_well),
    LifeOperation(2, "model arrives", events.model_arrives, is_open),
    LifeOperation(1, "model raises", events.model_raises),
    LifeOperation(1, "model gives nan", events.model_gives_nan),
    LifeOperation(1, "model is slow", events.model_is_slow),
    LifeOperation(2, "model is well", events.model_is_well),
    LifeOperation(1, "model is switched", events.model_is_switched, is_open),
    LifeOperation(1, "reindex", events.reindex, is_open),
    LifeOperation(
        3, "watch notes", events.watch_notes, lambda life: is_open(life) and life.world.notes_folder.is_there
    ),
    LifeOperation(1, "watch no more", events.watch_no_more, is_open),
    LifeOperation(6, "save a note", events.save_note, lambda life: life.world.notes_folder.is_there),
    LifeOperation(1, "rename a note", events.rename_note, has_notes),
    LifeOperation(1, "delete a note", events.delete_note, has_notes),
    LifeOperation(1, "notes disk is unplugged", events.notes_disk_is_unplugged, has_notes),
    LifeOperation(
        3, "notes disk is back", events.notes_disk_is_back, lambda life: not life.world.notes_folder.is_there
    ),
    LifeOperation(1, "watches run out", events.watches_run_out),
    LifeOperation(4, "scan", events.scan, is_open),
    LifeOperation(4, "inspect", events.inspect, is_open),
    LifeOperation(2, "compact", store_operations.compact, is_open),
    LifeOperation(2, "forget", store_operations.forget, is_open),
    LifeOperation(2, "empty the trash", store_operations.empty_the_trash, is_open),
    LifeOperation(2, "back up", store_operations.back_up, is_open),
    LifeOperation(
        2, "restore a backup", store_operations.restore_a_backup, lambda life: is_well(life) and bool(life.backups)
    ),
    LifeOperation(1, "go back", store_operations.go_back, lambda life: is_well(life) and bool(life.state.entries)),
    LifeOperation(1, "move", store_operations.move, is_well),
    LifeOperation(1, "export", store_operations.export, is_open),
    LifeOperation(2, "import", store_operations.import_an_export, lambda life: is_open(life) and bool(life.exports)),
    LifeOperation(2, "check", store_operations.check, is_well),
    LifeOperation(1, "repair", store_operations.repair_after_damage, is_well),
)


class LifeReport(NamedTuple):
    """The result of a life."""

    digest: str
    log: list[str]
    did: dict[str, int]


def live(seed: int, steps: int = STEPS, without: Iterable[str] = ()) -> LifeReport:
    """The life of this seed, without the operations so called. Raises LifeFailure, which tells all about it."""
    left_out = frozenset(without)
    operations = [operation for operation in OPERATIONS if operation.name not in left_out]
    folder = Path(tempfile.mkdtemp(prefix="mnemo-life-", dir=place_for_worlds()))
    try:
        life = SimulatedLife(seed, folder)
        life.run(operations, steps)
        return LifeReport(life.digest, life.log, dict(life.did))
    finally:
        shutil.rmtree(folder, ignore_errors=True)

"""The table of background jobs. SPEC 9.1

To add a job:

1. Write a function that does one bounded slice of its work, durably, and returns whether there is more. A part of its
   own is made in `Services.open`. A walk over a table keeps its place in memory and begins again at each start, as
   `token_backfill` does.
2. If it writes, add its author to AUTHORS of `history_names`; an operation that drops memories also belongs in
   FOR_GOOD there.
3. Add its row here. The row is all that the scheduler, `GET /v1/jobs` and `mnemo jobs` need. `Interval(seconds)` means
   at each start of the daemon, and then so long after the end of the last run.
"""

from collections.abc import Callable

from mnemo_daemon import process_memory
from mnemo_daemon.scheduler import Interval, Job, JobState
from mnemo_daemon.services import Services

EXPIRY_SECONDS = 1800.0  # [SPEC 3.7]; what has expired is not recalled anyway
RETENTION_SECONDS = 3600.0
HISTORY_SECONDS = 86_400.0
COMPRESSION_SECONDS = 1800.0
SWEEP_SECONDS = 300.0  # [T6]
EXPORT_SECONDS = 5.0
ROLES_SECONDS = 20.0
INDEX_CHECK_SECONDS = 600.0
MODEL_SECONDS = 3.0  # between two looks whether a model has been installed
IDLE_MODEL_SECONDS = 10.0
DAILY_SECONDS = 3600.0
SYNC_SECONDS = 5.0


def jobs_of(s: Services) -> tuple[Job, ...]:
    """The table, for the services of one daemon."""
    return (*_jobs_of_memories(s), *_jobs_of_conversations(s), *_jobs_of_indexes(s))


def _jobs_of_memories(s: Services) -> tuple[Job, ...]:
    """Jobs that write memories, or remove them."""
    return (
        Job(
            "usage", "Write down which memories were recalled.", _when(s.usage_recorder.is_due),
            _once(s.usage_recorder.write), "all that was recalled in 2 seconds",
        ),
        Job(
            "shown", "Write down in which answers memories were handed out.", _when(s.shown_recorder.is_due),
            _once(s.shown_recorder.write), "all that was handed out in 2 seconds",
        ),
        Job(
            "extraction", "Extract the statements of texts that were stored to be broken up.",
            _when(s.extraction.is_due), s.extraction.run_slice, "0.5 seconds of one text",
        ),
        Job("insert_merge", "Write one text of two that were merged when the later one came.",
            _when(s.insert_merger.is_due), s.insert_merger.run_slice, "one call of the model", is_heavy=True),
        Job("sync", "Exchange changes with the other devices that share the memory.",
            lambda now, state: Interval(SYNC_SECONDS)(now, state) and s.sync.is_due(), _once(s.sync.exchange),
            "all that is new"),
        Job("erasure", "Finish an erasure that was interrupted.", _when(lambda: bool(s.erasure.pending)),
            _once(s.erasure.resume_if_due), "one erasure"),
        Job("consolidation", "Consolidate memories: a cycle after activity, every `lifecycle.interval_minutes`.",
            _when(lambda: s.sync.runs_cycles() and s.consolidation.is_due()), s.consolidation.run_slice,
            "0.5 seconds of one step", is_heavy=True),
        Job("compression", "Summarize the oldest conversations of whoever has many, and lift old items to profiles.",
            Interval(COMPRESSION_SECONDS), s.compression.run_slice, "one session, or the items of one user",
            is_heavy=True),
        Job("expiry", "Move memories that have expired to the trash.", Interval(EXPIRY_SECONDS), s.expiry.run_slice,
            "200 memories"),
        Job(
            "trash_retention", "Clear the trash after `trash.keep_days`, rejected texts after 30 days.",
            Interval(RETENTION_SECONDS),
            lambda: s.trash.run_retention_slice(s.settings.trash.keep_days), "1,000 memories",
        ),
        Job("history_retention", "Compact the store where its history is longer than `history.keep` names.",
            Interval(HISTORY_SECONDS), _once(lambda: s.maintenance.run_retention(s.settings.history.keep)),
            "all of the store", is_heavy=True),
    )  # fmt: skip


def _jobs_of_conversations(s: Services) -> tuple[Job, ...]:
    """Jobs of conversations and topics."""
    return (
        Job("topic_nodes", "Join pairs of turns to topic nodes, and count which nodes were recalled together.",
            _when(s.topic_nodes.is_due), s.topic_nodes.run_slice, "32 pairs"),
        Job("topic_tree", "Build the tree of topics, and name the topics.", _when(s.topic_trees.is_due),
            s.topic_trees.run_slice, "0.2 seconds and one step", is_heavy=True,
            is_requested=s.topic_trees.is_requested),
        Job("memory_map", "Lay out the map of the memories, and place new ones on it.", _when(s.memory_map.is_due),
            s.memory_map.run_slice, "0.2 seconds and one step", is_heavy=True),
        Job(
            "turn_tiers", "Move turns that newer ones push out of the ring of their session.",
            _when(s.turn_tiers.is_push_out_due), s.turn_tiers.push_out_slice, "one session",
        ),
        Job("turn_sweep", "File cold turns, and those of sessions that have ended, in pairs.",
            Interval(SWEEP_SECONDS), s.turn_tiers.sweep_slice, "one session, or 500 turns or pairs"),
        Job(
            "turn_review", "Judge how important turns are, and condense long ones that left the ring.",
            _when(s.turn_review.is_due), s.turn_review.run_slice, "0.5 seconds of one turn",
        ),
        Job(
            "resume_lines", "Condense the core memories that the last resume had no room for.",
            _when(s.resume.is_due), s.resume.run_slice, "one call of the model", is_heavy=True,
        ),
        Job("roles", "Read what each memory is about, so that a resume need not wait for it.", Interval(ROLES_SECONDS),
            s.recall.roles.run_slice, "50 memories"),
        Job("markdown_export", "Write core memories and topics to `notes.export_dir`.",
            lambda now, state: s.markdown_export.is_enabled() and Interval(EXPORT_SECONDS)(now, state),
            s.markdown_export.run_slice, "two pages"),
    )  # fmt: skip


def _jobs_of_indexes(s: Services) -> tuple[Job, ...]:
    """Jobs of indexes, models and the process."""
    return (
        Job(
            "index_rebuild", "Rebuild the indexes of words and attributes where they are broken.",
            _when(lambda: s.views.state == "stale"), _once(s.views.rebuild), "both indexes",
        ),
        Job(
            "index_check", "Count the memories of each index, and fill one that lacks some.",
            Interval(INDEX_CHECK_SECONDS), _once(s.require_index_rows), "counts",
        ),
        Job(
            "index_saving", "Save the indexes of words and attributes, so that the next start is quick.",
            _when(s.views.is_save_due), _once(s.views.save), "both indexes",
        ),
        Job("llm_log_retention", "Delete the records of language-model calls that are older than 90 days.",
            Interval(RETENTION_SECONDS), s.llm_calls.run_retention_slice, "500 records"),
        Job("token_backfill", "Compute the token vectors of memories that have none.", s.indexing.are_tokens_due,
            s.indexing.fill_tokens, "16 texts", is_heavy=True),
        Job(
            "model_loading", "Load the embedding model once it has been installed.",
            lambda now, state: Interval(MODEL_SECONDS)(now, state) and s.embedding.status().state == "absent",
            _once(s.embedding.refresh), "one model",
        ),
        Job(
            "capability_probe", "Try the language model on small cases of each task, to know which of them may ask it.",
            lambda now, state: Interval(MODEL_SECONDS)(now, state) and s.is_probe_due(),
            s.capability_probe.run_slice, "one call of the model", is_heavy=True,
        ),
        Job("model_unloading", "Unload the models that read pairs when nothing has asked for them for a while.",
            Interval(IDLE_MODEL_SECONDS), _once(s.unload_pair_models), "two models"),
        Job("daily_values", "Take the values of the day: memories, sizes, times of recalls.", Interval(DAILY_SECONDS),
            _once(s.daily_values.sample), "one small file"),
        Job("memory_return", "Return freed memory to the operating system.", Interval(process_memory.TRIM_SECONDS),
            _once(process_memory.trim), "all that is free"),
    )  # fmt: skip


def _when(is_due: Callable[[], bool]) -> Callable[[float, JobState], bool]:
    return lambda _now, _state: is_due()


def _once(run: Callable[[], object]) -> Callable[[], bool]:
    """A job whose only slice is all of it."""

    def slice_() -> bool:
        run()
        return False

    return slice_

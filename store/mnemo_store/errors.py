"""The errors of the store."""


class StoreError(Exception):
    """The store could not do what was asked."""

    code = "store"
    hint = ""


class FolderInUse(StoreError):
    """Another process uses the data folder."""

    code = "locked"
    hint = "stop that process, or use another data folder (MNEMO_DATA_DIR)"


class NewerFormat(StoreError):
    """The store was written by a newer version of mnemod."""

    code = "newer_format"
    hint = "install that version again; nothing was changed"


class StoreCorruption(StoreError):
    """The database failed verification and was not opened."""

    code = "damaged"
    hint = "the journal still holds the memories: see `mnemo doctor`"


class StoreLoss(StoreCorruption):
    """The store exists, but neither its database nor its journal can be read."""

    hint = ""


class QueueFull(StoreError):
    """Too many writes are waiting."""

    code = "busy"
    hint = "try again in a moment"


class ClosedStoreError(StoreError):
    """The store is closed."""

    code = "closed"
    hint = "start the daemon again"


class WriteFailure(StoreError):
    """The write could not be made durable; nothing of it was kept."""

    code = "write_failed"
    hint = "check the disk; the memory was not stored"


class DiskFull(WriteFailure):
    """The disk is full; nothing was kept."""

    code = "disk_full"
    hint = "free some space; deleting memories still works"


class LockLoss(WriteFailure):
    """The data folder or its lock was moved, deleted or replaced: writing has stopped."""

    hint = ""


class UnknownOutcome(StoreError):
    """The disk failed during a write; the next start shows whether the write survived."""

    code = "outcome_unknown"
    hint = "repeat it with the same key, which cannot store it twice"


class BadBackup(StoreError):
    """The backup is incomplete, or cannot be made in that place."""

    code = "bad_backup"
    hint = "nothing was changed"


class HistoryUnavailable(StoreError):
    """The history does not reach back that far."""

    code = "history_compacted"
    hint = "restore an older backup to reach further back"


class StoreNotEmpty(StoreError):
    """The store is not empty."""

    code = "not_empty"
    hint = "use an empty data folder (MNEMO_DATA_DIR)"


class VersionConflict(StoreError):
    """The record has changed since it was read."""

    code = "conflict"
    hint = "read it again and repeat the change"


class IndexMismatch(StoreError):
    """An index file does not belong to this store, is damaged, or has another format."""

    code = "view_mismatch"
    hint = "it is rebuilt automatically"


class EmbeddingSpaceMismatch(IndexMismatch):
    """The vectors of an index cannot be compared with those of the model in use."""

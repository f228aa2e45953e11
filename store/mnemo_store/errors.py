"""What can go wrong in the store.

StoreError
├── Locked              another process holds the data folder
├── NewerFormat         written by a newer version
├── Damaged             the database does not verify
│   └── NothingLeft     nor is there a journal to make it anew from
├── Busy                the write queue is full
├── Closed              the store is shut or shutting down
├── WriteFailed         nothing was written, and nothing of it will come back
│   ├── DiskFull        there was no room
│   └── LockLost        another process may be using the data folder
├── OutcomeUnknown      it may or may not be there after the next start
├── BadBackup           a backup that is not whole, or cannot be made there
├── TooOld              a moment before the history that is kept
├── NotEmpty            only a store that holds nothing can take this
├── Conflict            the record has moved on since it was read
└── ViewMismatch        a view's file does not belong to this store
"""


class StoreError(Exception):
    """The store could not do what was asked."""

    code = "store"
    hint = ""


class FolderInUse(StoreError):
    """Another process holds the data folder."""

    code = "locked"
    hint = "stop that process, or use another data folder (MNEMO_DATA_DIR)"


class NewerFormat(StoreError):
    """The store was written by a newer version of mnemod."""

    code = "newer_format"
    hint = "install that version again; nothing was changed"


class StoreCorruption(StoreError):
    """The database file does not verify and was not opened."""

    code = "damaged"
    hint = "the journal beside it still holds the memories: see `mnemo doctor`"


class StoreLoss(StoreCorruption):
    """There was a store, and neither its database nor its journal can be read."""

    hint = ""


class QueueFull(StoreError):
    """Too many writes are waiting."""

    code = "busy"
    hint = "try again in a moment"


class StoreClosed(StoreError):
    """The store is closed."""

    code = "closed"
    hint = "start the daemon again"


class WriteFailure(StoreError):
    """The write could not be made durable; nothing of it was kept."""

    code = "write_failed"
    hint = "look at the disk; the memory was not stored"


class DiskFull(WriteFailure):
    """There is no room left on the disk; nothing was kept."""

    code = "disk_full"
    hint = "free some space; deleting memories still works"


class LockLoss(WriteFailure):
    """The data folder or its lock was moved, deleted or replaced: nothing is written any more."""

    hint = ""


class UnknownOutcome(StoreError):
    """The disk failed in the middle of a write; whether it survived shows at the next start."""

    code = "outcome_unknown"
    hint = "repeat it with the same key, which cannot store it twice"


class BadBackup(StoreError):
    """The backup is not whole, or cannot be made where it was asked for."""

    code = "bad_backup"
    hint = "nothing was changed"


class HistoryUnavailable(StoreError):
    """The history that is kept does not reach back that far."""

    code = "history_compacted"
    hint = "an older backup may"


class StoreNotEmpty(StoreError):
    """The store holds something already."""

    code = "not_empty"
    hint = "use an empty data folder (MNEMO_DATA_DIR)"


class VersionConflict(StoreError):
    """The record has changed since it was read."""

    code = "conflict"
    hint = "read it again and repeat the change"


class IndexMismatch(StoreError):
    """A view's file does not belong to this store, is damaged, or is of another format."""

    code = "view_mismatch"
    hint = "it is rebuilt by itself"


class EmbeddingSpaceMismatch(IndexMismatch):
    """A view's vectors cannot be compared with those of the model in use."""

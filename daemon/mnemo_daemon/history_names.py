"""Names in the history of the store: the operations and the authors that are not a caller's own.

They are persisted with every change, and shown by `mnemo history` and `mnemo diff`: none may ever be renamed.
"""

from typing import NamedTuple

from mnemo_store import tables

# Operations
PURGE = "purge"
EMPTY_TRASH = "empty trash"
EXPIRE = "expire"
RECLASSIFY = "reclassify"
LLM_CALL = "llm call"
MERGE_TOPICS = "merge topics"
ABSTRACT_TOPICS = "abstract topics"
CONSOLIDATE = "consolidate"
REVIEW = "review"
AUDIT = "audit"

# The meta value with the id of the cycle that began last: after a step back of the clock, that is not the greatest id.
LAST_CYCLE = "last_cycle"
COMPRESS = "compress"
PROFILE = "profile"
SHOWN = "shown"
MOVE = "move"
RENAME_TOPIC = "rename topic"

# The beginning of the meta values with the names that a person gave to topics; the id of a topic stands behind it.
TOPIC_NAME = "topic name "
FACTS = tables.FACTS.name
SYNC = "sync"

# Operations that may change records without versions alone, and that undo takes back by what the journal says of them
OF_RECORDS = frozenset({REVIEW, RENAME_TOPIC, *(table.name for table in tables.UNDONE)})

# Operations that dropped memories for good, which cannot be undone
FOR_GOOD = frozenset({EMPTY_TRASH, PURGE})


class Author(NamedTuple):
    """The author of a change: its name as persisted, and what its changes count as."""

    name: str
    is_asked_for: bool = False  # by a person or an agent; an undo of the last change passes over the others [SPEC 3.3]
    is_activity: bool = False  # of a person, an agent or a notes folder: consolidation has something new to look at


BY_NOTES = Author("notes", is_activity=True)
BY_INTAKE = Author("intake", is_asked_for=True, is_activity=True)  # completes a caller's write, in the group of that
BY_TRASH = Author("trash")
BY_EXPIRY = Author("expiry")
BY_REPAIR = Author("repair")
BY_DOCTOR = Author("cli:doctor")
BY_LLM = Author("llm")
BY_TOPICS = Author("topics")  # takes ids for topics
BY_TOPIC_NODES = Author("topic nodes")
BY_SESSIONS = Author("sessions")
BY_LIFECYCLE = Author("lifecycle")
BY_RECALL = Author("recall", is_activity=True)
BY_SYNC = Author("sync")  # what follows from merging the changes of another device
BY_SHOWN = Author("shown")  # writes down in which answers memories were handed out
BY_ERASURE = Author(PURGE)  # one that resumes by itself

AUTHORS = {author.name: author for author in (
    BY_NOTES, BY_INTAKE, BY_TRASH, BY_EXPIRY, BY_REPAIR, BY_DOCTOR, BY_LLM, BY_TOPICS,
    BY_TOPIC_NODES, BY_SESSIONS, BY_LIFECYCLE, BY_RECALL, BY_SHOWN, BY_ERASURE, BY_SYNC,
)}  # fmt: skip


def author_of(by: str) -> Author:
    """The author of that name; a caller, unless AUTHORS has it."""
    return AUTHORS.get(by) or Author(by, is_asked_for=True, is_activity=True)

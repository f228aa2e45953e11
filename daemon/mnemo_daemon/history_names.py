"""Names in the history of the store: the operations and the authors that are not a caller's own.

They are persisted with every change, and shown by `mnemo history` and `mnemo diff`: none may ever be renamed.
"""

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

# Authors of changes that nobody asked for at that moment
BY_NOTES = "notes"
BY_INTAKE = "intake"  # completes a caller's write once its vector is there, in the group of that write
BY_TRASH = "trash"
BY_EXPIRY = "expiry"
BY_REPAIR = "repair"
BY_DOCTOR = "cli:doctor"
BY_LLM = "llm"
BY_TOPICS = "topics"  # takes ids for topics
BY_TOPIC_NODES = "topic nodes"
BY_SESSIONS = "sessions"
BY_LIFECYCLE = "lifecycle"
BY_RECALL = "recall"

# Authors whose changes an undo of the last change passes over, since nobody asked for them. An erasure that resumes by
# itself has the name of its operation as its author. [SPEC 3.3]
LEFT_ALONE = frozenset(
    {
        BY_NOTES,
        BY_TRASH,
        BY_EXPIRY,
        BY_REPAIR,
        BY_DOCTOR,
        BY_LLM,
        BY_TOPICS,
        BY_TOPIC_NODES,
        BY_SESSIONS,
        BY_LIFECYCLE,
        BY_RECALL,
        PURGE,
    }
)
# Authors whose changes somebody asked for. Undo does not pass over the intake: it takes back the whole group.
ASKED_FOR = frozenset({BY_INTAKE})
# Operations that dropped memories for good, which cannot be undone
FOR_GOOD = frozenset({EMPTY_TRASH, PURGE})

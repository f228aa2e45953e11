"""Names in the history of the store: the operations and the authors that are not a caller's own.

They are persisted with every change, and shown by `mnemo history` and `mnemo diff`: none may ever be renamed.
"""

# Operations
PURGE = "purge"
EMPTY_TRASH = "empty trash"
EXPIRE = "expire"
RECLASSIFY = "reclassify"

# Authors of changes that nobody asked for at that moment
BY_NOTES = "notes"
BY_INTAKE = "intake"
BY_TRASH = "trash"
BY_EXPIRY = "expiry"
BY_REPAIR = "repair"
BY_DOCTOR = "cli:doctor"

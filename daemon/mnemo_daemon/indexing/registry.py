"""The indexes that are current with every commit, in the order in which status and checks name them. SPEC 3.1

Those that are filled behind the commits are `VectorIndexer.indexes`.
"""

from mnemo_daemon.indexing.attribute_index import AttributeIndex
from mnemo_daemon.indexing.index import CommitIndex
from mnemo_daemon.indexing.lexical_index import WordIndex

COMMIT_INDEXES: tuple[type[CommitIndex], ...] = (AttributeIndex, WordIndex)

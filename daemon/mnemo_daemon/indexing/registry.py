"""The indexes of the program: one entry each, in the order in which status and checks name them. SPEC 3.1

An index that is current with every commit is a class; one that is filled behind the commits is a part of the vector
indexer, whose thread fills it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mnemo_daemon.indexing.attribute_index import AttributeIndex
from mnemo_daemon.indexing.index import BackgroundIndex, CommitIndex
from mnemo_daemon.indexing.lexical_index import WordIndex

if TYPE_CHECKING:  # which goes by the commit indexes
    from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer


@dataclass(frozen=True)
class BackgroundEntry:
    """A background index, by the name that status and checks give it."""

    name: str
    of: "Callable[[VectorIndexer], BackgroundIndex]"


COMMIT_INDEXES: tuple[type[CommitIndex], ...] = (AttributeIndex, WordIndex)
BACKGROUND_INDEXES: tuple[BackgroundEntry, ...] = (
    BackgroundEntry("vectors", lambda indexer: indexer),
    BackgroundEntry("tokens", lambda indexer: indexer.tokens),
)

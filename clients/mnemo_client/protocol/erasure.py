"""The wire types of /v1 for erasing memories for good."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mnemo_client.protocol.choices import State
from mnemo_client.protocol.memories import FilterParameters
from mnemo_client.protocol.primitives import AnswerBody, RequestBody


class EraseFilter(FilterParameters):
    """A filter of memories to erase: all that pass, in any state, of one namespace."""

    states: list[State] = []  # empty: every state


class EraseRequest(RequestBody):
    """POST /v1/purge: `ids` or `filter`, not both."""

    ids: Annotated[list[str], Meta(max_length=10_000)] = []
    filter: EraseFilter | None = None
    dry_run: bool = False
    quoting: bool = False  # erase also memories that quote one of the texts in full
    everywhere: bool = False  # erase also from backups and other copies of the store, by rewriting them


class EraseOneRequest(RequestBody):
    """POST /v1/memories/{id}/purge."""

    dry_run: bool = False
    quoting: bool = False
    everywhere: bool = False


class SearchedPlace(AnswerBody):
    """A place that was searched for traces: a path in the data folder, or "memory ID" for a memory that stays."""

    place: str
    state: Literal["clean", "removed", "still there"]
    detail: str = ""


class Quotation(AnswerBody):
    """A memory that stays and quotes an erased text in full, in the latest version that does."""

    id: str
    version: int
    excerpt: str


class ResidueSearch(AnswerBody):
    """The search of every file of the data folder, except backups, for text that only the erased memories had."""

    files: int = 0
    bytes: int = 0
    needles: int = 0  # texts, runs of five words and long words that were searched for
    found: list[str] = []  # files with a match


class EraseAnswer(AnswerBody):
    """The result of an erasure, or of its dry run. `complete`: no trace is left."""

    purged: list[str]  # the ids of the request
    derived: list[str]  # memories derived from them, which are erased too
    rederive: dict[str, list[str]] = {}  # those of `derived` that had other sources too, with these: derive them again
    revived: list[str] = []  # memories that an erased one had superseded, and that are active again
    mended: list[str] = []  # memories that stay, without their references to erased ones
    places: list[SearchedPlace] = []  # still there: a file, or `memory ID` for a memory that stays with the same text
    candidates: list[Quotation] = []  # memories that stay and quote an erased text: `quoting` erases them too
    backups: list[str] = []  # copies of the store with a trace; of a dry run, those that may have one
    searched: ResidueSearch = msgspec.field(default_factory=ResidueSearch)
    complete: bool = True  # nothing is still there; copies of the store count only with `everywhere`
    dry_run: bool = False
    seconds: float = 0.0


class EmptyTrashAnswer(AnswerBody):
    """DELETE /v1/trash. Without `confirm` nothing is erased, and `dropped` is how many would be."""

    dropped: int
    bytes: int  # of their texts
    dry_run: bool = False

"""The wire types of /v1 for erasing memories for good."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mnemo_client.protocol.choices import Category, Kind, Layer, State
from mnemo_client.protocol.primitives import AnswerBody, Namespace, RequestBody, ShortText, Time


class EraseFilter(RequestBody):
    """Which memories are to be forgotten: all that pass, in whatever state, of one namespace."""

    namespace: Namespace | None = None
    user_id: ShortText | None = None
    agent_id: ShortText | None = None
    run_id: ShortText | None = None
    session_id: ShortText | None = None
    kinds: list[Kind] = []
    categories: list[Category] = []
    layers: list[Layer] = []
    states: list[State] = []  # none: every state
    tags: list[str] = []  # all of them
    source: str | None = None
    speaker: str | None = None
    since: Time | None = None
    until: Time | None = None


class EraseRequest(RequestBody):
    """POST /v1/purge: `ids` or `filter`, not both."""

    ids: Annotated[list[str], Meta(max_length=10_000)] = []
    filter: EraseFilter | None = None
    dry_run: bool = False
    quoting: bool = False  # with the memories that say the whole of one of the texts
    everywhere: bool = False  # out of the backups and other copies of the store too, which are rewritten


class EraseOneRequest(RequestBody):
    """POST /v1/memories/{id}/purge."""

    dry_run: bool = False
    quoting: bool = False
    everywhere: bool = False


class SearchedPlace(AnswerBody):
    """Where traces were looked for. `place` is a path in the data folder, or "memory ID" for a memory that stays."""

    place: str
    state: Literal["clean", "removed", "still there"]
    detail: str = ""


class Quotation(AnswerBody):
    """A memory that stays and says the whole of a forgotten text, in the latest version that does."""

    id: str
    version: int
    excerpt: str


class ResidueSearch(AnswerBody):
    """The search of every file of the data folder, backups apart, for what only the forgotten memories had."""

    files: int = 0
    bytes: int = 0
    needles: int = 0  # texts, runs of five words and longer words that were looked for
    found: list[str] = []  # files that have any


class EraseAnswer(AnswerBody):
    """What forgetting came to, or would come to. `complete`: nothing of it is still there."""

    purged: list[str]  # ids that were asked for
    derived: list[str]  # what was derived from them and went with them
    rederive: dict[str, list[str]] = {}  # those of `derived` that had other sources too, and these: derive them anew
    revived: list[str] = []  # what was hidden for the sake of something that went, and is shown again
    mended: list[str] = []  # what stays and no longer names what went
    places: list[SearchedPlace] = []
    candidates: list[Quotation] = []  # what stays and quotes it: `quoting` takes these along
    backups: list[str] = []  # copies of the store that hold it; of a dry run, those that may
    searched: ResidueSearch = msgspec.field(default_factory=ResidueSearch)
    complete: bool = True
    dry_run: bool = False
    seconds: float = 0.0


class EmptyTrashAnswer(AnswerBody):
    """DELETE /v1/trash. Without `confirm` nothing is done, and `dropped` is what would be."""

    dropped: int
    bytes: int  # of their texts
    dry_run: bool = False

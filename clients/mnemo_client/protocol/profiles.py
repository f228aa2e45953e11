"""The wire types of /v1 for profiles and compression. SPEC 9.6, 13"""

from typing import Annotated, Literal

from msgspec import Meta

from mnemo_client.protocol.choices import Trust
from mnemo_client.protocol.primitives import AnswerBody, RequestBody, ScopedRequest, ShortText, WriteAnswer

ENTRIES_PER_LIST_MAX = 100  # that one request writes
PROJECT_CHARACTERS_MAX = 24  # with `project:` before it, the name is a tag


class ProfileEntry(AnswerBody):
    """An entry of a profile: a memory, and the memories that it rests on."""

    id: str
    text: str
    evidence_ids: list[str]
    last_updated: int
    trust: Trust
    speaker: str | None = None
    namespace: str = "default"
    list: str | None = None  # of an entry in `others`: the name of its list
    author: str | None = None  # the same: `agent NAME`, `imported from TOOL` or `tool output`


class KnownStatement(AnswerBody):
    """A memory that holds now, as what it is about the user: `identity`, `instruction` (for every answer), `rule` (for
    some of them), `taste`, `constraint`, `goal`, `decision`, `blocker`, `next` or `lesson`. `author`: of what others
    wrote."""

    id: str
    role: str
    text: str
    at: int  # ms
    author: str | None = None
    perhaps_outdated: bool = False  # another memory perhaps says a newer value


class ProfileAnswer(AnswerBody):
    """GET /v1/profile: what is known about the user, the last changed first, and the names of the user's projects.

    The lists have what came from the person and their notes. `others` has the entries that others wrote, which are no
    instructions.
    """

    preferences: list[ProfileEntry]
    stable_facts: list[ProfileEntry]
    do_not_assume: list[ProfileEntry]
    projects: list[str]
    last_updated: int | None = None  # null: there is no entry
    namespace: str = "default"
    others: list[ProfileEntry] = []
    known: list[KnownStatement] = []  # what the memories say now; the lists are written by hand or lifted


class ProjectAnswer(AnswerBody):
    """GET /v1/projects/{name}: what is known about a project, the last changed first; `others` as of the profile."""

    project: str
    goals: list[ProfileEntry]
    blockers: list[ProfileEntry]
    next_steps: list[ProfileEntry]
    last_updated: int
    namespace: str = "default"
    others: list[ProfileEntry] = []


class NewProfileEntry(RequestBody):
    """An entry to write. With `id` it changes that one, which may stand in another list.

    No entry is without evidence: memories of the user, by their ids.
    """

    text: str
    evidence_ids: Annotated[list[str], Meta(min_length=1, max_length=64)]
    id: str | None = None


NewEntries = Annotated[list[NewProfileEntry], Meta(max_length=ENTRIES_PER_LIST_MAX)]


class ProfileUpdate(ScopedRequest):
    """PUT /v1/profile: entries to write, by their lists, and ids of entries to move to the trash; all or nothing.

    The last three lists are those of a `project`, and are given with it; the first three without.
    """

    preferences: NewEntries = []
    stable_facts: NewEntries = []
    do_not_assume: NewEntries = []
    goals: NewEntries = []
    blockers: NewEntries = []
    next_steps: NewEntries = []
    remove: Annotated[list[str], Meta(max_length=ENTRIES_PER_LIST_MAX)] = []
    project: Annotated[str, Meta(min_length=1, max_length=PROJECT_CHARACTERS_MAX)] | None = None
    agent_id: ShortText | None = None


class ProfileUpdateAnswer(WriteAnswer):
    """The ids of the entries in the order in which they were given, and of those that were removed; undo of the group
    takes the update back."""

    ids: list[str]
    removed: list[str]
    group: str
    namespace: str = "default"


class CompressRequest(ScopedRequest):
    """POST /v1/compress. `cutoff_hours`: null lifts nothing."""

    sessions: Annotated[
        Annotated[int, Meta(ge=0, le=100)] | None,
        Meta(description="summarize the N oldest; default: those beyond the threshold"),
    ] = None
    cutoff_hours: Annotated[
        Annotated[int, Meta(ge=0, le=876_000)] | None, Meta(description="lift memories stored longer ago")
    ] = 48
    dry_run: bool = False


class SummarizedSession(AnswerBody):
    """A session that was compressed. `id`: of the summary; null in a dry run."""

    session_id: str
    summary: str
    memories: list[str]  # the ids of those that the summary stands for
    method: Literal["llm", "rule"]
    id: str | None = None


class CompressAnswer(AnswerBody):
    """The numbers of the items that were lifted to profiles, of the projects among these, and of the entries of the
    user's profile; and the sessions that were summarized. Undo of the group takes all of it back."""

    compressed: int
    projects: int
    profile: int
    sessions: list[SummarizedSession]
    under_way: int  # sessions that are left alone until they end
    dry_run: bool = False
    group: str | None = None  # null: a dry run
    namespace: str = "default"

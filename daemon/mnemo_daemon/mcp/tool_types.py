"""The arguments of the tools, and the JSON schemas that agents see.

The schemas are generated from the structs, and the arguments of a call are validated against the same structs.
"""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mnemo_client.protocol import choices
from mnemo_client.protocol.primitives import QUESTION_CHARS_MAX

CONTENT_CHARS_MAX = 8192  # SPEC 2.1
RECALLED_DEFAULT = 8
RECALLED_CHARS_DEFAULT, RECALLED_CHARS_MAX = 1500, 50_000  # of the texts of a recall together
RECALLED_MAX = 50  # an agent that needs more should ask more precisely
CONTEXT_TOKENS_DEFAULT = 2000  # SPEC 7.1
CONTEXT_TOKENS_MAX = 20_000

Tag = Annotated[str, Meta(min_length=1, max_length=32)]
Tags = Annotated[list[Tag], Meta(max_length=20)]
Namespace = Annotated[
    str, Meta(min_length=1, max_length=64, description="A namespace other than this project's own; * reads all.")
]
OneNamespace = Annotated[
    str, Meta(min_length=1, max_length=64, description="A namespace other than this project's own.")
]
Bound = Annotated[
    str,
    Meta(min_length=2, max_length=80,
         description="A bound on when it happened: 2026-05-01, yesterday, last week, March 2024, 3 days ago, 2h."),
]  # fmt: skip
Evidence = Annotated[str, Meta(min_length=1, max_length=1024)]
EvidenceList = Annotated[list[Evidence], Meta(max_length=64, description="Paths, URLs or ids that support it.")]
Time = Annotated[
    str,
    Meta(min_length=2, max_length=80,
         description="When it happened: 2026-05-01, 2026-05-01T14:30, yesterday, last week, March 2024, 3 days ago."),
]  # fmt: skip
Content = Annotated[
    str,
    Meta(min_length=1, max_length=CONTENT_CHARS_MAX, description="One thing worth knowing, understandable on its own."),
]
Importance = Annotated[
    float, Meta(ge=0.0, le=1.0, description="How important it is: 0.5 is ordinary, 0.9 must not be missed.")
]
Id = Annotated[
    str, Meta(min_length=8, max_length=36, description="A memory's id, or at least 8 digits of its start or end.")
]
Kind = Annotated[
    choices.Kind,
    Meta(
        description="semantic: a fact; episodic: something that happened; procedural: how to do something, or a "
        "preference; working: about this session only. Default: derived from the text."
    ),
]
Category = Annotated[
    choices.Category,
    Meta(
        description="fact; preference: what somebody likes or wants done; project: a goal or state of one; decision: "
        "a choice and its reason; request: an open request; result: an outcome; crumb: small talk. "
        "Default: derived from the text."
    ),
]


class ToolArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    pass


class RecallArguments(ToolArguments):
    query: Annotated[
        str, Meta(min_length=1, max_length=QUESTION_CHARS_MAX, description="What you want to know, in plain words.")
    ]
    limit: (
        Annotated[
            int,
            Meta(ge=1, le=RECALLED_MAX,
                 description="The maximum number of memories; by default up to 20 where the question asks for a list.",
                 extra_json_schema={"default": RECALLED_DEFAULT}),
        ]
        | UnsetType
    ) = UNSET  # fmt: skip
    max_chars: (
        Annotated[
            int,
            Meta(ge=100, le=RECALLED_CHARS_MAX, description="The size of all texts; memory_get returns one in full.",
                 extra_json_schema={"default": RECALLED_CHARS_DEFAULT}),
        ]
        | UnsetType
    ) = UNSET  # fmt: skip
    tags: Annotated[Tags, Meta(description="Only memories with all of these tags.")] | UnsetType = UNSET
    since: Bound | UnsetType = UNSET
    until: Bound | UnsetType = UNSET
    namespace: Namespace | UnsetType = UNSET


class RememberArguments(ToolArguments):
    content: Content
    tags: Tags | UnsetType = UNSET
    kind: Kind | UnsetType = UNSET
    category: Category | UnsetType = UNSET
    importance: Importance | UnsetType = UNSET
    event_at: Time | UnsetType = UNSET
    key: (
        Annotated[
            str,
            Meta(min_length=1, max_length=256,
                 description="Your own name for it: the same key again replaces the text; absent fields stay."),
        ]
        | UnsetType
    ) = UNSET  # fmt: skip
    evidence: EvidenceList | UnsetType = UNSET
    namespace: OneNamespace | UnsetType = UNSET


class ListArguments(ToolArguments):
    limit: Annotated[int, Meta(ge=1, le=RECALLED_MAX, description="The maximum number of memories.")] = RECALLED_DEFAULT
    tags: Annotated[Tags, Meta(description="Only memories with all of these tags.")] | UnsetType = UNSET
    kind: choices.Kind | UnsetType = UNSET
    category: choices.Category | UnsetType = UNSET
    since: Bound | UnsetType = UNSET
    until: Bound | UnsetType = UNSET
    cursor: (
        Annotated[str, Meta(max_length=128, description="The cursor of the previous answer: returns the next page.")]
        | UnsetType
    ) = UNSET
    namespace: Namespace | UnsetType = UNSET


class UpdateArguments(ToolArguments):
    id: Id
    content: Annotated[Content, Meta(description="The new text, in full.")] | UnsetType = UNSET
    tags: Annotated[Tags, Meta(description="The complete new list of tags.")] | UnsetType = UNSET
    kind: choices.Kind | UnsetType = UNSET
    category: choices.Category | UnsetType = UNSET
    importance: Importance | UnsetType = UNSET
    event_at: Time | UnsetType = UNSET
    evidence: EvidenceList | UnsetType = UNSET
    if_version: (
        Annotated[int, Meta(ge=1, le=1_000_000_000, description="Change it only if this is still its version.")]
        | UnsetType
    ) = UNSET


class ContextArguments(ToolArguments):
    query: Annotated[
        str, Meta(min_length=1, max_length=QUESTION_CHARS_MAX, description="The prompt or the subject of the work.")
    ]
    token_budget: (
        Annotated[
            int,
            Meta(ge=50, le=CONTEXT_TOKENS_MAX, description="The size of the block.",
                 extra_json_schema={"default": CONTEXT_TOKENS_DEFAULT}),
        ]
        | UnsetType
    ) = UNSET  # fmt: skip
    tags: Annotated[Tags, Meta(description="Only memories with all of these tags.")] | UnsetType = UNSET
    namespace: Namespace | UnsetType = UNSET


class DeleteArguments(ToolArguments):
    id: Id
    why: (
        Annotated[str, Meta(min_length=1, max_length=256, description="The reason, for the user to read.")] | UnsetType
    ) = UNSET


class IdArguments(ToolArguments):
    id: Id


class ExplainArguments(ToolArguments):
    id: Id
    query: Annotated[
        str, Meta(min_length=1, max_length=QUESTION_CHARS_MAX, description="The query of the memory_recall to explain.")
    ]
    namespace: Namespace | UnsetType = UNSET


class ResumeArguments(ToolArguments):
    task: (
        Annotated[
            str,
            Meta(max_length=QUESTION_CHARS_MAX, description="The task of the session; relevant memories come first."),
        ]
        | UnsetType
    ) = UNSET
    namespace: Namespace | UnsetType = UNSET


class TopicsArguments(ToolArguments):
    namespace: Namespace | UnsetType = UNSET


class AskArguments(ToolArguments):
    question: Annotated[
        str, Meta(min_length=1, max_length=QUESTION_CHARS_MAX, description="One question, in plain words.")
    ]
    since: Bound | UnsetType = UNSET
    until: Bound | UnsetType = UNSET
    namespace: Namespace | UnsetType = UNSET


class SearchArguments(ToolArguments):
    query: Annotated[str, Meta(min_length=1, max_length=QUESTION_CHARS_MAX, description="The words to look for.")]
    limit: Annotated[int, Meta(ge=1, le=RECALLED_MAX, description="The maximum number of memories.")] = RECALLED_DEFAULT
    tags: Annotated[Tags, Meta(description="Only memories with all of these tags.")] | UnsetType = UNSET
    namespace: Namespace | UnsetType = UNSET


class TriggersArguments(ToolArguments):
    action: Annotated[str, Meta(min_length=1, max_length=24, description="The action: deploy, push, delete, …")]
    limit: Annotated[int, Meta(ge=1, le=RECALLED_MAX, description="The maximum number of memories.")] = RECALLED_DEFAULT
    namespace: Namespace | UnsetType = UNSET


class FactsArguments(ToolArguments):
    entity: Annotated[str, Meta(min_length=1, max_length=512, description="Name of the person, thing or place.")]
    limit: Annotated[int, Meta(ge=1, le=100, description="The maximum number of facts.")] = 20
    namespace: Namespace | UnsetType = UNSET


class StepArguments(ToolArguments):
    run: Annotated[str, Meta(min_length=1, max_length=64, description="Your name for the task, the same in each step.")]
    step_number: Annotated[int, Meta(ge=0, le=1_000_000, description="The place of the step in the run.")]
    action: Annotated[str, Meta(min_length=1, max_length=1000, description="What you did.")]
    outcome: Annotated[str, Meta(max_length=3000, description="What came of it.")] | UnsetType = UNSET
    key_findings: Annotated[str, Meta(max_length=2000, description="What you found out.")] | UnsetType = UNSET
    task_objective: Annotated[str, Meta(max_length=1000, description="The goal of the task.")] | UnsetType = UNSET
    namespace: OneNamespace | UnsetType = UNSET


def schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the type's JSON schema with every reference resolved: some agents do not follow references."""
    (_,), parts = msgspec.json.schema_components([kind])
    written: dict[str, Any] = _without_references(parts[kind.__name__], parts)
    written.pop("title", None)  # the name of a Python class
    return written


def _without_references(value: Any, parts: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_without_references(each, parts) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return _without_references(parts[value["$ref"].rsplit("/", 1)[-1]], parts)
    return {name: _without_references(each, parts) for name, each in value.items()}

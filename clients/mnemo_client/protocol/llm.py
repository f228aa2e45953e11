"""Wire types of the use of the language model. SPEC 12.2, 13"""

from mnemo_client.protocol.primitives import AnswerBody


class LlmUsage(AnswerBody):
    """The calls of one task with one model: how many, what they came to, and their sums of tokens and time.

    Outcomes: `answered` (used), `rejected` by the validation, `unusable` (not of the form), `late`, `cancelled`,
    `too_long`, `failed`. Rejections, by kind: the answer has a value that its sources lack (`unsupported name`), they
    have one that it lacks (`lost number`), or `other`.
    """

    site: str
    model: str
    calls: int = 0
    outcomes: dict[str, int] = {}
    rejections: dict[str, int] = {}
    tokens_in: int = 0
    tokens_out: int = 0
    milliseconds: int = 0
    last_at: int = 0


class LlmUsageAnswer(AnswerBody):
    since: int
    usage: list[LlmUsage]

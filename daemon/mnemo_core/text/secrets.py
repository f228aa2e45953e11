"""Search for secrets of known patterns, and their masks. SPEC 5.1

A secret is found wherever it stands, also right next to Chinese or Japanese text: it ends where no ASCII letter or
digit follows, never at a `\\b`, for which an ideograph is a letter. It is better to miss a doubtful one than to tag
half of someone's notes: what looks like a placeholder, a variable or a call is not a secret.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple, cast

from mnemo_core.text import lexicon
from mnemo_core.text.lazy_patterns import lazy_pattern

SecretKind = Literal[
    "private_key", "aws_key", "github_token", "gitlab_token", "slack_token", "google_key", "stripe_key", "api_key",
    "jwt", "url_password", "bearer_token", "password",
]  # fmt: skip

SENSITIVE_TAG = "sensitive"  # the tag of a memory that holds a secret; agents do not see such a memory. SPEC 5.1
DISTINCT_CHARS_MIN = 8  # in a random token of 20 characters there are more
SECRET_DIGITS_MIN = 6  # MAX_TOKENS=4096 is no secret, PIN codes of a .env are longer
FINGERPRINT_CHARS = 8  # hex digits: enough to tell one person's secrets apart, far too few to search for the secret


class SecretSpan(NamedTuple):
    """Place of a secret in a text: characters start (inclusive) to end (exclusive)."""

    kind: SecretKind
    start: int
    end: int


def _is_mixed(secret: str) -> bool:
    """A random token has digits and both cases; `sk-some-words-in-a-name` has not."""
    return any(c.isdigit() for c in secret) and any(c.isupper() for c in secret) and any(c.islower() for c in secret)


def _is_varied(secret: str) -> bool:
    """`ghp_xxxxxxxx` is drawn, not made: a random token of some length has many different characters."""
    return len(set(secret)) >= DISTINCT_CHARS_MIN


_PLACEHOLDER = lazy_pattern(
    r"""[<\[{(*$%].*|.*(?:\$\{|\{\{|\(|\)|\[|\]|<|>|\.\.\.|…).*|[xX*.•_-]+|(?:your|my|change|insert|enter|some|the)[_-].*|.*[_-]your[_-].*
    |none|null|nil|true|false|undefined|required|optional|hidden|redacted|masked|secret|password|passwd|pass|pwd|token|changeme
    |example.*|placeholder.*|todo|tbd|str|string|int|env|[a-z_]+\.[A-Z_]+|os\.\w.*|process\.env.*|self\.\w.*|config\.\w.*|settings\.\w.*""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


def is_no_placeholder(secret: str) -> bool:
    return _PLACEHOLDER.fullmatch(secret) is None


def _is_passwordlike(secret: str) -> bool:
    """In prose (`password: …`) only what is no plain word counts."""
    return (
        is_no_placeholder(secret)
        and any(c.isdigit() for c in secret)
        and any(not c.isdigit() and c not in "-/:.," for c in secret)
    )


# What a password is said to need is no password: 8-stellig, 12-digit, 90days.
_MEASURE = lazy_pattern(r"[0-9]+(?:st|nd|rd|th)?-?[a-zA-Z]*[.,;:!?)]*")


def _is_strong(secret: str) -> bool:
    """Behind a bare `is`, only what looks made up: a figure and a letter, and no measure."""
    return (
        is_no_placeholder(secret)
        and any(c.isdigit() for c in secret)
        and any(c.isalpha() for c in secret)
        and _MEASURE.fullmatch(secret) is None
    )


def _is_password_at_sight(secret: str) -> bool:
    has_symbol = any(not c.isalnum() and c != "-" for c in secret.rstrip(".,;:!?)"))
    return _is_strong(secret) and _is_mixed(secret) and has_symbol and not secret.startswith(("-", "/", "http"))


def _is_no_measure(secret: str) -> bool:
    """Return whether a value of a `.env` line may be a secret: no small number, no path, no address without a
    password."""
    is_number = secret.isdigit() and len(secret) < SECRET_DIGITS_MIN
    return (
        not is_number
        and not secret.startswith(("/", "~/", "./", "../", "http://", "https://"))
        and is_no_placeholder(secret)
    )


class _SecretPattern(NamedTuple):
    kind: SecretKind
    marks: tuple[str, ...]  # what the pattern begins with: found by str.find, which is far cheaper than a pattern
    pattern: re.Pattern[str]  # matched at each mark; its group "secret" is the span
    holds: Callable[[str], bool]
    ignores_case: bool  # the marks are lower-case then
    backs: tuple[int, ...]  # how many characters before its mark the pattern may begin


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "any": bool,
    "varied": _is_varied,
    "mixed": _is_mixed,
    "random": lambda secret: _is_varied(secret) and any(map(str.isdigit, secret)) and any(map(str.isalpha, secret)),
    "both_cases": lambda secret: _is_varied(secret) and secret.lower() != secret != secret.upper(),
    "no_example": lambda secret: "EXAMPLE" not in secret.upper(),
    "no_placeholder": is_no_placeholder,
    "passwordlike": _is_passwordlike,
    "strong": _is_strong,
    "at_sight": _is_password_at_sight,
}


def _pattern(row: str) -> _SecretPattern:
    written, check, marks, source = row.split(" · ", 3)
    kind, *backs = written.split()
    if "(?P<secret>" not in source:
        source = rf"(?<![A-Za-z0-9_])(?P<secret>{source})(?![A-Za-z0-9])"
    return _SecretPattern(
        cast("SecretKind", kind), tuple(marks.replace("␣", " ").split(", ")), lazy_pattern(source), _CHECKS[check],
        ignores_case=source.startswith("(?i)"), backs=tuple(map(int, backs)) or (0,),
    )  # fmt: skip


_SPOKEN = lexicon.lines("secrets", "spoken")[0]
_ROWS = lexicon.patterns("secrets", "patterns", SPOKEN=_SPOKEN, SPOKEN_ANY=_SPOKEN.replace(", ", "|"))
_PATTERNS = tuple(map(_pattern, _ROWS))

# A line of a `.env` file: the upper-case name and the assignment are proof enough for any value.
_ASSIGNED_MARKS = (
    "PASSWORD", "PASSWD", "PASSPHRASE", "_PASS", "SECRET", "TOKEN", "API_KEY", "APIKEY", "ACCESS_KEY", "PRIVATE_KEY",
    "CREDENTIAL",
)  # fmt: skip
# What may follow the mark in the name: of PASSWORD_FILE, TOKEN_URL and TOKEN_LIMIT the value is no secret.
_ASSIGNED_END = "_KEY_BASE|_KEY|_BASE|_VALUE|_PROD|_PRODUCTION|_DEV|_STAGING|_TEST|_LIVE|_OLD|_NEW|_[0-9]{1,2}|S"
_ASSIGNED = lazy_pattern(
    rf"[ \t>]{{0,16}}(?:(?:export |set "
    rf"|ENV )?[A-Z0-9_]{{0,64}}(?:{'|'.join(_ASSIGNED_MARKS)})(?:{_ASSIGNED_END})?[ ]?[=:][ ]?"
    rf"|ENV [A-Z0-9_]{{0,64}}(?:{'|'.join(_ASSIGNED_MARKS)})(?:{_ASSIGNED_END})? )"
    r"(?P<quote>[\"'`]?)(?P<secret>[^\s\"'`]{4,512})(?P=quote)[ \t;,]{0,4}(?:#.*)?"
)
_ASSIGNED_LINE_CHARS_MAX = 1024

_KEY_BEGIN = lazy_pattern(r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
# A key that is only spoken of, or drawn: no line below it, or dots and brackets, and nowhere what looks like one.
_KEY_BODY = lazy_pattern(r"[A-Za-z0-9+/=]{16}")
_KEY_DRAWN = lazy_pattern(r"[ \t]+\S|.*(?:\.\.\.|…|[(<\[])", re.DOTALL)
_KEY_END = lazy_pattern(r"-----END (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----")


def find_secrets(text: str) -> list[SecretSpan]:
    """The secrets in the text, in order, none overlapping. Linear in the length of the text."""
    folded = text.lower()
    if len(folded) != len(text):  # a few letters grow when lower-cased, which would shift every place behind them
        folded = "".join(lower if len(lower := c.lower()) == 1 else c for c in text)
    taken = list(_private_keys(text))
    for pattern in _PATTERNS:
        taken = _without_overlaps(taken, _found_by(pattern, text, folded if pattern.ignores_case else text))
    return _without_overlaps(taken, _assigned(text))


_MASK = lazy_pattern(rf"\[masked:[a-z_]{{2,20}}:[0-9a-f]{{{FINGERPRINT_CHARS}}}\]")


def remove_masks(text: str) -> str:
    """The text without its masks."""
    return _MASK.sub("", text) if "[masked:" in text else text


def mask_secrets(text: str, key: bytes) -> tuple[str, tuple[SecretKind, ...]]:
    """The text with each secret replaced by `[masked:KIND:FINGERPRINT]`, and the kinds in order of first appearance.

    Equal secrets get equal fingerprints under one key; without the key a fingerprint tells nothing. Masking a masked
    text changes nothing.
    """
    pieces: list[str] = []
    kinds: dict[SecretKind, None] = {}
    start = 0
    for span in find_secrets(text):
        pieces += (text[start : span.start], f"[masked:{span.kind}:{_fingerprint(text[span.start : span.end], key)}]")
        kinds[span.kind] = None
        start = span.end
    return "".join((*pieces, text[start:])), tuple(kinds)


def _fingerprint(secret: str, key: bytes) -> str:
    keyed = hashlib.blake2b(secret.encode(), key=hashlib.blake2b(key, digest_size=32).digest())
    return keyed.hexdigest()[:FINGERPRINT_CHARS]


def _private_keys(text: str) -> Iterator[SecretSpan]:
    """From BEGIN to END; without an END, to the next blank line or the end of the text."""
    if "PRIVATE KEY" not in text:
        return
    done = 0
    for begin in _KEY_BEGIN.finditer(text):
        if begin.start() < done:
            continue
        end = _KEY_END.search(text, begin.end())
        if end is not None:
            done = end.end()
        else:
            blank = text.find("\n\n", begin.end())
            done = blank if blank >= 0 else len(text)
        body = text[begin.end() : end.start() if end is not None else done]
        if _KEY_BODY.search(body) is not None or _KEY_DRAWN.match(body) is None:
            yield SecretSpan("private_key", begin.start(), done)


def _found_by(row: _SecretPattern, text: str, searched: str) -> list[SecretSpan]:
    found: list[SecretSpan] = []
    done = 0
    for place in _places(searched, row.marks):
        for back in row.backs:
            if place - back < done:
                continue
            match = row.pattern.match(text, place - back)
            if match is not None:
                done = match.end()
                if row.holds(match["secret"]):
                    found.append(SecretSpan(row.kind, *match.span("secret")))
                break
    return found


def _assigned(text: str) -> list[SecretSpan]:
    found: list[SecretSpan] = []
    done = 0
    for place in _places(text, _ASSIGNED_MARKS):
        if place < done:
            continue
        start = text.rfind("\n", 0, place) + 1
        end = text.find("\n", place)
        done = end if end >= 0 else len(text)
        if done - start > _ASSIGNED_LINE_CHARS_MAX:
            continue
        match = _ASSIGNED.fullmatch(text, start, done)
        if match is not None and _is_no_measure(match["secret"]):
            found.append(SecretSpan("password", *match.span("secret")))
    return found


def _places(text: str, marks: tuple[str, ...]) -> list[int]:
    """Places where any of the marks begins, in order."""
    places: list[int] = []
    for mark in marks:
        place = text.find(mark)
        while place >= 0:
            places.append(place)
            place = text.find(mark, place + len(mark))
    return sorted(places) if len(marks) > 1 else places


def _without_overlaps(taken: list[SecretSpan], found: list[SecretSpan]) -> list[SecretSpan]:
    """Both lists as one in order, but for what of `found` touches something of `taken`. Both are in order."""
    if not found:
        return taken
    merged: list[SecretSpan] = []
    index = 0
    for span in found:
        while index < len(taken) and taken[index].end <= span.start:
            merged.append(taken[index])
            index += 1
        if index == len(taken) or taken[index].start >= span.end:
            merged.append(span)
    return merged + taken[index:]

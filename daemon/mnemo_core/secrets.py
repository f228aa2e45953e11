"""Finding secrets of known shapes, and masking them. SPEC 5.1

A shape is found wherever it stands, also right beside Chinese or Japanese text: its ends are told by what is not an
ASCII letter or digit, never by `\\b`, for which an ideograph is a letter. Better to miss a doubtful one than to tag
half of someone's notes: what looks like a placeholder, a variable or a call is not a secret.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

Kind = Literal[
    "private_key", "aws_key", "github_token", "gitlab_token", "slack_token", "google_key", "stripe_key", "api_key",
    "jwt", "url_password", "bearer_token", "password",
]  # fmt: skip

FINGERPRINT_CHARS = 8  # hex digits: enough to tell one person's secrets apart, far too few to search for the secret


class Span(NamedTuple):
    """Where in a text a secret stands: characters start (inclusive) to end (exclusive)."""

    kind: Kind
    start: int
    end: int


class _Shape(NamedTuple):
    kind: Kind
    marks: tuple[str, ...]  # what the pattern begins with: found by str.find, which is far cheaper than a pattern
    pattern: re.Pattern[str]  # matched at each mark; its group "secret" is the span
    holds: Callable[[str], bool] = lambda secret: True
    folded: bool = False  # the marks are lower-case and found in any case


def _is_mixed(secret: str) -> bool:
    """A random token has digits and both cases; `sk-some-words-in-a-name` has not."""
    return any(c.isdigit() for c in secret) and any(c.isupper() for c in secret) and any(c.islower() for c in secret)


def _is_no_example(secret: str) -> bool:
    return "EXAMPLE" not in secret.upper()


_PLACEHOLDER = re.compile(
    r"""[<\[{(*$%].*|.*(?:\$\{|\{\{|\(|\)|\[|\]|<|>|\.\.\.|…).*|[xX*.•_-]+|(?:your|my|change|insert|enter|some|the)[_-].*
    |none|null|nil|true|false|undefined|required|optional|hidden|redacted|masked|secret|password|passwd|token|changeme
    |example.*|placeholder.*|todo|tbd|str|string|int|env|os\.\w.*|process\.env.*|self\.\w.*|config\.\w.*|settings\.\w.*""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


def _is_no_placeholder(secret: str) -> bool:
    return _PLACEHOLDER.fullmatch(secret) is None


def _is_passwordlike(secret: str) -> bool:
    """In prose (`password: …`) only what is no plain word counts."""
    return (
        _is_no_placeholder(secret)
        and any(c.isdigit() for c in secret)
        and any(not c.isdigit() and c not in "-/:.," for c in secret)
    )


def _token(pattern: str) -> re.Pattern[str]:
    """Write quantifiers possessive (`{20,255}+`): giving characters back could never make a token end well."""
    return re.compile(rf"(?<![A-Za-z0-9_])(?P<secret>{pattern})(?![A-Za-z0-9])")


_SPOKEN = (
    "password", "passwort", "passwd", "passphrase", "pwd", "contraseña", "mot de passe", "senha", "api key", "api_key",
    "api-key", "apikey", "secret", "token", "密码", "密碼", "口令", "暗号", "パスワード", "비밀번호", "密钥", "令牌",
)  # fmt: skip

# Earlier shapes win over later ones where they overlap, so the telling kinds come first.
_SHAPES: tuple[_Shape, ...] = (
    _Shape("aws_key", ("AKIA", "ASIA"), _token(r"(?:AKIA|ASIA)[A-Z0-9]{16}"), _is_no_example),
    _Shape(
        "aws_key",
        ("aws_secret", "secretaccesskey"),
        re.compile(
            r"(?:aws_secret(?:_access)?_key|secretaccesskey)[\"' ]{0,3}[=:][\"' ]{0,3}"
            r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
            re.IGNORECASE,
        ),
        _is_no_example,
        folded=True,
    ),
    _Shape("github_token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _token(r"gh[pousr]_[A-Za-z0-9]{36,255}+")),
    _Shape("github_token", ("github_pat_",), _token(r"github_pat_[A-Za-z0-9_]{22,255}+")),
    _Shape("gitlab_token", ("glpat-",), _token(r"glpat-[A-Za-z0-9_-]{20,255}+")),
    _Shape("slack_token", ("xox",), _token(r"xox[abeoprs]-[A-Za-z0-9-]{10,255}+")),
    _Shape(
        "slack_token",
        ("hooks.slack.com/services/",),
        re.compile(r"hooks\.slack\.com/services/(?P<secret>T[A-Z0-9]{6,14}/B[A-Z0-9]{6,14}/[A-Za-z0-9]{16,48})"),
    ),
    _Shape("google_key", ("AIza",), _token(r"AIza[0-9A-Za-z_-]{35}")),
    _Shape("google_key", ("ya29.",), _token(r"ya29\.[0-9A-Za-z_-]{20,512}+")),
    _Shape(
        "stripe_key",
        ("sk_live_", "rk_live_", "sk_test_", "rk_test_"),
        _token(r"[rs]k_(?:live|test)_[0-9A-Za-z]{16,255}+"),
    ),
    _Shape("api_key", ("sk-",), _token(r"sk-[A-Za-z0-9_-]{20,255}+"), _is_mixed),
    _Shape("api_key", ("npm_",), _token(r"npm_[A-Za-z0-9]{36}")),
    _Shape("api_key", ("pypi-AgE",), _token(r"pypi-AgE[A-Za-z0-9_-]{50,512}+")),
    _Shape("api_key", ("hf_",), _token(r"hf_[A-Za-z0-9]{30,64}+"), _is_mixed),
    _Shape("api_key", ("SG.",), _token(r"SG\.[A-Za-z0-9_-]{16,32}+\.[A-Za-z0-9_-]{16,64}+")),
    _Shape("api_key", ("dop_v1_",), _token(r"dop_v1_[a-f0-9]{64}")),
    _Shape("private_key", ("AGE-SECRET-KEY-1",), _token(r"AGE-SECRET-KEY-1[A-Z0-9]{58}")),
    _Shape("jwt", ("eyJ",), _token(r"eyJ[A-Za-z0-9_-]{10,4096}+\.eyJ[A-Za-z0-9_-]{10,4096}+\.[A-Za-z0-9_-]{10,4096}+")),
    _Shape(
        "url_password",
        ("://",),
        re.compile(r"://[^\s/:@\"'<>]{0,64}:(?P<secret>[^\s/:@\"'<>]{1,128})@[A-Za-z0-9\[]"),
        _is_no_placeholder,
    ),
    _Shape(
        "bearer_token",
        ("bearer ",),
        re.compile(r"(?<![A-Za-z0-9])bearer (?P<secret>[A-Za-z0-9._~+/=-]{20,4096})", re.IGNORECASE),
        _is_mixed,
        folded=True,
    ),
    _Shape(
        "password",
        _SPOKEN,
        re.compile(
            rf"(?:(?<![A-Za-z0-9:/])|(?=[^\x00-\x7f]))(?:{'|'.join(_SPOKEN)})"
            r"[*_\"'`]{0,3}[ ]?(?:=|:|：|是|は)[*_]{0,2}[ ]?"
            r"[\"'`]?(?P<secret>[!#-&(-_a-~]{5,127}[#-&*+\-/0-9<-_a-~!])",
            re.IGNORECASE,
        ),
        _is_passwordlike,
        folded=True,
    ),
)

# A line of a `.env` file: the upper-case name and the assignment are proof enough for any value.
_ASSIGNED_MARKS = (
    "PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "TOKEN", "API_KEY", "APIKEY", "ACCESS_KEY", "PRIVATE_KEY",
    "CREDENTIAL",
)  # fmt: skip
_ASSIGNED = re.compile(
    rf"[ \t>]{{0,16}}(?:export |set |ENV )?[A-Z0-9_]{{0,64}}(?:{'|'.join(_ASSIGNED_MARKS)})(?:_[A-Z0-9_]{{1,32}}|S)?"
    r"[ ]?[=:][ ]?(?P<quote>[\"'`]?)(?P<secret>[^\s\"'`]{4,512})(?P=quote)[ \t;,]{0,4}(?:#.*)?"
)
_ASSIGNED_LINE_CHARS_MAX = 1024

_KEY_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----")


def find(text: str) -> list[Span]:
    """The secrets in the text, in order, none overlapping. Linear in the length of the text."""
    folded = text.lower()
    if len(folded) != len(text):  # a few letters grow when lower-cased, which would shift every place behind them
        folded = "".join(lower if len(lower := c.lower()) == 1 else c for c in text)
    taken = list(_private_keys(text))
    for shape in _SHAPES:
        taken = _without_overlaps(taken, _of_shape(shape, text, folded if shape.folded else text))
    return _without_overlaps(taken, _assigned(text))


def mask(text: str, key: bytes) -> tuple[str, tuple[Kind, ...]]:
    """The text with each secret replaced by `[masked:KIND:FINGERPRINT]`, and the kinds in order of first appearance.

    Equal secrets get equal fingerprints under one key; without the key a fingerprint tells nothing. Masking a masked
    text changes nothing.
    """
    pieces: list[str] = []
    kinds: dict[Kind, None] = {}
    start = 0
    for span in find(text):
        pieces += (text[start : span.start], f"[masked:{span.kind}:{_fingerprint(text[span.start : span.end], key)}]")
        kinds[span.kind] = None
        start = span.end
    return "".join((*pieces, text[start:])), tuple(kinds)


def _fingerprint(secret: str, key: bytes) -> str:
    keyed = hashlib.blake2b(secret.encode(), key=hashlib.blake2b(key, digest_size=32).digest())
    return keyed.hexdigest()[:FINGERPRINT_CHARS]


def _private_keys(text: str) -> Iterator[Span]:
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
        yield Span("private_key", begin.start(), done)


def _of_shape(shape: _Shape, text: str, searched: str) -> list[Span]:
    found: list[Span] = []
    done = 0
    for place in _places(searched, shape.marks):
        if place < done:
            continue
        match = shape.pattern.match(text, place)
        if match is not None:
            done = match.end()
            if shape.holds(match["secret"]):
                found.append(Span(shape.kind, *match.span("secret")))
    return found


def _assigned(text: str) -> list[Span]:
    found: list[Span] = []
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
        if match is not None and _is_no_placeholder(match["secret"]):
            found.append(Span("password", *match.span("secret")))
    return found


def _places(text: str, marks: tuple[str, ...]) -> list[int]:
    """Where any of the marks begins, in order."""
    places: list[int] = []
    for mark in marks:
        place = text.find(mark)
        while place >= 0:
            places.append(place)
            place = text.find(mark, place + len(mark))
    return sorted(places) if len(marks) > 1 else places


def _without_overlaps(taken: list[Span], found: list[Span]) -> list[Span]:
    """Both lists as one in order, but for what of `found` touches something of `taken`. Both are in order."""
    if not found:
        return taken
    merged: list[Span] = []
    index = 0
    for span in found:
        while index < len(taken) and taken[index].end <= span.start:
            merged.append(taken[index])
            index += 1
        if index == len(taken) or taken[index].start >= span.end:
            merged.append(span)
    return merged + taken[index:]

"""Search for secrets of known patterns, and their masks. SPEC 5.1

A secret is found wherever it stands, also right next to Chinese or Japanese text: it ends where no ASCII letter or
digit follows, never at a `\\b`, for which an ideograph is a letter. It is better to miss a doubtful one than to tag
half of someone's notes: what looks like a placeholder, a variable or a call is not a secret.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

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


def _is_random(secret: str) -> bool:
    return _is_varied(secret) and any(c.isdigit() for c in secret) and any(c.isalpha() for c in secret)


def _has_both_cases(secret: str) -> bool:
    return _is_varied(secret) and secret.lower() != secret != secret.upper()


def _is_no_example(secret: str) -> bool:
    return "EXAMPLE" not in secret.upper()


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


def _pattern(
    kind: SecretKind, marks: tuple[str, ...], source: str, holds: Callable[[str], bool] = bool, *backs: int
) -> _SecretPattern:
    """A row of the table. A source without the group "secret" is a token: no letter or digit stands next to it.

    Write quantifiers of tokens possessive (`{20,255}+`): giving characters back could never make one end well.
    """
    if "(?P<secret>" not in source:
        source = rf"(?<![A-Za-z0-9_])(?P<secret>{source})(?![A-Za-z0-9])"
    return _SecretPattern(kind, marks, lazy_pattern(source), holds, source.startswith("(?i)"), backs or (0,))


_SPOKEN = (
    "password", "passwort", "kennwort", "passwd", "passphrase", "pwd", "contraseña", "mot de passe", "senha", "api key",
    "api_key", "api-key", "apikey", "secret", "token", "pass", "pw",
    "密码", "密碼", "口令", "暗号", "パスワード", "비밀번호", "密钥", "令牌",
)  # fmt: skip
_SPOKEN_WORD = rf"(?:(?<![A-Za-z0-9:/])|(?=[^\x00-\x7f]))(?:{'|'.join(_SPOKEN)})"
_SPOKEN_SECRET = r"[\"'`“「『]?(?P<secret>[!#-&(-_a-~]{5,127}[#-&*+\-/0-9<-_a-~!])"

# Earlier patterns win over later ones where they overlap, so the telling kinds come first.
_PATTERNS: tuple[_SecretPattern, ...] = (
    _pattern("aws_key", ("AKIA", "ASIA"), r"(?:AKIA|ASIA)[A-Z0-9]{16}", _is_no_example),
    _pattern("aws_key", ("aws_secret", "secretaccesskey"),
             r"(?i)(?:aws_secret(?:_access)?_key|secretaccesskey)(?:[\"' ]{0,3}[=:][\"' ]{0,3}| )"
             r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])", _is_no_example),
    _pattern("github_token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{36,255}+", _is_varied),
    _pattern("github_token", ("github_pat_",), r"github_pat_[A-Za-z0-9_]{22,255}+", _is_varied),
    _pattern("gitlab_token", ("glpat-", "glrt-", "gldt-", "glptt-", "glcbt-", "gloas-", "glft-"),
             r"gl[a-z]{2,4}-[A-Za-z0-9_-]{20,255}+", _is_varied),
    _pattern("slack_token", ("xox",), r"xox[abeoprs]-[A-Za-z0-9-]{10,255}+", _is_random),
    _pattern("slack_token", ("xapp-",), r"xapp-[0-9]-[A-Za-z0-9-]{20,255}+", _is_random),
    _pattern("google_key", ("AIza",), r"AIza[0-9A-Za-z_-]{35}", _is_varied),
    _pattern("google_key", ("ya29.",), r"ya29\.[0-9A-Za-z_-]{20,512}+", _is_varied),
    _pattern("google_key", ("GOCSPX-",), r"GOCSPX-[0-9A-Za-z_-]{28}", _is_varied),
    _pattern("google_key", ("1//0",), r"1//0[0-9A-Za-z_-]{40,200}+", _is_mixed),
    _pattern("stripe_key", ("sk_live_", "rk_live_", "sk_test_", "rk_test_"),
             r"[rs]k_(?:live|test)_[0-9A-Za-z]{16,255}+", _is_varied),
    _pattern("stripe_key", ("whsec_",), r"whsec_[0-9A-Za-z+/]{24,128}+=?", _is_mixed),
    _pattern("api_key", ("sk-",), r"sk-[A-Za-z0-9_-]{20,255}+", _is_mixed),
    _pattern("api_key", ("npm_",), r"npm_[A-Za-z0-9]{36}", _is_mixed),
    _pattern("api_key", ("pypi-AgE",), r"pypi-AgE[A-Za-z0-9_-]{50,512}+", _is_varied),
    _pattern("api_key", ("hf_",), r"hf_[A-Za-z0-9]{30,64}+", _has_both_cases),
    _pattern("api_key", ("SG.",), r"SG\.[A-Za-z0-9_-]{16,32}+\.[A-Za-z0-9_-]{16,64}+", _is_varied),
    _pattern("api_key", ("dop_v1_", "doo_v1_", "dor_v1_"), r"do[por]_v1_[a-f0-9]{64}", _is_varied),
    _pattern("api_key", ("shpat_", "shpss_", "shpca_", "shppa_"), r"shp(?:at|ss|ca|pa)_[a-f0-9]{32}", _is_varied),
    _pattern("api_key", ("sq0",), r"sq0(?:csp|atp|idp)-[A-Za-z0-9_-]{22,43}+", _is_varied),
    _pattern("api_key", ("EAAA",), r"EAAA[A-Za-z0-9_-]{56,200}+", _is_mixed),
    _pattern("api_key", ("dckr_pat_",), r"dckr_pat_[A-Za-z0-9_-]{27,36}+", _is_varied),
    _pattern("api_key", ("lin_api_",), r"lin_api_[A-Za-z0-9]{40}", _is_varied),
    _pattern("api_key", ("secret_",), r"secret_[A-Za-z0-9]{43}", _is_mixed),
    _pattern("api_key", ("ntn_",), r"ntn_[A-Za-z0-9]{43,50}+", _is_mixed),
    _pattern("api_key", ("figd_",), r"figd_[A-Za-z0-9_-]{40,64}+", _is_mixed),
    _pattern("api_key", ("pat",), r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}", _is_varied),
    _pattern("api_key", ("hvs.", "hvb."), r"hv[sb]\.[A-Za-z0-9_-]{24,255}+", _is_mixed),
    _pattern("api_key", ("tskey-",), r"tskey-[a-z]+-[A-Za-z0-9]{8,40}-[A-Za-z0-9]{20,64}+", _is_mixed),
    _pattern("api_key", ("gsk_",), r"gsk_[A-Za-z0-9]{48,64}+", _is_mixed),
    _pattern("api_key", ("xai-",), r"xai-[A-Za-z0-9]{70,100}+", _is_mixed),
    _pattern("api_key", ("r8_",), r"r8_[A-Za-z0-9]{37,40}+", _is_mixed),
    _pattern("api_key", ("glsa_",), r"glsa_[A-Za-z0-9]{32}_[a-f0-9]{8}", _is_varied),
    _pattern("api_key", ("sntry",), r"sntry[su]_[A-Za-z0-9_=+/-]{40,300}+", _is_mixed),
    _pattern("api_key", ("PMAK-",), r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}", _is_varied),
    _pattern("api_key", ("rubygems_",), r"rubygems_[a-f0-9]{48}", _is_varied),
    _pattern("api_key", ("AKCp",), r"AKCp[A-Za-z0-9]{60,80}+", _is_mixed),
    _pattern("api_key", ("v2.local.", "v3.local.", "v4.local."), r"v[234]\.local\.[A-Za-z0-9_-]{40,2048}+", _is_mixed),
    _pattern("api_key", ("ATATT3", "ATCTT3"), r"AT[AC]TT3[A-Za-z0-9_=-]{60,300}+", _is_mixed),
    _pattern("api_key", ("pplx-",), r"pplx-[A-Za-z0-9]{40,64}+", _is_mixed),
    _pattern("api_key", ("v1.0-",), r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}", _is_varied),
    _pattern("api_key", ("SK",), r"SK[a-f0-9]{32}", _is_varied),
    _pattern("api_key", ("key-",), r"key-[a-f0-9]{32}", _is_varied),
    _pattern("private_key", ("AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1[A-Z0-9]{58}", _is_varied),
    _pattern("slack_token", ("hooks.slack.com/services/",),
             r"hooks\.slack\.com/services/(?P<secret>T[A-Z0-9]{6,14}/B[A-Z0-9]{6,14}/[A-Za-z0-9]{16,48})"),
    _pattern("private_key", ("PuTTY-User-Key-File-",),
             r"(?P<secret>PuTTY-User-Key-File-[0-9][^\n]{0,200}\n"
             r"(?:[^\n]{0,200}\n){0,80}?Private-MAC: [0-9a-f]{16,64})"),
    # A bot of Telegram: its number, and thirty-odd letters.
    _pattern("api_key", (":AA",), r"(?<![0-9])(?P<secret>[0-9]{8,10}:AA[A-Za-z0-9_-]{32,33}+)", _is_mixed, 8, 9, 10),
    # Of Discord: its number in base64, which begins so for every figure.
    _pattern("api_key", ("MD", "MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"),
             r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}+", _is_mixed),
    _pattern("api_key", ("/api/webhooks/",),
             r"/api/webhooks/(?P<secret>[0-9]{17,20}/[A-Za-z0-9_-]{60,80}+)", _is_varied),
    _pattern("api_key", ("-us",), r"[a-f0-9]{32}-us[0-9]{1,2}", _is_varied, 32),  # Mailchimp
    # Azure: a client's secret, the keys of accounts and buses, signed addresses.
    _pattern("api_key", ("8Q~", "7Q~"), r"[A-Za-z0-9_~.-]{3}[78]Q~[A-Za-z0-9_~.-]{31,34}+", _is_varied, 3),
    _pattern("api_key", ("accountkey=", "sharedaccesskey="),
             r"(?i)(?:accountkey|sharedaccesskey)=(?P<secret>[A-Za-z0-9+/]{40,100}+={0,2})", _is_mixed),
    _pattern("api_key", ("&sig=", "?sig="), r"[&?]sig=(?P<secret>[A-Za-z0-9%+/=_-]{30,128}+)", _is_mixed),
    _pattern("jwt", ("eyJ",), r"eyJ[A-Za-z0-9_-]{10,4096}+\.eyJ[A-Za-z0-9_-]{10,4096}+\.[A-Za-z0-9_-]{10,4096}+"),
    _pattern("url_password", ("://",), r"://[^\s/:@\"'<>]{0,64}:(?P<secret>[^\s/:@\"'<>]{1,128})@[A-Za-z0-9\[]",
             is_no_placeholder),
    _pattern("bearer_token", ("bearer ",), r"(?i)(?<![A-Za-z0-9])bearer (?P<secret>[A-Za-z0-9._~+/=-]{20,4096})",
             _is_random),
    _pattern("password", ("authorization",),
             r"(?i)authorization[\"']? ?[:=] ?[\"']?basic (?P<secret>[A-Za-z0-9+/]{12,512}+={0,2})", _is_mixed),
    _pattern("password", ("curl ",),
             r"curl [^\n]{0,120}?(?:-u|--user)[ =][\"']?[^\s:\"'$]{1,64}:(?P<secret>[^\s\"'@$]{3,128})",
             is_no_placeholder),
    _pattern("password", ("mysql",),
             r"mysql(?:dump|admin)?[^\n]{0,120}? -p(?P<secret>[^\s\"'$-][^\s\"'$]{3,64})(?=\s|$)", _is_passwordlike),
    _pattern("password", ("sshpass ",), r"sshpass -p ?[\"']?(?P<secret>[^\s\"'$]{3,64})", is_no_placeholder),
    _pattern("password", ("requirepass ",), r"requirepass (?P<secret>\S{6,128})", _is_strong),
    _pattern("password", ("_auth=",), r"_auth=(?P<secret>[A-Za-z0-9+/]{16,256}+={0,2})", _is_mixed),
    _pattern("password", ("<password>",), r"(?i)<password>(?P<secret>[^<\s]{4,128})</", is_no_placeholder),
    _pattern("password", ("machine ",),
             r"machine \S{1,128}\s{1,9}login \S{1,128}\s{1,9}password (?P<secret>\S{3,128})", is_no_placeholder),
    # Before a command: PGPASSWORD=… psql
    _pattern("password", ("PASSWORD=", "PASSWD=", "TOKEN=", "SECRET=", "API_KEY="),
             r"[A-Z_]{5,8}=(?P<secret>[^\s\"'`;&|<>(){}$]{6,256})(?=\s)", _is_strong),
    _pattern("password", _SPOKEN,
             rf"(?i){_SPOKEN_WORD}(?:_key|_value)?[*_\"'`]{{0,3}}[ ]{{0,2}}"
             rf"(?:[是は는은]?[=:：]|[是は는은])[*_]{{0,2}}[ ]?"
             rf"{_SPOKEN_SECRET}", _is_passwordlike),
    # In a sentence, or right behind the word where words have no spaces.
    _pattern("password", _SPOKEN,
             rf"(?i){_SPOKEN_WORD}[*_\"'`]{{0,3}}"
             r"(?:(?: (?:for|of|to|on|für|vom|zum|de|du|pour|per)(?: [^\W\d_-]{1,16}){1,4})?"
             rf"(?: (?:is now|is|was|lautet|ist|est|es|é)|:) |(?<=[^\x00-\x7f])[をが는은]?[ ]?){_SPOKEN_SECRET}",
             _is_strong),
    # `password Tr0ub4dor&3x`: next to the word, only what no word can be.
    _pattern("password", ("password ", "passwort ", "passphrase "), rf"(?i){_SPOKEN_WORD} {_SPOKEN_SECRET}",
             _is_password_at_sight),
    _pattern("password", ("docker login ",),
             r"docker login [^\n]{0,120}?-p ?[\"']?(?P<secret>[^\s\"'$-][^\s\"'$]{3,256})", _is_strong),
)  # fmt: skip

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

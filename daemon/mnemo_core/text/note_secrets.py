"""Search for secrets as people write them down in notes: a word for it, and beside it the value. SPEC 5.1

`text.secrets` finds what is a secret at sight, in any text. A note says what it is: in a line (`PIN of the card: …`), a
table with the head `password`, a list of codes below a word for them, a pair behind `login`. Account and card numbers
are known by their check digits. Better to miss one than to hide what is none: a value that a dictionary could have, a
measure or a year counts only in quotes, and a number only beside a word for the lock that it opens.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise

from mnemo_core.text import lexicon
from mnemo_core.text.languages import ALL_FUNCTION_WORDS, WORD
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.secrets import SecretSpan, find_secrets, is_no_placeholder

LINE_CHARS_MAX = 1000  # of a longer line the beginning is read
LISTED_LINES_MAX = 40  # below a word for a list of codes
NEAR_LINES_MAX = 6  # below a word for a network, a seed phrase or a security question
SEED_WORDS_MIN = 12
NUMBER_CHARS_MAX = 80  # from the word for it to the end of the number

Span = tuple[int, int]


def _phrases(*sections: str) -> set[str]:
    return {" ".join(group) for section in sections for group in lexicon.groups("note_secrets", section)}


def _any_of(*sections: str) -> str:
    return "|".join(map(re.escape, sorted(_phrases(*sections), key=lambda phrase: (-len(phrase), phrase))))


def _word_of(*sections: str) -> re.Pattern[str]:
    return lazy_pattern(rf"(?i)(?<![^\W_])(?:{_any_of(*sections)})(?![^\W_])")


_SAID = rf"(?:[ ]?(?:::?|=|→)|[ ]->|[ ](?:{_any_of('values')})(?![^\W_])[ ]?:?)"
_OPEN, _CLOSED = "`\"“„»«'‘*", "`\"“”«»'’*"
_TOKEN = r"[^\s`\"“”„»«|]{3,64}"
_REST = r"(?:[ ][^\s:=→`\"|]{1,24}){0,7}?"  # words that say what it is for
_COMPOUNDS = ("passwort", "kennwort", "passcode", "schlüsselwort")
_COMPOUND = rf"[^\W\d_]{{2,24}}(?:{'|'.join(_COMPOUNDS)})"
_WORDS = r"[a-zäöüéñ]{2,16}(?:[ -][a-zäöüéñ]{2,16}){3,11}"
_QUOTED = lazy_pattern(
    rf"{_REST}(?:{_SAID})?\*{{0,2}}[ ]?[{_OPEN}](?P<secret>[^\s,;.{_CLOSED}][^\n{_CLOSED}]{{2,80}})[{_CLOSED}]"
)
_BEHIND = lazy_pattern(rf"{_REST}{_SAID}\*{{0,2}}[ ]{{0,4}}(?P<secret>{_TOKEN})")
_NEXT = lazy_pattern(rf"[ ](?P<secret>{_TOKEN})")
_PHRASE = lazy_pattern(rf"{_REST}{_SAID}[ ]{{0,4}}(?P<secret>{_WORDS})[ .]{{0,2}}$")
_SIGNED_PHRASE = lazy_pattern(rf"[ ]?[:=→]\*{{0,2}}[ ]{{0,4}}(?P<secret>{_WORDS})[ .]{{0,2}}$")
_SIGNED_VALUE = lazy_pattern(rf"\*{{0,2}}[ ]?[:=→]\*{{0,2}}[ ]{{0,4}}[`\"]?(?P<secret>{_TOKEN})")
_ENTRY = lazy_pattern(
    rf"[ \t]*(?:[-*+][ ]|\d{{1,2}}[.)][ ])?[^\n:=→]{{2,48}}?(?:[:=→]|[ ][-–—][ ])[ ]{{0,4}}[`\"]?(?P<secret>{_TOKEN})"
)
_NUMBER = lazy_pattern(
    r"(?<![\w.,/€$£+-])(?<![0-9][ -])(?P<secret>[A-Z]?[0-9](?:[ -]?[0-9]){2,9}[#*]?)(?![\w/%€$£]|[.,: -][0-9])"
    r"(?![ ]?(?:°|degrees|grad|euros?|eur|chf|usd|kg|km|min|sec|sek|uhr|hours?|[hx]\b|[ap]m\b|times|mal\b))"
)
_YEAR = lazy_pattern(r"(?:19|20)[0-9]{2}")
_IBAN = lazy_pattern(r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,4})?(?![A-Za-z0-9])")
_CARD_NUMBER = lazy_pattern(
    r"(?<![0-9-])(?:[3-6][0-9]{3}(?:[ -]?[0-9]{4}){2}[ -]?[0-9]{1,7}|3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5})(?![0-9-])"
)
_PAIR = lazy_pattern(rf"(?<=\s)[^\s/|:]{{2,48}}[ ]/[ ](?P<secret>{_TOKEN})")
_LISTED = lazy_pattern(
    r"[ \t]*(?:[-*+][ ]|\d{1,2}[.)][ ])?[ ]?`?(?P<secret>[A-Za-z0-9]{3,8}(?:[ -][A-Za-z0-9]{3,8}){0,7})`?[ ,;]*$"
)
_SEED_WORD = r"(?:\d{1,2}[.)]?[ ])?[a-z]{3,10}"
_SEED_PHRASE = lazy_pattern(rf"{_SEED_WORD}(?:[ ,]+{_SEED_WORD}){{{SEED_WORDS_MIN - 1},24}}")
_NUMBERED_WORDS = lazy_pattern(r"\d{1,2}[.)]?[ ][a-z]{3,10}(?:[ ,]+\d{1,2}[.)]?[ ][a-z]{3,10}){2,23}")
_ANSWER = lazy_pattern(rf"(?i)(?<![^\W_])(?:{_any_of('answers')})[ ]?[:=→][ ]?(?P<secret>[^\n|;]{{2,60}})")
_REPLY = lazy_pattern(r"\?[ ]{1,3}(?:[-–—→:][ ])?(?P<secret>[^\s|;?]{2,24}(?:[ ][^\s|;?]{1,24}){0,2})$")
_AT_SIGHT = lazy_pattern(
    r"WIFI:[^\n]{0,120}?;?P:(?P<wifi>[^;\n]{3,64});"  # as in a QR code
    r"|(?<![0-9-])(?P<disk>[0-9]{6}(?:-[0-9]{6}){7})(?![0-9-])"  # of BitLocker
    r"|(?:PrivateKey|PresharedKey) ?= ?(?P<key>[A-Za-z0-9+/]{43}=)"  # of WireGuard
    r"|(?<![A-Za-z0-9-])(?=[A-Z-]{0,29}[0-9])(?P<product>[A-Z0-9]{5}(?:-[A-Z0-9]{5}){4})(?![A-Za-z0-9-])"
    r"|(?m:^[^\s/|:]{2,24} / (?P<line>(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])(?=[A-Za-z]*[0-9])[A-Za-z0-9]{8,32})$)"
    r"|\((?:root|admin|user|pi):(?P<pair>[^\s)]{4,64})\)"
    r"|(?<![^\s`\"“„(])(?=[^\s]{0,40}[0-9])(?P<word>[^\W\d_][^\W_]{3,23}[!$%^][^\W_]{2,20})(?![^\s.,;)`\"“”])"
    r"|(?<![\w#.,/+-])(?P<keypad>[A-Z]?[0-9]{3,8}(?:#(?![\w#])|[ ]?\+?[ ]?Raute))"
)
_SETUP_KEY = lazy_pattern(r"(?<![A-Za-z0-9])[A-Z2-7]{4}(?:[ -]?[A-Z2-7]{4}){3,12}(?![A-Za-z0-9])")
_RANDOM_KEY = lazy_pattern(r"(?<![A-Za-z0-9])(?=[a-f]{0,20}[0-9])(?=[0-9]{0,20}[a-f])[0-9a-f]{10,64}(?![A-Za-z0-9])")
_GIVEN_WORD = lazy_pattern(
    rf"(?i)(?:[ ][\"„“»«'‘`]?|(?:, [^\W\d_]{{2,9}})?[ ]?(?::|=|[ ](?:{_any_of('values')})(?![^\W_]))[ ]?)"
    r"(?P<secret>[^\W\d_]{3,24})[\"”“»«'’`]?[.!]?(?:$|[ ](?=[(\[]))"
)
_WITH_SIGN = lazy_pattern(
    r"(?<![^\s:(=→`\"“„])(?=[^\s]{0,62}[0-9])(?=[^\s]{0,62}[^\W\d_])(?P<secret>[^\s/(){}<>\[\]|`\"“”',;=.:]{2,40}[!#$%^&~+]"
    r"[^\s/(){}<>\[\]|`\"“”',;=.:]{0,40})(?=[\s).,;`\"“”]|$)"
)
_WITH_DASH = lazy_pattern(
    r"(?:[:→]|[ ](?:with|mit|avec|con|met))[ ][`\"“„]?"
    r"(?P<secret>[^\W\d_]{2,24}(?:_[^\W_]{1,24}){1,4})(?=[\s).,;`\"“”]|$)"
)
_JOINED = lazy_pattern(
    r"(?:(?<=pw)|\*{0,2}[ ]?[:=→]\*{0,2})[ ]{1,4}(?!changeme|your|example)(?P<secret>[^\W\d_]{3,16}-"
    r"(?:[A-Z][^\W\d_]{2,16}|[^\W\d_]{2,16}(?:-[^\W\d_]{2,16}){1,5}))(?=[\s,.;)]|$)"
)
_UNDER_NETWORK = lazy_pattern(
    r"[ \t]*(?:[-*+][ ])?(?:key|schlüssel|clé|clave)[ \t]{1,8}(?P<secret>[^\W_]{8,64})[ \t]*$"
)
_KEYPAD_CODE = lazy_pattern(r"(?<![A-Za-z0-9])(?=[A-Z]{0,4}[0-9])(?=[0-9]{0,5}[A-Z])[A-Z0-9]{5,8}(?![A-Za-z0-9])")
_LICENCE_KEY = lazy_pattern(r"(?<![A-Za-z0-9-])[A-Z0-9]{4,8}(?:-[A-Z0-9]{4,8}){2,7}(?![A-Za-z0-9-])")
_ROW = lazy_pattern(r"[ \t]*\|.*\|[ \t]*$")
_RULE = lazy_pattern(r"(?=[^|]*\|)[ \t]*\|?[ \t]*:?-{2,}[ \t:|-]*$")
_HEAD = lazy_pattern(
    rf"(?i)(?:[^\W\d_]{{1,30}}[ -])?(?:{_any_of('passwords', 'pins')}|secret|geheimnis)|(?P<weak>pass|root)"
)

_PASSWORD = lazy_pattern(rf"(?i)(?<![^\W_])(?:{_any_of('passwords')}|{_COMPOUND})(?![^\W_])")
_PIN, _LIST, _SEED, _SIGNED = _word_of("pins"), _word_of("lists"), _word_of("phrases"), _word_of("signed")
_HEADING = lazy_pattern(
    rf"(?i)^[ \t#*]{{0,12}}(?:[^\W\d_]{{1,24}}[ -]){{0,3}}(?:{_any_of('headings')})(?![^\W_])[^\n.]{{0,40}}$"
)
_KEY, _NETWORK, _LOGIN, _LICENCE = _word_of("keys"), _word_of("networks"), _word_of("logins"), _word_of("licences")
_CODE, _PLACE, _OTHER_CODE = _word_of("codes"), _word_of("places"), _word_of("other_codes")
_CARD, _QUESTION = _word_of("cards"), _word_of("questions")
_LOCK, _SETUP, _GIVEN, _ACCESS = _word_of("locks"), _word_of("setup"), _word_of("given"), _word_of("access")
_TOLD = (
    "passwords", "signed", "headings", "pins", "keys", "codes", "locks", "lists", "phrases", "questions", "answers",
    "licences", "networks", "setup", "given", "access",
)  # fmt: skip
_TELLING = lazy_pattern(rf"(?<![^\W_])(?:{_COMPOUND}|{_any_of(*_TOLD)})(?![^\W_])")


def find_note_secrets(text: str) -> list[SecretSpan]:
    """The secrets in a text of a note, in order, none overlapping: those of `find_secrets`, and those that a word
    names. Linear in the length of the text."""
    taken = find_secrets(text)
    others = [SecretSpan("password", *span) for span in (*_named_values(text), *_at_sight(text))]
    spans: list[SecretSpan] = []
    for span in sorted((*taken, *others), key=lambda each: (each.start, -each.end)):
        if not spans or span.start >= spans[-1].end:
            spans.append(span)
    return spans


def states_pin(text: str) -> bool:
    """Return whether a text states a PIN or the like, which is its owner's alone; the code of a gate is none."""
    return _PIN.search(text) is not None and bool(find_note_secrets(text))


def _named_values(text: str) -> Iterator[Span]:
    columns: dict[int, Callable[[str], bool]] | None = None  # of a table, those with secrets, and what a value is
    left = {_LIST: 0, _HEADING: 0, _NETWORK: 0, _SEED: 0, _QUESTION: 0}  # lines that a word above may still be about
    at, head, is_near = 0, "", False  # is_near: a word above may still be about the line
    for whole in text.split("\n"):
        if len(whole) < 2 and not is_near:
            columns, head = None, whole
            at += len(whole) + 1
            continue
        line = whole[:LINE_CHARS_MAX]
        if "|" in line and _RULE.match(line):
            heads = [_HEAD.fullmatch(head[slice(*span)]) for span in _cells(head)]
            columns = {place: _is_made_up if said["weak"] else _is_value for place, said in enumerate(heads) if said}
            found = []
        elif "|" in line and (columns is not None or _ROW.match(line)):
            cells = _cells(line)
            is_pair = len(cells) == 2 and not columns and _PASSWORD.fullmatch(line[slice(*cells[0])])
            checks = {1: _is_value} if is_pair else columns or {}
            found = [
                cells[place] for place in checks if place < len(cells) and checks[place](line[slice(*cells[place])])
            ]
        else:
            columns, found = None, []
            # A phrase of the lexicon is looked for in few lines: most have not even the first word of one.
            lowered = line.lower()
            may_be = not _first_words().isdisjoint(WORD.findall(lowered)) or any(part in lowered for part in _COMPOUNDS)
            is_telling = may_be and _TELLING.search(lowered) is not None
            if is_telling or is_near:
                for word in left:
                    reach = LISTED_LINES_MAX if word in (_LIST, _HEADING) else NEAR_LINES_MAX
                    left[word] = reach if is_telling and word.search(line) else max(0, left[word] - 1)
                is_near = any(left.values())
                found = _below(line, left) if is_near else []
            if is_telling:
                found += _beside(line)
        head = line
        yield from ((at + start, at + end) for start, end in found)
        at += len(whole) + 1


@cache
def _first_words() -> frozenset[str]:
    return frozenset(WORD.findall(phrase)[0] for phrase in _phrases(*_TOLD))


def _below(line: str, left: dict[re.Pattern[str], int]) -> list[Span]:
    """The values that a word in this line, or in one of those above it, is about."""
    found: list[Span] = []
    if 0 < left[_LIST] < LISTED_LINES_MAX and (code := _LISTED.match(line)) and _has_digits(code["secret"], 6):
        found.append(code.span("secret"))
    if 0 < left[_HEADING] < LISTED_LINES_MAX and (entry := _ENTRY.match(line)) and _is_made_up(entry["secret"]):
        found.append(_bare(entry))
    phrase = (_SEED_PHRASE.search(line) or _NUMBERED_WORDS.search(line)) if left[_SEED] else None
    if phrase is not None and ALL_FUNCTION_WORDS.isdisjoint(phrase[0].split()):
        found.append(phrase.span())
    if left[_QUESTION] and (answer := _ANSWER.search(line) or _REPLY.search(line)):
        found += [answer.span("secret")] if is_no_placeholder(answer["secret"].strip()) else []
    if left[_NETWORK] and (key := _UNDER_NETWORK.match(line)) and _has_digits(key["secret"], 8):
        found.append(key.span("secret"))
    for word in _KEY.finditer(line) if left[_NETWORK] else ():
        value = _BEHIND.match(line, word.end())
        if value is not None and (_is_made_up(value["secret"]) or _has_digits(value["secret"], 8)):
            found.append(_bare(value))
    return found


def _beside(line: str) -> list[Span]:
    """The values beside a word for a password, a PIN, a lock or a licence."""
    found: list[Span] = []
    for word in _PASSWORD.finditer(line):
        found += _password(line, word)
    for word in _SIGNED.finditer(line):
        value = _SIGNED_VALUE.match(line, word.end())
        if value is not None and _is_made_up(value["secret"]) and _has_digits(value["secret"], 8):
            found.append(_bare(value))
    for word in _PIN.finditer(line):
        found += _last_number(line, word.end())
    code = _CODE.search(line)
    if code is not None and _PLACE.search(line) and not _OTHER_CODE.search(line):
        found += _last_number(line, 0) or [key.span() for key in _KEYPAD_CODE.finditer(line, code.end())][:1]
    elif lock := _LOCK.search(line):
        found += _last_number(line, lock.end()) or [key.span() for key in _KEYPAD_CODE.finditer(line, lock.end())][-1:]
    if _SETUP.search(line) and (key := _SETUP_KEY.search(line)) and _has_digits(key[0], 16):
        found.append(key.span())
    if _NETWORK.search(line) and _KEY.search(line):
        found += [key.span() for key in _RANDOM_KEY.finditer(line)]
    for word in _GIVEN.finditer(line):
        if (value := _GIVEN_WORD.match(line, word.end())) and value["secret"].lower() not in ALL_FUNCTION_WORDS:
            found.append(value.span("secret"))
    if _ACCESS.search(line) or _NETWORK.search(line) or _LOGIN.search(line):
        found += [value.span("secret") for value in _WITH_SIGN.finditer(line)]
        found += [
            value.span("secret")
            for value in _WITH_DASH.finditer(line)
            if _has_digits(value["secret"], 8) and not value["secret"].isupper()
        ]
    if _LICENCE.search(line):
        found += [key.span() for key in _LICENCE_KEY.finditer(line) if _has_digits(key[0], 0)]
    return found


def _password(line: str, word: re.Match[str]) -> list[Span]:
    """The value behind a word for a password: anything in quotes, else what no dictionary has."""
    at = word.end()
    quoted = _QUOTED.match(line, at)
    if quoted is not None and _is_value(quoted["secret"]):
        return [quoted.span("secret")]
    for pattern in (_BEHIND, _NEXT):
        value = pattern.match(line, at)
        if value is not None and _is_made_up(value["secret"]):
            return [_bare(value)]
    if (joined := _JOINED.match(line, at)) is not None:
        return [joined.span("secret")]
    is_passphrase = word[0].lower() == "passphrase"
    phrase = (_PHRASE if is_passphrase else _SIGNED_PHRASE).match(line, at)
    is_said = phrase and (is_passphrase or ALL_FUNCTION_WORDS.isdisjoint(phrase[0].split()))
    return [phrase.span("secret")] if phrase and is_said else []


def _last_number(line: str, at: int) -> list[Span]:
    """The last number of a line that may be a code: `PIN of the card 4711 is 8852`."""
    end = at + NUMBER_CHARS_MAX
    numbers = [
        found.span("secret") for found in _NUMBER.finditer(line, at, end) if not _YEAR.fullmatch(found["secret"])
    ]
    return numbers[-1:]


def _at_sight(text: str) -> Iterator[Span]:
    """Numbers of accounts and cards, keys of a known form, and pairs of a name and what can only be a password."""
    yield from (one.span(str(one.lastgroup)) for one in _AT_SIGHT.finditer(text))
    yield from (number.span() for number in _IBAN.finditer(text) if _is_iban(number[0].replace(" ", "")))
    for number in _CARD_NUMBER.finditer(text):
        if (" " in number[0] or _CARD.search(_line_of(text, number))) and _is_card(re.sub("[ -]", "", number[0])):
            yield number.span()
    for pair in _PAIR.finditer(text):
        is_signed = _has_digits(pair["secret"], 0) and _SIGN.search(pair[0])
        if _is_made_up(pair["secret"]) and (is_signed or _LOGIN.search(_line_of(text, pair))):
            yield _bare(pair)


def _line_of(text: str, found: re.Match[str]) -> str:
    """The text around a match in its line, as far as it is read."""
    start = text.rfind("\n", max(0, found.start() - LINE_CHARS_MAX), found.start()) + 1
    return text[max(start, found.start() - LINE_CHARS_MAX) : found.end() + LINE_CHARS_MAX].partition("\n")[0]


def _cells(row: str) -> list[Span]:
    """The span of each cell of a row of a table, without blanks and marks."""
    spans = []
    bars = [place for place, sign in enumerate(row) if sign == "|"]
    bare = row.strip()
    before = [] if bare.startswith("|") else [-1]
    after = [] if bare.endswith("|") else [len(row)]
    for one, two in pairwise((*before, *bars, *after)):
        cell = row[one + 1 : two]
        bare = cell.strip(" \t`*")
        start = one + 1 + (cell.find(bare) if bare else 0)
        spans.append((start, start + len(bare)))
    return spans


_SIGN = lazy_pattern(r"[_!#$%&@+=^~]")
_NOT_MADE_UP = lazy_pattern(r"[0-9]+[a-zäöü-]+|https?:.*|[/~.].*|[\w.-]+@.*|.*[(/\s].*", re.DOTALL)


def _bare(found: re.Match[str]) -> Span:
    start = found.start("secret")
    return start, start + len(found["secret"].rstrip(".,;:)*'’"))


def _is_value(said: str) -> bool:
    bare = said.strip()
    return len(bare) >= 3 and is_no_placeholder(bare) and re.search(r"[^\W_]", bare) is not None


def _has_digits(said: str, least: int) -> bool:
    """Return whether a text of so many characters has figures."""
    return len(said) >= least and any(map(str.isdigit, said)) and is_no_placeholder(said)


def _is_made_up(said: str) -> bool:
    """Return whether no dictionary has it: letters with figures, or with signs in between, and no measure or path."""
    bare = said.strip(".,;:!?)(*'’")
    is_mixed = any(map(str.isalpha, bare)) and (any(map(str.isdigit, bare)) or _SIGN.search(bare) is not None)
    return len(bare) >= 5 and is_mixed and is_no_placeholder(bare) and _NOT_MADE_UP.fullmatch(bare) is None


def _is_iban(number: str) -> bool:
    """Return whether the check digits hold. [ISO 13616]"""
    digits = "".join(str(int(character, 36)) for character in number[4:] + number[:4])
    return 15 <= len(number) <= 34 and int(digits) % 97 == 1


def _is_card(number: str) -> bool:
    """Return whether the check digit holds. [ISO/IEC 7812]"""
    digits = [int(character) for character in number[::-1]]
    doubled = sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return 13 <= len(number) <= 19 and (sum(digits[::2]) + doubled) % 10 == 0 and len(set(number)) > 3

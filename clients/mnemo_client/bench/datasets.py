"""Reads the datasets of `mnemo bench quality`: conversations, and questions with known evidence.

A folder has them in one of two formats, or in both.

`*.json`, `*.json.gz`: a list of conversations, each an object with `sample` (its name), `dates` (by the number of a
session, "1:56 pm on 8 May, 2023" or ISO 8601), `turns` (`id`, `s` the session, `sp` who speaks, `t` its text, and
optionally `cap`, the caption of a picture) and `qa` (`q` the question, `ev` the ids of the turns that answer it, `cat`
the category of the question: a word, or a number as in LoCoMo). Other fields are ignored.

`*.txt`, here or in the folder `conversations`: one conversation a file. `# TITLE`; `## 1 2026-03-13T10:20` begins a
session; `1.4 Ines: What she said.` is a turn, numbered within its session; `? sort [1.4, 2.7] What was asked?` is a
question with the turns that answer it. Times are in UTC.
"""

import datetime as dt
import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from mnemo_client.errors import NotFoundError, UsageError

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
EXPECTED = (
    "expected are conversations as JSON (a list of objects with sample, dates, turns, qa) or as text (lines "
    "`## 1 2026-03-13T10:20`, `1.1 Ines: What she said.`, `? sort [1.1] What was asked?`)"
)

_SPOKEN_DATE = re.compile(r"(\d{1,2}):(\d{2})\s*([ap]m) on (\d{1,2}) (\w+),? (\d{4})", re.IGNORECASE)
_SESSION = re.compile(r"## (?P<number>\d+) (?P<at>\S+)")
_TURN = re.compile(r"(?P<id>(?P<session>\d+)\.\d+) (?P<speaker>[^:]+): (?P<text>.*\S.*)")
_QUESTION = re.compile(r"\? (?P<category>\S+) \[(?P<evidence>[^\]]*)\] (?P<text>.*\S.*)")


class DatasetTurn(NamedTuple):
    id: str
    session: str
    speaker: str
    text: str
    at: str  # ISO 8601: the time of the session, plus one minute for each turn


class DatasetQuestion(NamedTuple):
    """evidence: the ids of the turns that answer it; none: nothing in the conversation does."""

    text: str
    category: str
    evidence: tuple[str, ...]


class Conversation(NamedTuple):
    name: str
    turns: list[DatasetTurn]
    questions: list[DatasetQuestion]


def load(folder: Path) -> list[Conversation]:
    """Return every conversation that has a question with evidence, with those questions. Raises UsageError for a wrong
    format."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder" if folder.exists() else f"there is no folder {folder}", EXPECTED)
    files = sorted([*folder.glob("*.json"), *folder.glob("*.json.gz")])
    texts = sorted([*folder.glob("*.txt"), *(folder / "conversations").glob("*.txt")])
    found = [each for file in files for each in _from_json(file)] + [read_conversation(file) for file in texts]
    answerable = [each._replace(questions=[one for one in each.questions if one.evidence]) for each in found]
    asked = [each for each in answerable if each.questions]
    if not asked:
        what = "no conversation that has a question with evidence" if found else "no *.json, *.json.gz or *.txt file"
        raise NotFoundError(f"{what} is in {folder}", EXPECTED)
    return asked


# JSON


class _JsonTurn(msgspec.Struct):
    id: str
    s: int
    sp: str
    t: str
    cap: str | None = None


class _JsonQuestion(msgspec.Struct):
    q: str
    ev: list[str] = []
    cat: int | str = ""


class _JsonConversation(msgspec.Struct):
    sample: str
    dates: dict[str, str]
    turns: list[_JsonTurn]
    qa: list[_JsonQuestion]


def _from_json(file: Path) -> Iterator[Conversation]:
    data = file.read_bytes()
    try:
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
        conversations = msgspec.json.decode(data, type=list[_JsonConversation])
    except (msgspec.DecodeError, UnicodeDecodeError, OSError, EOFError, zlib.error) as wrong:
        raise UsageError(f"{file} has another format: {wrong}", EXPECTED) from wrong
    for each in conversations:
        where = f"{file}, {each.sample}"
        begins = {number: _date(text, f"{where}, session {number}") for number, text in each.dates.items()}
        counts: dict[str, int] = {}
        turns = []
        for turn in each.turns:
            session = str(turn.s)
            if session not in begins:
                raise UsageError(f"{where}: turn {turn.id} is in session {session}, which has no date", EXPECTED)
            counts[session] = counts.get(session, -1) + 1
            text = f"{turn.t} [shares image: {turn.cap}]" if turn.cap else turn.t
            at = begins[session] + dt.timedelta(minutes=counts[session])
            turns.append(DatasetTurn(turn.id, session, turn.sp, text, at.isoformat()))
        asked = [DatasetQuestion(one.q, _category(one.cat), tuple(one.ev)) for one in each.qa]
        yield _validated(Conversation(each.sample, turns, asked), where)


def _date(text: str, where: str) -> dt.datetime:
    """Parse a date; without a zone in the text the daemon uses its own."""
    spoken = _SPOKEN_DATE.fullmatch(text.strip())
    try:
        if spoken is None:
            return dt.datetime.fromisoformat(text.strip())
        hour, minute, half, day, month, year = spoken.groups()
        hours = int(hour) % 12 + (12 if half.lower() == "pm" else 0)
        iso = f"{year}-{MONTHS.index(month.lower()) + 1:02}-{int(day):02}T{hours:02}:{minute}"
        return dt.datetime.fromisoformat(iso)
    except ValueError:
        message = f"{where}: {text!r} is not a date such as '1:56 pm on 8 May, 2023' or 2023-05-08T13:56"
        raise UsageError(message) from None


def _category(value: int | str) -> str:
    return CATEGORIES.get(value, str(value)) if isinstance(value, int) else value


# Text


def read_conversation(file: Path) -> Conversation:
    """Return the conversation of a text file, with all of its questions. Raises UsageError for a wrong format."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as wrong:
        raise UsageError(f"{file} is not UTF-8 text (byte {wrong.start})", EXPECTED) from wrong
    begins: dict[str, dt.datetime] = {}
    counts: dict[str, int] = {}
    turns: list[DatasetTurn] = []
    questions = []
    for number, line in enumerate(lines, start=1):
        where = f"{file}:{number}"
        if turn := _TURN.fullmatch(line):
            session = turn["session"]
            if session not in begins:
                raise UsageError(
                    f"{where}: session {session} has not begun; begin it with `## {session} 2026-03-13T10:20`"
                )
            counts[session] = counts.get(session, -1) + 1
            at = begins[session] + dt.timedelta(minutes=counts[session])
            turns.append(DatasetTurn(turn["id"], session, turn["speaker"], turn["text"], at.isoformat()))
        elif begun := _SESSION.fullmatch(line):
            at = _date(begun["at"], where)
            begins[begun["number"]] = at if at.tzinfo is not None else at.replace(tzinfo=dt.UTC)
        elif asked := _QUESTION.fullmatch(line):
            evidence = tuple(name.strip() for name in asked["evidence"].split(",") if name.strip())
            questions.append(DatasetQuestion(asked["text"], asked["category"], evidence))
        elif line.strip() and not line.startswith("# "):
            raise UsageError(f"{where} is not a session, turn or question: {line[:60]!r}", EXPECTED)
    return _validated(Conversation(file.stem, turns, questions), str(file))


def _validated(conversation: Conversation, where: str) -> Conversation:
    """Return the conversation. Raises UsageError for a turn id that occurs twice, and for evidence of no turn."""
    ids = [turn.id for turn in conversation.turns]
    known = set(ids)
    if len(known) < len(ids):
        twice = next(each for each in ids if ids.count(each) > 1)
        raise UsageError(f"{where}: turn {twice} occurs twice")
    for question in conversation.questions:
        unknown = [each for each in question.evidence if each not in known]
        if unknown:
            raise UsageError(f"{where}: there is no turn {', '.join(unknown)}, which should answer {question.text!r}")
    return conversation

"""The stream of memories of a person: a conversation, and many times as many others that nothing is asked about.

Of the others most are whole sessions of other conversations, with who spoke in them: they are about the same kind of
things in the same manner. The rest is small talk of the conversation's own speakers and the output of tools, from
templates. All is drawn from one seed.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from mnemo_store.records import Trust

CHATTER_SHARE = 0.2  # of the others: small talk and the output of tools
CHATTER_SESSION = 12  # lines
TOOL_SHARE = 0.5  # of the chatter
MINUTE_MS = 60_000

WORDS = {
    "who": "Alex|Sam|Robin|Kim|Lee|Max|Nico|Toni|Chris|Jo",
    "where": "kitchen|office|car|garden|station|gym|library|balcony|hall|bakery|bus stop|basement",
    "what": "coffee|laundry|bins|keys|umbrella|charger|groceries|parcel|dishes|heater|window|calendar|playlist",
    "when": "this morning|tonight|on Friday|after lunch|in an hour|tomorrow|next week|before six|later today",
    "file": "parser|billing|router|cache|auth|export|scheduler|uploader|search|mailer|report|settings",
    "verb": "fix|rename|speed up|test|document|simplify|remove|log|retry|cache",
}
NUMBERS = ("n", "m")  # 2 to 99
TALK = (
    "Good morning! Did you sleep well?", "Haha, that is so true.", "Sorry, the bus was late {when}.",
    "I left the {what} in the {where} again.", "Sounds good, see you {when}!", "Thanks a lot, {who} says hi too.",
    "Can you bring the {what} {when}?", "No worries at all, take your time.", "The {where} was so crowded {when}.",
    "I'm just making {what} in the {where}, one moment.", "Wow, great news! Tell me more {when}.",
    "It has been raining all day, I'm staying in the {where}.", "{who} called about the {what}, call back {when}.",
    "What are you up to {when}?", "Let me check the {what} and get back to you {when}.",
)  # fmt: skip
OUTPUT = (
    "pytest tests/test_{file}.py: {n} passed, {m} failed in {n}.{m} s",
    "git commit: {verb} the {file}, {n} files changed, {m} insertions",
    "Build of the {file} service finished in {n} s with {m} warnings.",
    "GET /api/{file}/{n} answered 200 in {m} ms", "GET /api/{file}/{n} answered 404 in {m} ms",
    "Traceback in {file}.py, line {n}: KeyError: 'item{m}'", "Read {file}.py: {n} lines, {m} functions.",
    "npm install: added {n} packages, {m} of them deprecated", "Deployed the {file} as release {n}.{m}.",
    "Open: {verb} the {file} (line {n}), see also {file}_{m}.py", "Disk of the {file} host at {n}%, {m} GB left.",
    "Lint: {file}.py has {n} lines that are too long and {m} unused imports.",
)  # fmt: skip


class StreamedMemory(NamedTuple):
    """turn: the id in the conversation that is asked about; "" for one of the others."""

    turn: str
    text: str
    speaker: str
    session: str
    at: int  # ms: when it was said
    source: str
    trust: Trust


def stream(conversation: Any, others: Sequence[Any], times: float, seed: int = 1) -> list[StreamedMemory]:
    """The conversation and `times` as many others, by time. Raises ValueError where `others` have too few turns."""
    chance = random.Random(f"{seed} {conversation.name}")
    own = [_turn(conversation, turn, turn.id) for turn in conversation.turns]
    wanted = round(times * len(own))
    chatter = round(CHATTER_SHARE * wanted)
    times_said = [each.at for each in own]
    foreign: list[StreamedMemory] = []
    for each, turns in _drawn_sessions(conversation, others, chance):
        said = [_turn(each, turn) for turn in turns]
        shift = chance.randint(min(times_said), max(times_said)) - said[0].at
        foreign += [turn._replace(at=turn.at + shift) for turn in said]
        if len(foreign) >= wanted - chatter:
            break
    else:
        if wanted > chatter:
            raise ValueError(f"there are {len(foreign)} other turns for {conversation.name}, not {wanted - chatter}")
    made = [
        each
        for number in range(-(-chatter // CHATTER_SESSION))
        for each in _chatter(conversation, number, chance.randint(min(times_said), max(times_said)), chance)
    ]
    return sorted(own + foreign[: wanted - chatter] + made[:chatter], key=lambda each: each.at)


def _drawn_sessions(conversation: Any, others: Sequence[Any], chance: random.Random) -> list[tuple[Any, list[Any]]]:
    """The sessions of the others, each with its conversation, in an order by chance."""
    sessions: dict[tuple[str, Any], tuple[Any, list[Any]]] = {}
    for each in others:
        if each.name != conversation.name:
            for turn in each.turns:
                sessions.setdefault((each.name, turn.session), (each, []))[1].append(turn)
    drawn = list(sessions.values())
    chance.shuffle(drawn)
    return drawn


def _turn(conversation: Any, turn: Any, name: str = "") -> StreamedMemory:
    session = f"{conversation.name}-{turn.session}"
    return StreamedMemory(name, turn.text, turn.speaker, session, round(turn.at.timestamp() * 1000), "ingest", "user")


def _chatter(conversation: Any, number: int, at: int, chance: random.Random) -> Iterator[StreamedMemory]:
    """Lines of a few minutes, all small talk or all of tools."""
    is_tool = chance.random() < TOOL_SHARE
    templates = OUTPUT if is_tool else TALK
    for place in range(CHATTER_SESSION):
        words = {name: chance.choice(choices.split("|")) for name, choices in WORDS.items()}
        numbers = {name: chance.randint(2, 99) for name in NUMBERS}
        text = chance.choice(templates).format(**words, **numbers)
        speaker = "" if is_tool else chance.choice(conversation.speakers)
        yield StreamedMemory(
            "", text, speaker, f"{conversation.name}-chatter-{number}", at + place * MINUTE_MS,
            "proxy" if is_tool else "ingest", "tool" if is_tool else "user",
        )  # fmt: skip

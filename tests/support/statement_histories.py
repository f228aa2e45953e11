"""Made histories: dated statements about people and projects whose attributes change, with what each updates or
repeats.

The wordings are in two halves. Rules may be tuned on what the tuned half shows; the held-out half only counts.
"""

import random
import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.support.samples import AT

DAY_MS = 86_400_000
LIVES = 200


class HistoryStatement(NamedTuple):
    """One statement. updates, repeats: the index of the latest earlier one whose value it changes, or says again."""

    text: str
    at: int
    key: tuple[str, str]  # whose, and which attribute; equal keys are one chain of values
    value: str
    updates: int | None
    repeats: int | None
    speaker: str = ""  # who says all of the life


class Wordings(NamedTuple):
    """The statement of a value and of its change: [first person|third person], {v} the value, {o} the one
    before, {n} the name."""

    states: tuple[str, ...]
    changes: tuple[str, ...]


class Attribute(NamedTuple):
    name: str
    values: tuple[str, ...]
    tuned: Wordings
    held_out: Wordings


CITIES = ("Lisbon", "Porto", "Berlin", "Hamburg", "Oslo", "Kyoto", "Denver", "Leeds", "Lyon", "Turin", "Bergen", "Graz")
FIRMS = ("Acme", "Globex", "Initech", "Northwind", "Contoso", "Hooli", "Umbra Labs", "Redwood Media", "Silverline")
NAMES = (
    "Anna",
    "Bruno",
    "Clara",
    "Dmitri",
    "Elena",
    "Farid",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Keiko",
    "Luca",
    "Marta",
)
PROJECTS = ("Atlas", "Borealis", "Cobalt", "Dune", "Ember", "Fjord", "Garnet", "Halcyon")
DATES = ("March 3", "March 10", "April 2", "April 21", "May 5", "June 14", "July 1", "August 9", "September 30")
TIMES = ("9 am", "10:30 am", "2 pm", "3:15 pm", "4 pm", "5:30 pm", "11 am", "1 pm")

PERSONAL = (
    Attribute(
        "home",
        CITIES,
        Wordings(
            ("[I live|{n} lives] in {v}.", "[I'm|{n} is] based in {v}.", "[My|{n}'s] home is in {v}.",
             "[I'm living|{n} is living] in {v} these days.", "[I|{n}] now [reside|resides] in {v}."),
            ("[I moved|{n} moved] to {v}.", "[I've|{n} has] just moved to {v}.", "[I|{n}] relocated from {o} to {v}.",
             "Last month [I|{n}] moved to {v}.", "[I've|{n} has] moved back to {v}."),
        ),
        Wordings(
            ("[I am|{n} is] currently living in {v}.", "{v} is where [I live|{n} lives].", "[My|{n}'s] city is {v}.",
             "[I've|{n} has] been living in {v} for a while."),
            ("[I|{n}] left {o} for {v}.", "As of this week, [I live|{n} lives] in {v}.",
             "[I have|{n} has] finally settled in {v}.", "[I|{n}] packed everything up and moved over to {v}.",
             "[I|{n}] made the move from {o} to {v}."),
        ),
    ),
    Attribute(
        "employer",
        FIRMS,
        Wordings(
            ("[I work|{n} works] at {v}.", "[My|{n}'s] job is at {v}.", "[I'm|{n} is] employed by {v}.",
             "[I work|{n} works] for {v} as an analyst.", "[My|{n}'s] employer is {v}."),
            ("[I|{n}] started working at {v}.", "[I've|{n} has] joined {v}.", "[I|{n}] got a new job at {v}.",
             "[I|{n}] left {o} to join {v}.", "[I was|{n} was] hired by {v}."),
        ),
        Wordings(
            ("[I'm working|{n} is working] with {v} at the moment.", "{v} is [my|{n}'s] employer.",
             "[I earn my living|{n} earns a living] at {v}.", "[I'm|{n} is] on the payroll of {v}."),
            ("[I|{n}] quit {o} and started at {v}.", "[I|{n}] switched jobs and now [work|works] at {v}.",
             "[I've|{n} has] accepted a position with {v}.", "[My|{n}'s] new employer is {v}.",
             "[I|{n}] began a new role at {v} on Monday."),
        ),
    ),
    Attribute(
        "rent",
        ("900 euros", "950 euros", "1,020 euros", "1,100 euros", "1,240 euros", "1,310 euros"),
        Wordings(
            ("[My|{n}'s] rent is {v}.", "[I pay|{n} pays] {v} in rent.", "[My|{n}'s] rent is {v} a month.",
             "[I'm paying|{n} is paying] {v} a month for rent."),
            ("[My|{n}'s] rent went up to {v}.", "[My|{n}'s] rent was raised from {o} to {v}.",
             "[My|{n}'s] rent is now {v}.", "[My|{n}'s] rent has increased to {v}."),
        ),
        Wordings(
            ("[My|{n}'s] monthly rent is {v}.", "Rent costs [me|{n}] {v} every month.",
             "The rent [I pay|{n} pays] is {v}.", "[My|{n}'s] rent comes to {v}."),
            ("The landlord raised [my|{n}'s] rent to {v}.", "As of January, [my|{n}'s] rent is {v}.",
             "[My|{n}'s] rent climbed to {v}.", "[My|{n}'s] new rent is {v}."),
        ),
    ),
    Attribute(
        "phone",
        ("555-201-3344", "555-412-9087", "555-730-1158", "555-846-2270", "555-919-4063"),
        Wordings(
            ("[My|{n}'s] phone number is {v}.", "[My|{n}'s] number is {v}.", "You can reach [me|{n}] at {v}.",
             "[My|{n}'s] mobile number: {v}."),
            ("[My|{n}'s] new phone number is {v}.", "[My|{n}'s] phone number changed to {v}.",
             "[My|{n}'s] number is now {v}.", "[My|{n}'s] phone number has changed from {o} to {v}."),
        ),
        Wordings(
            ("Call [me|{n}] on {v}.", "[My|{n}'s] cell number is {v}.", "The number to reach [me|{n}] is {v}.",
             "[My|{n}'s] telephone number is {v}."),
            ("[I have|{n} has] a new number: {v}.", "[I|{n}] changed phone numbers, it's {v} now.",
             "Please update [my|{n}'s] phone number to {v}.", "From now on call [me|{n}] on {v}."),
        ),
    ),
    Attribute(
        "partner",
        ("Lena", "Tom", "Sofia", "Paul", "Nadia", "Viktor"),
        Wordings(
            ("[I'm|{n} is] dating {v}.", "[My|{n}'s] partner is {v}.", "[My|{n}'s] partner's name is {v}.",
             "[I'm|{n} is] in a relationship with {v}."),
            ("[I|{n}] started dating {v}.", "[I'm|{n} is] now dating {v}.", "[I|{n}] got engaged to {v}.",
             "[I've|{n} has] started seeing {v}."),
        ),
        Wordings(
            ("{v} is [my|{n}'s] partner.", "[I'm|{n} is] going out with {v}.", "[I'm|{n} is] together with {v}.",
             "[My|{n}'s] better half is called {v}."),
            ("[I|{n}] broke up with {o} and is with {v} now.", "[I'm|{n} is] seeing {v} these days.",
             "[I|{n}] got married to {v}.", "[My|{n}'s] new partner is {v}."),
        ),
    ),
    Attribute(
        "car",
        ("Golf", "Tesla Model 3", "Corolla", "Fiesta", "Octavia", "Mini Cooper"),
        Wordings(
            ("[I drive|{n} drives] a {v}.", "[My|{n}'s] car is a {v}.", "[I'm driving|{n} is driving] a {v}.",
             "[My|{n}'s] car: a {v}."),
            ("[I|{n}] now [drive|drives] a {v}.", "[My|{n}'s] new car is a {v}.",
             "[I|{n}] traded in the {o} for a {v}.", "[I|{n}] replaced the {o} with a {v}."),
        ),
        Wordings(
            ("The car [I drive|{n} drives] is a {v}.", "[I get|{n} gets] around in a {v}.", "[I own|{n} owns] a {v}.",
             "[I'm|{n} is] the owner of a {v}."),
            ("[I|{n}] bought a new car, a {v}.", "[I|{n}] sold the {o} and got a {v}.",
             "[I|{n}] swapped the {o} for a {v}.", "[I|{n}] switched from the {o} to a {v}."),
        ),
    ),
    Attribute(
        "doctor",
        ("Dr. Meyer", "Dr. Novak", "Dr. Osei", "Dr. Lindqvist", "Dr. Patel"),
        Wordings(
            ("[My|{n}'s] doctor is {v}.", "{v} is [my|{n}'s] doctor.", "[My|{n}'s] GP is {v}.",
             "[I'm|{n} is] registered with {v}."),
            ("[I|{n}] switched to {v}.", "[My|{n}'s] new doctor is {v}.", "[I|{n}] changed doctors from {o} to {v}.",
             "[My|{n}'s] doctor is now {v}."),
        ),
        Wordings(
            ("[I see|{n} sees] {v} for check-ups.", "[My|{n}'s] family doctor is {v}.",
             "[I'm|{n} is] a patient of {v}.",
             "[My|{n}'s] physician is {v}."),
            ("[I|{n}] moved from {o} to {v} for check-ups.",
             "[I|{n}] no longer [see|sees] {o}, [my|the] doctor is {v}.",
             "[I've|{n} has] a new doctor: {v}.", "{v} took over from {o} as [my|{n}'s] doctor."),
        ),
    ),
    Attribute(
        "manager",
        ("Ruth", "Oskar", "Priya", "Stefan", "Yuki", "Carmen"),
        Wordings(
            ("[My|{n}'s] boss is {v}.", "[I report|{n} reports] to {v}.", "[My|{n}'s] manager is {v}.",
             "{v} is [my|{n}'s] manager."),
            ("[My|{n}'s] new boss is {v}.", "[I|{n}] now [report|reports] to {v}.", "[My|{n}'s] manager is now {v}.",
             "{v} became [my|{n}'s] manager."),
        ),
        Wordings(
            ("[My|{n}'s] supervisor is {v}.", "{v} is the person [I report|{n} reports] to.",
             "[My|{n}'s] line manager is {v}.", "{v} manages [me|{n}]."),
            ("{v} took over as [my|{n}'s] boss.", "{v} replaced {o} as [my|{n}'s] manager.",
             "[I|{n}] got a new boss, {v}.", "As of Monday [I report|{n} reports] to {v}."),
        ),
    ),
    Attribute(
        "editor",
        ("Vim", "Emacs", "VSCode", "Sublime", "Helix", "Zed"),
        Wordings(
            ("[My|{n}'s] favorite editor is {v}.", "{v} is [my|{n}'s] favourite editor.",
             "[My|{n}'s] favourite editor: {v}.", "[My|{n}'s] favorite code editor is {v}."),
            ("[My|{n}'s] favorite editor is now {v}.", "[My|{n}'s] favourite editor changed to {v}.",
             "[My|{n}'s] favourite editor has changed from {o} to {v}.", "{v} became [my|{n}'s] favorite editor."),
        ),
        Wordings(
            ("The editor [I like|{n} likes] best is {v}.", "[I like|{n} likes] {v} best of all editors.",
             "[My|{n}'s] preferred editor is {v}.", "{v} is the editor [I love|{n} loves] most."),
            ("{v} has become [my|{n}'s] favorite editor.", "[My|{n}'s] new favourite editor is {v}.",
             "{v} has replaced {o} as [my|{n}'s] favorite editor.", "These days [my|{n}'s] favorite editor is {v}."),
        ),
    ),
    Attribute(
        "salary",
        ("52,000 euros", "55,000 euros", "58,500 euros", "61,000 euros", "67,000 euros"),
        Wordings(
            ("[My|{n}'s] salary is {v}.", "[I earn|{n} earns] {v} a year.", "[I make|{n} makes] {v} a year.",
             "[My|{n}'s] salary is {v} per year."),
            ("[My|{n}'s] salary went up to {v}.", "[I|{n}] got a raise to {v}.", "[My|{n}'s] salary is now {v}.",
             "[My|{n}'s] salary was raised from {o} to {v}."),
        ),
        Wordings(
            ("[I'm|{n} is] earning {v} annually.", "[My|{n}'s] yearly salary is {v}.", "[I am|{n} is] paid {v} a year.",
             "[My|{n}'s] pay is {v}."),
            ("[My|{n}'s] salary was bumped to {v}.", "[My|{n}'s] new salary is {v}.",
             "After the review [my|{n}'s] salary is {v}.", "[I|{n}] now [earn|earns] {v}."),
        ),
    ),
)  # fmt: skip
OF_PROJECTS = (
    Attribute(
        "deadline",
        DATES,
        Wordings(
            ("The {n} deadline is {v}.", "The deadline for {n} is {v}.", "{n} is due on {v}.",
             "{n} has to be finished by {v}."),
            ("The {n} deadline was moved to {v}.", "The deadline for {n} is now {v}.",
             "We moved the {n} deadline from {o} to {v}.", "The deadline of {n} has been extended to {v}."),
        ),
        Wordings(
            ("{n} must be delivered by {v}.", "The due date for {n} is {v}.", "We have until {v} to finish {n}.",
             "{n}'s deadline is {v}."),
            ("The {n} deadline slipped to {v}.", "{n} is due {v} now.", "The deadline for {n} got pushed back to {v}.",
             "They postponed the {n} deadline to {v}."),
        ),
    ),
    Attribute(
        "meeting",
        TIMES,
        Wordings(
            ("The {n} standup is at {v}.", "The {n} standup starts at {v}.", "The {n} standup takes place at {v}.",
             "The {n} standup is scheduled for {v}."),
            ("The {n} standup was moved to {v}.", "The {n} standup is now at {v}.",
             "The {n} standup moved from {o} to {v}.", "We moved the {n} standup to {v}."),
        ),
        Wordings(
            ("The {n} standup begins at {v}.", "The standup for {n} is at {v}.", "We hold the {n} standup at {v}.",
             "The {n} standup happens at {v}."),
            ("The {n} standup has been rescheduled to {v}.", "From next week the {n} standup is at {v}.",
             "The {n} standup got pushed to {v}.", "The new time for the {n} standup is {v}."),
        ),
    ),
    Attribute(
        "python",
        ("3.9", "3.10", "3.11", "3.12", "3.13"),
        Wordings(
            ("{n} runs on Python {v}.", "{n} uses Python {v}.", "{n} requires Python {v}.",
             "The Python version of {n} is {v}."),
            ("{n} was upgraded to Python {v}.", "{n} is now on Python {v}.", "{n} moved from Python {o} to Python {v}.",
             "We upgraded {n} to Python {v}."),
        ),
        Wordings(
            ("{n} is running Python {v}.", "{n} targets Python {v}.", "{n} needs Python {v}.", "{n} is on Python {v}."),
            ("{n} switched to Python {v}.", "{n} has been migrated to Python {v}.", "{n} was bumped to Python {v}.",
             "As of today {n} uses Python {v}."),
        ),
    ),
    Attribute(
        "port",
        ("8080", "9090", "3000", "5173", "8443"),
        Wordings(
            ("{n} runs on port {v}.", "{n} listens on port {v}.", "The {n} port is {v}.", "The port of {n} is {v}."),
            ("{n} now runs on port {v}.", "The {n} port changed to {v}.", "The {n} port was changed from {o} to {v}.",
             "{n} moved to port {v}."),
        ),
        Wordings(
            ("{n} is reachable on port {v}.", "{n} is served on port {v}.", "{n} uses port {v}.",
             "{n} is listening on port {v}."),
            ("{n} switched to port {v}.", "We changed the {n} port to {v}.", "{n} has moved from port {o} to port {v}.",
             "The new port for {n} is {v}."),
        ),
    ),
    Attribute(
        "database",
        ("Postgres", "SQLite", "MySQL", "DuckDB", "MongoDB"),
        Wordings(
            ("{n} uses {v}.", "{n}'s database is {v}.", "The {n} database is {v}.", "{n} uses {v} as its database."),
            ("{n} switched to {v}.", "{n} migrated from {o} to {v}.", "{n} now uses {v}.",
             "{n} replaced {o} with {v}."),
        ),
        Wordings(
            ("{n} relies on {v} for its database.", "{n} is using {v}.", "{n} is built on {v}.",
             "The database of {n} is {v}."),
            ("{n} has moved over to {v}.", "{n} dropped {o} in favor of {v}.", "We migrated {n} to {v}.",
             "{n}'s new database is {v}."),
        ),
    ),
    Attribute(
        "budget",
        ("40,000 dollars", "45,000 dollars", "52,000 dollars", "60,000 dollars", "75,000 dollars"),
        Wordings(
            ("The {n} budget is {v}.", "The budget for {n} is {v}.", "{n}'s budget is {v}.",
             "The budget of {n} amounts to {v}."),
            ("The {n} budget was raised to {v}.", "The budget for {n} was cut from {o} to {v}.",
             "The {n} budget is now {v}.", "The {n} budget went down to {v}."),
        ),
        Wordings(
            ("The total budget for {n} is {v}.", "{n} has a budget of {v}.", "We have {v} to spend on {n}.",
             "The {n} budget stands at {v}."),
            ("The budget of {n} has grown to {v}.", "They set the {n} budget to {v}.", "{n}'s new budget is {v}.",
             "The {n} budget was adjusted to {v}."),
        ),
    ),
)  # fmt: skip

# What is true beside what was said before, or no change at all.
BESIDE = (
    "[I like|{n} likes] tea.", "[I like|{n} likes] coffee.", "[I have|{n} has] a cat.", "[I have|{n} has] a dog.",
    "[I speak|{n} speaks] French.", "[I speak|{n} speaks] Polish.", "[I|{n}] visited Vienna in spring.",
    "[I|{n}] visited Prague last weekend.", "[I play|{n} plays] the piano.", "[I play|{n} plays] chess on Sundays.",
    "[I'm|{n} is] allergic to peanuts.", "[I'm|{n} is] allergic to pollen.", "[I|{n}] read a book about whales.",
    "[I used to live|{n} used to live] in Geneva.", "[I|{n}] might move to Zurich one day.",
    "[I am|{n} is] thinking about moving to Dublin.", "[I|{n}] worked at Vandelay ten years ago.",
    "[My|{n}'s] sister lives in Cardiff.", "[My|{n}'s] brother works at Wayne Steel.", "[I own|{n} owns] two bicycles.",
    "[My|{n}'s] mother's phone number is 555-606-7001.", "[My|{n}'s] gym membership costs 35 euros.",
    "[I|{n}] bought a red jacket.", "[I enjoy|{n} enjoys] hiking in the mountains.",
    "[I|{n}] applied for a job at Stark.",
    "[I like|{n} likes] Vim and Emacs.", "[My|{n}'s] office is on the third floor.",
    "[I drove|{n} drove] to Split in July.",
)  # fmt: skip

_EITHER = re.compile(r"\[([^|\]]*)\|([^\]]*)\]")


def said(wording: str, name: str, value: str = "", before: str = "") -> str:
    """The wording with its value; in the first person where the name is ""."""
    text = _EITHER.sub(r"\2" if name else r"\1", wording)
    text = text.replace("{v}", value).replace("{o}", before).replace("{n}", name)
    return text[0].upper() + text[1:]


def statement_histories(
    count: int = LIVES, *, held_out: bool = False, seed: int = 5
) -> Iterator[list[HistoryStatement]]:
    """Each with some 20 to 40 statements, the same for the same seed."""
    for number in range(count):
        yield _life(random.Random(f"{seed} {held_out} {number}"), held_out)


def _life(chance: random.Random, held_out: bool) -> list[HistoryStatement]:
    names = chance.sample(NAMES, 2)
    own = chance.choice(("", names[0]))  # the life of who speaks, or of somebody who is spoken of
    reported: list[tuple[int, str, tuple[str, str], str]] = []
    for attribute in chance.sample(PERSONAL, 4):
        reported += _chain(chance, attribute, own, chance.randint(2, 4), held_out)
    for attribute in chance.sample(PERSONAL, 3):
        reported += _chain(chance, attribute, names[1], chance.randint(1, 2), held_out)
    first, second = chance.sample(PROJECTS, 2)
    for attribute in chance.sample(OF_PROJECTS, 2):
        reported += _chain(chance, attribute, first, chance.randint(2, 3), held_out)
        reported += _chain(chance, attribute, second, 1, held_out)
    for wording in chance.sample(BESIDE, 6):
        reported.append((chance.randrange(900), said(wording, own), (own, wording), ""))
    reported.sort()
    return _labelled(reported, "" if own else chance.choice(("", "Sam")))


def _chain(
    chance: random.Random, attribute: Attribute, name: str, values: int, held_out: bool
) -> list[tuple[int, str, tuple[str, str], str]]:
    """The values of an attribute one after the other, each stated, and now and then stated again in other words."""
    wordings = attribute.held_out if held_out else attribute.tuned
    days = sorted(chance.sample(range(900), values * 2))
    found = []
    before = ""
    for at, value in enumerate(chance.sample(attribute.values, values)):
        wording = chance.choice(wordings.changes if before else wordings.states)
        key = (name, attribute.name)
        found.append((days[2 * at], said(wording, name, value, before), key, value))
        if chance.random() < 0.35:
            again = chance.choice([each for each in wordings.states if each != wording])
            found.append((days[2 * at + 1], said(again, name, value), key, value))
        before = value
    return found


def _labelled(reported: list[tuple[int, str, tuple[str, str], str]], speaker: str) -> list[HistoryStatement]:
    life: list[HistoryStatement] = []
    for day, text, key, value in reported:
        earlier = [i for i, each in enumerate(life) if each.key == key and value]
        same = [i for i in earlier if life[i].value == value]
        is_change = bool(earlier) and not same
        life.append(
            HistoryStatement(
                text,
                AT + day * DAY_MS,
                key,
                value,
                updates=earlier[-1] if is_change else None,
                repeats=same[-1] if same else None,
                speaker=speaker,
            )
        )
    return life

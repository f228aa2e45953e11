"""Made pairs of texts: those that differ in exactly one specific, and those that say the same in other words.

The rewordings are in two halves. Rules may be tuned on what the tuned half shows; the held-out half only counts.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

PAIRS = 2_000


class Pair(NamedTuple):
    """Two texts, and the kind of specific they differ in; "" where they say the same."""

    one: str
    other: str
    kind: str
    language: str = "en"


class Slot(NamedTuple):
    """A sentence with a gap {x}, and what can stand in it: any two make a pair that differs in one specific."""

    kind: str
    sentence: str
    fillings: tuple[str, ...]
    language: str = "en"


_HEX = ("9f2c1ab", "9f2c1ac", "9f3c1ab", "0f2c1ab")
SLOTS = (
    # numbers
    Slot("number", "The invoice comes to {x} dollars.", ("1,250", "1,205", "1250.50", "12,500", "125")),
    Slot("number", "We sold {x} tickets the first evening.", ("twelve", "twenty", "two", "112", "a hundred", "1,200")),
    Slot("number", "The test suite has {x} tests and takes a while.", ("340", "304", "430", "3400", "34")),
    Slot("number", "Interest rates rose by {x} percent.", ("0.5", "0.25", "5", "1.5", "0.05")),
    Slot("number", "She finished {x} in the marathon.", ("first", "second", "third", "fourth", "21st", "22nd")),
    Slot("number", "The recipe needs {x} eggs and some flour.", ("two", "three", "4", "six", "ten")),
    Slot("number", "Retry at most {x} times before giving up.", ("3", "5", "10", "three hundred", "30")),
    Slot("number", "The outside temperature was {x} degrees.", ("-5", "5", "15", "-15", "0")),
    Slot("number", "His blood pressure was 120 over {x} this morning.", ("80", "85", "90", "88")),
    Slot("number", "Chapter {x} explains the proof.", ("1", "2", "11", "12", "7")),
    Slot("number", "The company has {x} million customers.", ("1.2", "12", "2.1", "120", "two")),
    # units
    Slot("unit", "The server has 64 {x} of memory.", ("GB", "MB", "TB", "GiB")),
    Slot("unit", "Take 5 {x} of it every morning.", ("mg", "g", "ml", "mcg", "drops")),
    Slot("unit", "The next village is 12 {x} away.", ("km", "miles", "m", "minutes", "hours")),
    Slot("unit", "The ticket costs 30 {x}.", ("euros", "dollars", "pounds", "francs", "yen")),
    Slot("unit", "Wait 10 {x} and try again.", ("seconds", "minutes", "hours", "ms", "days")),
    Slot("unit", "It was 20 {x} in the shade.", ("°C", "°F")),
    Slot("unit", "The line carries 100 {x}.", ("Mbit", "MB", "Gbit", "kbit")),
    Slot("unit", "The room measures 20 {x}.", ("m2", "ft", "m", "yd")),
    # dates
    Slot("date", "The passport expires on {x}.", ("March 3", "March 13", "May 3", "March 3, 2027", "3 April")),
    Slot("date", "The lecture begins at {x}.", ("3 pm", "3 am", "3:30 pm", "13:00", "noon", "midnight", "15:15")),
    Slot("date", "Garbage is collected on {x}.", ("Monday", "Tuesday", "Thursday", "Sunday", "weekdays")),
    Slot("date", "They have been married since {x}.", ("1998", "1989", "2008", "May 1998", "June 1998")),
    Slot("date", "The release is planned for {x}.", ("2026-01-05", "2026-01-15", "2026-05-01", "2027-01-05")),
    Slot("date", "The dentist can see you {x}.", ("today", "tomorrow", "on Friday", "next week", "next month")),
    Slot("date", "The shop was founded in {x}.", ("January", "February", "June", "July", "may 1901", "1901")),
    # names
    Slot("name", "{x} will bring the cake to the party.", ("Anna", "Anne", "Hannah", "Bob", "The neighbour")),
    Slot("name", "The train from {x} was late again.", ("Berlin", "Bern", "Bergen", "Vienna", "vilnius")),
    Slot("name", "My doctor at the clinic is Dr. {x}.", ("Meyer", "Meier", "Maier", "Novak", "Nowak")),
    Slot("name", "i met {x} at the station yesterday.", ("anna", "tom", "my sister", "my brother", "the plumber")),
    Slot("name", "We bought the washing machine at {x}.", ("Redwood", "Northwind", "the market", "Silverline")),
    Slot("name", "{x} pays {y} for the lessons.", ("Anna|Bob", "Bob|Anna", "Anna|Carl", "Carl|Bob")),
    Slot("name", "The capital that {x} likes most is {y}.", ("Tom|Rome", "Tom|Oslo", "Mia|Rome")),
    Slot("name", "The old bridge over the {x} is closed.", ("Rhine", "Rhone", "Danube", "canal", "river")),
    Slot("name", "The project is written in {x}.", ("Java", "JavaScript", "Rust", "C", "C++", "C#", "Go")),
    Slot("name", "Her favourite dish is {x}.", ("risotto", "ramen", "lasagne", "lentil soup", "pea soup")),
    Slot("name", "The key hangs behind the {x}.", ("door", "mirror", "curtain", "clock")),
    # identifiers
    Slot("identifier", "The build fails with Python {x}.", ("3.11", "3.12", "3.1", "3.10", "3.11.2")),
    Slot("identifier", "The bug came in with commit {x}.", _HEX),
    Slot("identifier", "The log is written to {x} over there.", ("/var/log/a.log", "/var/log/b.log", "/var/a.log")),
    Slot("identifier", "Write to {x} for support.", ("help@example.org", "help@example.com", "hello@example.org")),
    Slot("identifier", "The page moved to {x} last year.",
         ("https://example.org/a", "https://example.org/b", "http://example.org/a", "https://example.org/a?p=2")),
    Slot("identifier", "The service listens on port {x}.", ("8080", "8081", "80", "9090")),
    Slot("identifier", "His number is {x}.", ("555-123-4567", "555-123-4576", "+1 555-123-4567", "555-132-4567")),
    Slot("identifier", "Ticket {x} is still open.", ("PROJ-112", "PROJ-121", "PROD-112", "#112")),
    Slot("identifier", "The address is {x}.", ("192.168.0.1", "192.168.0.10", "192.168.1.1", "10.0.0.1")),
    Slot("identifier", "Set {x} before you start it.", ("MNEMO_HOME", "MNEMO_NAME", "MNEMO_HOME_2")),
    Slot("identifier", "Pass {x} to the script.", ("--force", "--dry-run", "-f", "--no-force", "-v")),
    Slot("identifier", "Call {x} first.", ("init_db()", "init_db2()", "init()", "initDb()", "drop_db()")),
    Slot("identifier", "The licence key is {x}.", ("A7K2-99QX", "A7K2-99QY", "A7K3-99QX")),
    Slot("identifier", "Seat {x} is by the window.", ("14A", "14C", "41A", "15A")),
    # negation
    Slot("negation", "The contract is {x} signed.", ("already", "not", "never", "hardly")),
    Slot("negation", "I {x} eat meat.", ("", "don't", "do not ever", "never", "no longer", "rarely", "always")),
    Slot("negation", "The backup {x} restored.", ("can be", "can't be", "cannot easily be", "could not be", "was")),
    Slot("negation", "Everybody {x} Tom came to dinner.", ("and", "except", "but not", "including", "with", "without")),
    Slot("negation", "We have {x} reason to doubt it.", ("a", "no", "every", "little", "some")),
    Slot("negation", "She {x} in Madrid.", ("lives", "doesn't live", "no longer lives", "lived", "used to live")),
    Slot("negation", "The deploy {x} without warnings.", ("works", "doesn't work", "failed", "fails", "never works")),
    Slot("negation", "It is {x} to open the valve.", ("safe", "unsafe", "not safe", "not unsafe", "dangerous")),
    Slot("negation", "You {x} reboot the router for this.", ("must", "must not", "don't have to", "need not", "may")),
    # opposites
    Slot("opposite", "Turn the heating {x} when you leave.", ("on", "off", "up", "down")),
    Slot("opposite", "Apply the patch {x} the restart.", ("before", "after", "during", "without")),
    Slot("opposite", "The firewall should {x} this traffic.", ("allow", "deny", "block", "log")),
    Slot("opposite", "Costs will {x} this winter.", ("increase", "decrease", "rise", "fall", "stay")),
    Slot("opposite", "He {x} locks the front door.", ("always", "never", "sometimes", "usually")),
    Slot("opposite", "The bathroom is the {x} door.", ("left", "right", "first", "last")),
    Slot("opposite", "{x} of the samples were contaminated.", ("All", "None", "Some", "Most", "Half")),
    Slot("opposite", "Visitors {x} wear a badge.", ("must", "may", "should", "cannot", "can")),
    Slot("opposite", "The road to the lake is {x}.", ("open", "closed", "blocked", "long", "short")),
    Slot("opposite", "The stock went {x} after the news.", ("up", "down", "sideways")),
    Slot("opposite", "The feature is {x} by default.", ("enabled", "disabled", "hidden", "visible")),
    Slot("opposite", "Prices exclude the tax, shipping is {x}.", ("included", "excluded", "extra", "free")),
    Slot("opposite", "The committee {x} the plan.", ("approved", "rejected", "postponed", "accepted", "changed")),
    Slot("opposite", "The meeting is {x} than planned.", ("earlier", "later", "longer", "shorter")),
    Slot("opposite", "Copy the files {x} the server.", ("to", "from", "on", "with")),
    Slot("opposite", "{x} is picking up the kids.", ("He", "She", "They", "I", "My wife", "My husband")),
    Slot("opposite", "The office {x} in the old town.", ("is", "was", "will be", "used to be", "may be")),
    Slot("opposite", "{x} car is in the garage.", ("My", "Your", "Her", "His", "Our", "Anna's")),
    Slot("opposite", "The window faces {x}.", ("north", "south", "east", "west", "north-east")),
    Slot("opposite", "Is the shop {x}", ("open?", "open.", "closed?", "closed.")),
    Slot("opposite", "The value must be x {x} 5 here.", ("<", ">", "<=", ">=", "=", "!=")),
    Slot("opposite", "The {x} of the two drafts is better.", ("older", "newer", "longer", "shorter", "first")),
    # German
    Slot("number", "Die Miete beträgt {x} Euro.", ("900", "950", "1.900", "9,50", "neunzig"), "de"),
    Slot("unit", "Die Flasche fasst 2 {x}.", ("Liter", "ml", "dl", "Gallonen"), "de"),
    Slot("date", "Der Termin ist am {x}.", ("3. März", "13. März", "3. Mai", "03.03.2026", "Montag", "Dienstag"), "de"),
    Slot("date", "Der Zug fährt um {x} ab.", ("9 Uhr", "19 Uhr", "9:15 Uhr", "9 Uhr 45"), "de"),
    Slot("name", "Mein Arzt heißt {x}.", ("Huber", "Hubert", "Gruber", "Maier"), "de"),
    Slot("negation", "Ich esse {x} Fleisch.", ("", "kein", "nie", "immer", "manchmal"), "de"),
    Slot("negation", "Das Angebot gilt {x} für Kunden.", ("", "nicht", "nur", "auch"), "de"),
    Slot("opposite", "Das Licht ist {x}.", ("an", "aus", "hell", "dunkel"), "de"),
    Slot("opposite", "Die Apotheke ist {x} der Bank.", ("vor", "hinter", "neben", "links von", "rechts von"), "de"),
    Slot("opposite", "Du {x} hier parken.", ("darfst", "musst", "kannst", "sollst"), "de"),
    # French
    Slot("number", "Le loyer est de {x} euros.", ("900", "950", "9,50", "neuf cents", "1 900"), "fr"),
    Slot("date", "La réunion est {x}.", ("le 3 mars", "le 13 mars", "le 3 mai", "lundi", "mardi", "à 15h30"), "fr"),
    Slot("name", "Ma sœur habite à {x}.", ("Lyon", "Lille", "Paris", "Nice"), "fr"),
    Slot("negation", "Je {x} du poisson.", ("mange", "ne mange pas", "ne mange jamais", "mange toujours"), "fr"),
    Slot("opposite", "La pharmacie est à {x}.", ("gauche", "droite", "vendre", "louer"), "fr"),
    Slot("opposite", "Le magasin est {x}.", ("ouvert", "fermé", "loin", "près"), "fr"),
    # Chinese
    Slot("number", "房租每个月{x}元。", ("900", "950", "九百五十一", "三千", "1200"), "zh"),
    Slot("date", "会议在{x}举行。", ("三月五日", "3月6日", "五月三日", "星期一", "周二", "下午三点", "上午三点"), "zh"),
    Slot("name", "我姐姐住在{x}。", ("北京", "上海", "南京", "东京"), "zh"),
    Slot("negation", "我{x}喜欢喝茶。", ("", "不", "很", "从不", "没有"), "zh"),
    Slot("opposite", "请把灯{x}。", ("打开", "关上", "关掉", "拿走"), "zh"),
    Slot("opposite", "药店在银行的{x}边。", ("左", "右", "前", "后"), "zh"),
    # Japanese
    Slot("number", "家賃は{x}円です。", ("九万", "9万5千", "80000", "85000"), "ja"),
    Slot("date", "会議は{x}です。", ("三月五日", "3月6日", "月曜日", "火曜日", "午後3時", "午前3時"), "ja"),
    Slot("name", "姉は{x}に住んでいます。", ("東京", "京都", "大阪", "名古屋"), "ja"),
    Slot("negation", "肉を食べ{x}。", ("ます", "ません", "ました", "ませんでした", "たい"), "ja"),
    Slot("opposite", "窓を{x}ください。", ("開けて", "閉めて", "拭いて"), "ja"),
)  # fmt: skip

# What may stand around, the same on both sides.
AROUND = {
    "en": (
        "We talked about it over lunch.", "Nothing else has been decided so far.", "The rest stays as it was.",
        "Please keep this in mind for the next visit.", "It came up twice in the call with the supplier on Tuesday.",
        "Tom wrote it down in the shared notebook, page 14.", "The whole thing took less time than we had feared.",
        "There were 23 people in the room, and not one of them objected.", "The weather was fine until 4 pm.",
        "Afterwards we walked along the river and had an ice cream.", "I will ask Maria about the remaining details.",
    ),
    "de": ("Wir haben beim Essen darüber gesprochen.", "Sonst bleibt alles, wie es war.", "Es waren 23 Leute da."),
    "fr": ("Nous en avons parlé pendant le repas.", "Le reste ne change pas.", "Il y avait 23 personnes."),
    "zh": ("我们吃饭的时候谈过这件事。", "其他的都不变。", "一共来了23个人。"),
    "ja": ("食事のときにその話をしました。", "ほかは何も変わりません。", "23人来ました。"),
}  # fmt: skip


def differing(count: int = PAIRS, seed: int = 3) -> Iterator[Pair]:
    """Pairs that differ in one specific, of one sentence up to a paragraph, the difference anywhere in it."""
    chance = random.Random(seed)
    made: set[tuple[str, str]] = set()
    while len(made) < count:
        slot = chance.choice(SLOTS)
        one, other = (_filled(slot, filling) for filling in chance.sample(slot.fillings, 2))
        around = AROUND[slot.language]
        before = chance.sample(around, chance.choice((0, 0, 0, 1, 2)))
        after = chance.sample(around, chance.choice((0, 0, 0, 1, 3)))
        joint = "" if slot.language in ("zh", "ja") else " "
        pair = (joint.join([*before, one, *after]), joint.join([*before, other, *after]))
        if pair not in made:
            made.add(pair)
            yield Pair(*pair, slot.kind, slot.language)


def _filled(slot: Slot, filling: str) -> str:
    first, _, second = filling.partition("|")
    return " ".join(slot.sentence.replace("{x}", first).replace("{y}", second).split())


# Two ways to say one thing. {a}, {b}, {c} stand for the same on both sides.
_TUNED = (
    ("The meeting is at {t} pm.", "Meeting is at {t}pm"),
    ("I moved to {c}.", "I have moved to {c}."),
    ("Sales grew by {d}%.", "Sales grew by {d} percent."),
    ("It takes two hours.", "It takes 2 hours."),
    ("The deadline is Jan {d}, 2026.", "The deadline is 2026-01-{dd}."),
    ("I can't eat nuts.", "I cannot eat nuts."),
    ("We have 12,000 users.", "We have 12000 users."),
    ("We have {d}k users.", "We have {d},000 users."),
    ("My favourite editor is {e}.", "{e} is my favorite editor."),
    ("I'm working at {f}.", "I am working at {f}."),
    ("On Monday I met {n}.", "I met {n} on Monday."),
    ("I no longer smoke.", "I don't smoke anymore."),
    ("The rent is ${d}00 a month.", "The rent is {d}00 dollars per month."),
    ("My mom lives in {c}.", "My mother lives in {c}."),
    ("{n} doesn't like coffee.", "{n} does not like coffee."),
    ("We're using {e}.", "We are using {e}."),
    ("The train leaves at 15:{dd}.", "The train leaves at 3:{dd} pm."),
    ("Please note that the office is closed.", "The office is closed."),
    ("{n} has bought a car.", "{n} bought a car."),
    ("The colour is red.", "The color is red."),
    ("Call me at 555-{d}23-4567.", "Call me at (555) {d}23-4567."),
    ("It costs €{d}.", "It costs {d} euros."),
    ("My boss is {n}.", "{n} is my boss."),
    ("The app uses Python v3.{d}.", "The app uses Python 3.{d}."),
    ("I have to call {n}.", "I must call {n}."),
    ("{n} is going to visit {c}.", "{n} will visit {c}."),
    ("The flat is located in {c}.", "The apartment is in {c}."),
    ("Right now I live in {c}.", "I currently live in {c}."),
    ("twenty-five people came.", "25 people came."),
    ("Our database is {e}.", "Our DB is {e}."),
    ("The shop opens every day.", "The shop opens daily."),
    ("She's allergic to nuts.", "She is allergic to nuts."),
    ("I was born on May {d}, 1990.", "I was born on {d} May 1990."),
    ("The first floor is empty.", "The 1st floor is empty."),
)  # fmt: skip
_HELD_OUT = (
    ("The call starts at {t} p.m.", "The call starts at {t}:00 PM."),
    ("I've joined {f}.", "I have joined {f}."),
    ("Turnover fell by {d} %.", "Turnover fell by {d}%."),
    ("We waited {d} minutes.", "We waited {d} min."),
    ("The visa expires on the {d}th of March 2027.", "The visa expires on March {d}, 2027."),
    ("{n} won't come to {c}.", "{n} will not come to {c}."),
    ("The file is {d} GB.", "The file is {d}GB."),
    ("The population is 1.{d} million.", "The population is 1,{d}00,000."),
    ("My dad's name is {n}.", "My father's name is {n}."),
    ("{n} is our landlord.", "Our landlord is {n}."),
    ("Yesterday we visited {c}.", "We visited {c} yesterday."),
    ("I'm currently learning Polish.", "I am learning Polish at the moment."),
    ("{n} isn't vegetarian.", "{n} is not vegetarian."),
    ("{n} has moved to {c}.", "{n} moved to {c}."),
    ("We need a new fridge.", "We need a new refrigerator."),
    ("The kids love {c}.", "The children love {c}."),
    ("I get up at 7 am every day.", "Every day I get up at 7 am."),
    ("I live in {c} with my sister.", "With my sister I live in {c}."),
    ("{n} started at {f} in 2019.", "In 2019, {n} started at {f}."),
    ("I work for {f}.", "I'm employed by {f}."),
    ("I really like {c}.", "I like {c} a lot."),
    ("My phone number is 555-{d}23-4567.", "My telephone number is 555 {d}23 4567."),
    ("We decided to use {e}.", "We have decided to use {e}."),
    ("The price is {d}0 euros.", "The price: {d}0 EUR."),
    ("There are {d} chairs.", "There are exactly {d} chairs."),
    ("{n} and I got married.", "I married {n}."),
    ("The team meets on Tuesdays.", "The team meets every Tuesday."),
    ("I bought a bike.", "I purchased a bicycle."),
    ("Lunch is at noon.", "Lunch is at 12:00."),
    ("{n} is a colleague of mine.", "{n} is my colleague."),
    ("The server restarts every day at 3 am.", "The server restarts daily at 03:00."),
    ("I am a fan of {c}.", "I'm a fan of {c}."),
    ("By the way, {n} called.", "{n} called."),
    ("Three of us went.", "3 of us went."),
)  # fmt: skip
_FILLINGS = {
    "c": ("Berlin", "Lisbon", "Oslo", "Kyoto"), "n": ("Anna", "Tom", "Priya", "Hugo"), "e": ("Vim", "Emacs", "SQLite"),
    "f": ("Acme", "Globex", "Initech"), "t": ("2", "3", "4", "11"), "d": ("5", "7", "9"), "dd": ("05", "07", "09"),
}  # fmt: skip


def rewordings(held_out: bool, count: int = 150, seed: int = 4) -> Iterator[Pair]:
    """Pairs that say the same, each wording several times with other fillings."""
    chance = random.Random(f"{seed} {held_out}")
    wordings = _HELD_OUT if held_out else _TUNED
    made: set[tuple[str, str]] = set()
    while len(made) < count:
        one, other = wordings[len(made) % len(wordings)]
        index = chance.randrange(3)
        for gap, fillings in _FILLINGS.items():
            filling = fillings[index] if gap in ("d", "dd") else chance.choice(fillings)
            one, other = one.replace(f"{{{gap}}}", filling), other.replace(f"{{{gap}}}", filling)
        pair = (one, other)
        made.add(pair if pair not in made else (f"{one} {len(made)}", other))
        yield Pair(*pair, "")

"""The closed word lists behind the guard: what can be said in more than one way, and what stands against what.

Nothing here is complete, and nothing need be. A word that is in no list stands for itself alone: the guard then sees a
difference where there may be none, never the other way round.
"""

from collections.abc import Iterator


def listed(words: str) -> frozenset[str]:
    """The words of a list, which blanks and line ends part."""
    return frozenset(words.split())


# What says nothing of its own. No preposition, pronoun or quantifier is here, and nothing that weakens or restricts.
ARTICLES = {
    "en": frozenset({"a", "an", "the"}),
    "de": frozenset({"der", "die", "das", "den", "dem", "des"}),
    "fr": frozenset({"le", "la", "les", "l'"}),
}
LIGHT = listed("please really actually basically also now currently presently nowadays indeed btw fyi hey hi")

# By which a text is taken to be German or French; English is what is neither.
TELLING = {
    "en": listed("the is a of and to in i at my we for it was are has with have not"),
    "de": listed(
        """der die das und ist nicht ich ein eine im am zu mit auf für wir mein meine den dem sind kein keine hat es
        kostet beträgt von bei nach um wird er sie"""
    ),
    "fr": listed("le la les des est et je ne pas un une dans au du nous mon ma mes il elle sont sur en que"),
}

# Different spellings and words for one thing; the first of each stands for all.
_SYNONYMS = """
child kid · children kids · mother mom mum mommy mama · father dad daddy papa · grandmother grandma granny
grandfather grandpa · movie film · movies films · apartment flat · apartments flats · color colour · colors colours
favorite favourite · favorites favourites · center centre · theater theatre · organize organise · gray grey
organized organised · realize realise · realized realised · analyze analyse · license licence · program programme
traveling travelling · traveled travelled · canceled cancelled · canceling cancelling · neighbor neighbour
neighbors neighbours · behavior behaviour · catalog catalogue · buy purchase · bought purchased · buys purchases
start begin commence · started began commenced · starts begins commences · live reside · lives resides
move relocate · moved relocated · moves relocates · big large · bigger larger · biggest largest · quick fast rapid
colleague coworker workmate · colleagues coworkers workmates · photo photograph picture
photos photographs pictures · repo repository · repos repositories · db database · dbs databases
config configuration · app application · apps applications · docs documentation · ok okay · tv television
bike bicycle · bikes bicycles · fridge refrigerator · car automobile · doctor physician dr · mr mister
phone telephone · maybe perhaps possibly · use utilize utilise · uses utilizes utilises · used utilized utilised
help assist · helps assists · helped assisted · finish complete · finished completed · finishes completes
choose pick select · chose picked selected · chooses picks selects · happy glad · sick ill · shop store
street st · avenue ave · gym fitness-studio · exam examination · exams examinations · lab laboratory
info information · admin administrator · auth authentication · spec specification · specs specifications
often frequently · nearly almost · reply respond · replied responded · need require · needs requires
needed required · get receive · got received · gets receives · fix repair · fixed repaired · fixes repairs
hate detest · hates detests · love adore · loves adores · enjoy relish · talk speak · talked spoke · talks speaks
everyone everybody · someone somebody · anyone anybody · until till · although though · toward towards
among amongst · while whilst · delete erase · deleted erased · forbidden prohibited · forbid prohibit
allowed permitted · allow permit · allows permits · show display · shows displays · taxi cab
university uni · maths math mathematics · garbage trash rubbish · petrol gasoline · luggage baggage · lift elevator
nobody no-one · email e-mail · prefer favor favour · prefers favors favours · mobile cellphone · each every
"""

# What is said in several words, and what the guard takes it for; applied once, from left to right, the longest first.
_PHRASES = """
at the moment =
right now =
these days =
as of now =
at present =
at this time =
by the way =
for the record =
as a reminder =
just a reminder =
just so you know =
for your information =
please note that =
note that =
please remember that =
remember that =
keep in mind that =
i want you to know that =
it turns out that =
as far as i know =
is able to = can
are able to = can
am able to = can
is going to = will
are going to = will
am going to = will
is gonna = will
are gonna = will
am gonna = will
have to = must
has to = must
have got to = must
has got to = must
have got = have
has got = has
is located in = in
are located in = in
is situated in = in
is based in = in
are based in = in
am based in = in
in order to = to
so as to = to
as well as = and
as well =
a lot of = many
lots of = many
plenty of = many
due to = because of
owing to = because of
no one = nobody
every day = per day
each day = per day
a day = per day
daily = per day
every week = per week
each week = per week
a week = per week
weekly = per week
every month = per month
each month = per month
a month = per month
monthly = per month
every year = per year
each year = per year
a year = per year
yearly = per year
annually = per year
an hour = per hour
hourly = per hour
gave up = quit
got rid of = removed
get rid of = remove
find out = discover
found out = discovered
take place = happen
takes place = happens
took place = happened
cell phone = mobile
mobile phone = mobile
mobile number = number mobile
phone number = number phone
telephone number = number phone
number of my phone = my number phone
e mail = email
co worker = colleague
co workers = colleagues
wi fi = wifi
log in = login
sign in = login
log on = login
log out = logout
sign out = logout
make use of = use
makes use of = uses
would like to = want to
am fond of = like
is fond of = likes
are fond of = like
am a fan of = like
is a fan of = likes
is not allowed = is forbidden
are not allowed = are forbidden
is not permitted = is forbidden
are not permitted = are forbidden
any more = anymore
any longer = anymore
thank you = thanks
two times = twice
years of age = years old
united states of america = USA
united states = USA
united kingdom = UK
new york city = NYC
sends an email = emails
is called = name is
am called = name is
"""

# Verbs of events, base, past, participle and present participle: `has moved` says what `moved` says. A state is none:
# who has lived somewhere may live there still.
_EVENTS = """
move moved moved moving · relocate relocated relocated relocating · buy bought bought buying
purchase purchased purchased purchasing · start started started starting · begin began begun beginning
join joined joined joining · leave left left leaving · quit quit quit quitting · finish finished finished finishing
complete completed completed completing · decide decided decided deciding · change changed changed changing
switch switched switched switching · sell sold sold selling · get got gotten getting · book booked booked booking
meet met met meeting · marry married married marrying · sign signed signed signing
cancel canceled canceled canceling · postpone postponed postponed postponing
reschedule rescheduled rescheduled rescheduling · agree agreed agreed agreeing
adopt adopted adopted adopting · hire hired hired hiring · visit visited visited visiting · send sent sent sending
receive received received receiving · order ordered ordered ordering · pay paid paid paying · win won won winning
lose lost lost losing · find found found finding · upgrade upgraded upgraded upgrading
migrate migrated migrated migrating · deploy deployed deployed deploying · release released released releasing
merge merged merged merging
fix fixed fixed fixing · write wrote written writing · read read read reading · go went gone going
come came come coming · arrive arrived arrived arriving · return returned returned returning · add added added adding
remove removed removed removing · delete deleted deleted deleting · raise raised raised raising · rise rose risen rising
fall fell fallen falling · drop dropped dropped dropping · choose chose chosen choosing · pick picked picked picking
become became become becoming · see saw seen seeing · open opened opened opening · close closed closed closing
rename renamed renamed renaming · rent rented rented renting · learn learned learned learning
ship shipped shipped shipping · submit submitted submitted submitting · stop stopped stopped stopping
turn turned turned turning · set set set setting
give gave given giving · take took taken taking · make made made making · break broke broken breaking
"""
# Verbs whose `is …ing` says what the plain present says.
_PRESENT = """
work works working · live lives living · use uses using · run runs running · study studies studying
drive drives driving · rent rents renting · learn learns learning · teach teaches teaching · play plays playing
pay pays paying · stay stays staying · read reads reading · listen listens listening · wear wears wearing
plan plans planning · prefer prefers preferring · save saves saving · lead leads leading · manage manages managing
"""

# Words of which each stands against every other of its line.
_OPPOSITES = """
on off · before after · earlier later sooner · increase decrease reduce · increases decreases reduces
increased decreased reduced · rise fall drop · rises falls drops · rose fell dropped
allow deny forbid block prohibit · allows denies forbids blocks · allowed denied forbidden blocked
always never sometimes usually rarely · left right · up down · in out · open closed close shut · opened closed
enable disable · enables disables · enabled disabled · start stop end · starts stops ends · started stopped ended
win lose · wins loses · won lost · buy sell · buys sells · bought sold · true false · yes no · with without
above below · over under · more less fewer · most least · max min · maximum minimum · first last
all some none no any · every some · both neither · and or · must may might can should could · will may might
import export · push pull · upload download · read write · reads writes · add remove · adds removes · added removed
accept reject refuse decline · accepts rejects refuses declines · accepted rejected refused declined
approve reject · approves rejects · approved rejected · pass fail · passes fails · passed failed · hot cold · warm cool
big small · long short · high low · higher lower · fast slow · faster slower · old new young · older newer younger
early late · north south · east west · public private · internal external · local remote · love hate · loves hates
like dislike hate · likes dislikes hates · good bad · better worse · best worst · cheap expensive
safe dangerous unsafe · possible impossible · valid invalid · legal illegal · visible hidden · lock unlock
locked unlocked · mount unmount · encrypt decrypt · encrypted decrypted · connect disconnect
connected disconnected · login logout · active inactive · online offline · present absent · include exclude
includes excludes · included excluded · including excluding · for against · from to · is was · today tomorrow yesterday
next previous last · inside outside · top bottom · front back · upper lower · vertical horizontal · male female
husband wife · brother sister · mother father · son daughter · uncle aunt · he she they · his her their · him her
i you he she they we · my your his her their our · me you him her · this that these those · here there
permanent temporary · required optional · mandatory optional · sync async · synchronous asynchronous
vegan vegetarian · single married divorced · employed unemployed · healthy sick · alive dead · full empty · rich poor
hard soft easy · difficult easy · wet dry · clean dirty · light dark heavy · day night · plus minus
gain lose · gained lost · borrow lend · borrowed lent · give take receive · gave took received · gives takes
send receive · sends receives · sent received · arrive leave depart · arrives leaves departs · arrived left departed
come go · came went · many few · only also · ascending descending · positive negative · parent child · odd even
input output · guilty innocent · upgrade downgrade · upgraded downgraded · raise lower · raised lowered · hire fire
hired fired · trust distrust · agree disagree · agreed disagreed · appear disappear · encourage discourage
within outside beyond · success failure · sunrise sunset · morning evening · ancestor descendant · teacher student
employer employee · landlord tenant · attack defend · attacked defended · expand shrink · expanded shrank
inner outer · major minor · horizontal vertical · cause prevent · causes prevents · supports opposes
auf ab zu · vor nach · immer nie manchmal · links rechts · an aus · mit ohne · mehr weniger · alle einige keine
erlaubt verboten · muss darf kann soll · offen geschlossen · ein kein · eine keine · ja nein · oben unten · und oder
avant après · toujours jamais parfois · gauche droite · avec sans · plus moins · tous certains aucun · oui non
ouvert fermé · doit peut · haut bas · dans hors · et ou · autorisé interdit
前 后 · 前 後 · 左 右 · 上 下 · 开 关 · 大 小 · 高 低 · 多 少 · 早 晚 · 进 出 · 买 卖 · 有 无 没 · 増 減 · 增 减 · 入 出
"""

NEGATIONS = listed(
    """not never no none nobody nothing nowhere neither nor without except unless fail fails failed lack lacks lacked
    longer anymore hardly barely ain't nicht nie niemals kein keine keinen keinem keiner ohne außer weder nichts
    niemand ne n' pas jamais aucun aucune sans rien personne sauf ni 不 没 沒 未 无 無 非 别 勿 莫 ず ぬ ん"""
)
# What sets how firmly, how much or when something holds: it differs as an opposite does.
OPERATORS = listed(
    """must may might can could should shall will would all some none any every both either few many several most only
    even was used is ?"""
)

_UNITS = """
second s sec secs seconds sekunde sekunden seconde secondes 秒 · minute min mins minutes minuten 分 分钟 分鐘
hour h hr hrs hours stunde stunden heure heures 小时 小時 時間 · day days tag tage tagen jour jours 天
week wk wks weeks woche wochen semaine semaines 周 週間 · month mo months monat monate monaten mois 个月 ヶ月
year yr yrs years jahr jahre jahren an ans année années · millisecond ms msec milliseconds · µs us microseconds · ns
mm millimeter millimeters millimetre millimetres · cm centimeter centimeters centimetre centimetres zentimeter
m meter meters metre metres 米 メートル · km kilometer kilometers kilometre kilometres kilometern 公里 キロ
mi mile miles · ft foot feet · in" inch inches · yd yard yards · mg milligram milligrams · g gram grams gramm
kg kilo kilos kilogram kilograms kilogramm 公斤 · lb lbs pound-weight · oz ounce ounces · t tonne tonnes tons ton
ml milliliter milliliters millilitre millilitres · l liter liters litre litres · byte bytes
kB KB kilobyte kilobytes · MB megabyte megabytes · GB gigabyte gigabytes · TB terabyte terabytes · PB petabyte
KiB · MiB · GiB · TiB · kbit kb · Mbit Mb · Gbit Gb · Mbps · Gbps · MB/s · GB/s · km/h kmh kph · mph · m/s
°C celsius · °F fahrenheit · W watt watts · kW kilowatt kilowatts · MW · kWh · V volt volts · A amp amps · mAh
Hz hertz · kHz · MHz megahertz · GHz gigahertz · % percent percents prozent pour-cent pct · ‰
USD $ dollar dollars US$ · EUR € euro euros · GBP £ · JPY ¥ yen 円 日元 · CNY yuan rmb 元 块 · CHF · INR ₹ rupee rupees
cent cents · px pixel pixels · dpi · rpm · db decibel decibels · kcal · cal · m2 m² sqm · km2 km²
"""

_NUMBER_WORDS = {
    "en": """0 zero · 1 one · 2 two · 3 three · 4 four · 5 five · 6 six · 7 seven · 8 eight · 9 nine · 10 ten
    11 eleven · 12 twelve · 13 thirteen · 14 fourteen · 15 fifteen · 16 sixteen · 17 seventeen · 18 eighteen
    19 nineteen · 20 twenty · 30 thirty · 40 forty · 50 fifty · 60 sixty · 70 seventy · 80 eighty · 90 ninety""",
    "de": """2 zwei · 3 drei · 4 vier · 5 fünf · 6 sechs · 7 sieben · 8 acht · 9 neun · 10 zehn · 11 elf · 12 zwölf
    20 zwanzig · 30 dreißig · 40 vierzig · 50 fünfzig · 60 sechzig · 70 siebzig · 80 achtzig · 90 neunzig""",
    "fr": """2 deux · 3 trois · 4 quatre · 5 cinq · 6 six · 7 sept · 8 huit · 9 neuf · 10 dix · 11 onze · 12 douze
    13 treize · 14 quatorze · 15 quinze · 16 seize · 20 vingt · 30 trente · 40 quarante · 50 cinquante · 60 soixante""",
}
MULTIPLIERS = {
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
    "billion": 10**9,
    "tausend": 1000,
    "millionen": 10**6,
    "milliarden": 10**9,
    "mille": 1000,
    "millions": 10**6,
    "milliards": 10**9,
}
ATTACHED_MULTIPLIERS = {"k": 1000, "K": 1000, "M": 10**6, "mn": 10**6, "mio": 10**6, "bn": 10**9}
_ORDINALS = """
1 first · 2 second · 3 third · 4 fourth · 5 fifth · 6 sixth · 7 seventh · 8 eighth · 9 ninth · 10 tenth
11 eleventh · 12 twelfth · 13 thirteenth · 14 fourteenth · 15 fifteenth · 20 twentieth · 30 thirtieth
"""
_MONTHS = """
1 january jan januar jänner janvier · 2 february feb februar février · 3 march mar märz mars · 4 april apr avril
5 may mai · 6 june jun juni juin · 7 july jul juli juillet · 8 august aug août · 9 september sep sept septembre
10 october oct oktober octobre · 11 november nov novembre · 12 december dec dezember décembre
"""
_WEEKDAYS = """
1 monday mon montag lundi · 2 tuesday tue tues dienstag mardi · 3 wednesday wed mittwoch mercredi
4 thursday thu thur thurs donnerstag jeudi · 5 friday fri freitag vendredi · 6 saturday sat samstag samedi
7 sunday sun sonntag dimanche
"""
RELATIVE_DAYS = listed("today tomorrow yesterday tonight heute morgen gestern aujourd'hui demain hier")
# Which month and weekday names are other words too; in small letters they count as a date only beside one.
AMBIGUOUS_DATES = listed("may mar march jan jun mai mars sat sun mon wed thu fri morgen dec")
CURRENCIES = frozenset({"USD", "EUR", "GBP", "JPY", "CNY", "CHF", "INR", "%"})


def _lines(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        for group in line.split("·"):
            if words := group.split():
                yield words


def _numbered(text: str) -> dict[str, int]:
    return {word: int(number) for number, *words in _lines(text) for word in words}


def _phrases() -> dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]]:
    """By first word: what follows it, and what all of it stands for; the longest first."""
    found: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for line in _PHRASES.strip().splitlines():
        said, _, meant = line.partition("=")
        first, *rest = said.split()
        found.setdefault(first, []).append((tuple(rest), tuple(meant.split())))
    for each in found.values():
        each.sort(key=lambda phrase: -len(phrase[0]))
    return found


def _opposites() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for words in _lines(_OPPOSITES):
        for word in words:
            found.setdefault(SYNONYMS.get(word, word), set()).update(SYNONYMS.get(other, other) for other in words)
    return {word: frozenset(others - {word}) for word, others in found.items()}


SYNONYMS = {word: words[0] for words in _lines(_SYNONYMS) for word in words[1:]}
PHRASES = _phrases()
OPPOSITES = _opposites()
UNITS = {unit: units[0] for units in _lines(_UNITS) for unit in units}
NUMBER_WORDS = {language: _numbered(words) for language, words in _NUMBER_WORDS.items()}
ORDINALS = _numbered(_ORDINALS)
MONTHS = _numbered(_MONTHS)
WEEKDAYS = _numbered(_WEEKDAYS)
PAST_OF = {participle: past for _, past, participle, _ in _lines(_EVENTS)} | {
    past: past for _, past, _, _ in _lines(_EVENTS)
}
PARTICIPLES = frozenset(PAST_OF)
PRESENT_OF = {going: (base, present) for base, present, going in _lines(_PRESENT)}

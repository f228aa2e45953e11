"""As much English as it takes to tell a sentence from a fragment: verb forms, pronouns, names. SPEC 5.6

A word list, not a grammar: what is not in it is not understood, and what is not understood is left alone.
"""

from typing import Literal

Number = Literal["I", "one", "many"]
Form = Literal["base", "third", "past", "aux"]


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Regular verbs, by their base form.
_REGULAR = """
accept add admire adopt agree allow answer appear apply arrive ask attend bake bark believe belong block boil book
borrow browse call camp care carry cause celebrate change check claim clean climb close coach collect compile complain
complete connect consist contain cook cost cover crash crave create cross cry cure dance date decide decline delete
deliver depend deploy design despise detest develop die direct disable dislike divorce download dream dress earn edit
employ enable encrypt end enjoy enter exceed exercise exist expect expire explain export fail fear fill finish fish fit
fix follow force found free gain garden graduate handle happen hate head heat help hike hire host hurry identify ignore
import improve include inherit install intend invent invest invite jog join jump keep kill knit label land last laugh
launch learn lecture like limit list listen live load lock log look love manage march mark marry match matter measure
melt mention merge migrate monitor mount move name need note notice offer open operate order organise organize own paint
park pass pay perform phone photograph pick plan plant play point practise practice prefer prepare present prevent print
process produce promise protect provide publish pull purchase push race reach receive recommend record refuse register
reject relax release rely remain remember remove rename rent repair replace reply report request require rescue research
resign respond restart result retire return reuse review roast row sail sample save schedule search seem serve share
shop ship sign ski skip smoke snore snow sort sound spell stand start stay stop store study subscribe suffer suggest
supervise supply support survive swap switch sync talk target taste test tolerate touch trade train translate travel
treat trust try turn type understand update upgrade upload use vacuum value verify visit volunteer vote wait walk want
warn wash waste watch water weigh welcome wish work worry wrap yell
"""
# base, past and participle where they differ.
_IRREGULAR = """
be was been; become became become; begin began begun; bite bit bitten; blow blew blown; break broke broken; bring
brought brought; build built built; burn burnt burnt; buy bought bought; catch caught caught; choose chose chosen; come
came come; deal dealt dealt; do did done; draw drew drawn; drink drank drunk; drive drove driven; eat ate eaten; fall
fell fallen; feed fed fed; feel felt felt; fight fought fought; find found found; fly flew flown; forget forgot
forgotten; forgive forgave forgiven; get got got; give gave given; go went gone; grow grew grown; hang hung hung; have
had had; hear heard heard; hide hid hidden; hold held held; keep kept kept; know knew known; lead led led; leave left
left; lend lent lent; lie lay lain; lose lost lost; make made made; mean meant meant; meet met met; pay paid paid; ride
rode ridden; ring rang rung; rise rose risen; run ran run; say said said; see saw seen; sell sold sold; send sent sent;
shoot shot shot; show showed shown; sing sang sung; sit sat sat; sleep slept slept; speak spoke spoken; spend spent
spent; stand stood stood; steal stole stolen; swim swam swum; take took taken; teach taught taught; tell told told;
think thought thought; throw threw thrown; understand understood understood; wake woke woken; wear wore worn; win won
won; write wrote written
"""
# Whose base form is their past as well: "I read it" does not say when.
TIMELESS = word_set("read put cut set let hit cost quit hurt shut spread beat bet split")

_DOUBLING = word_set("plan stop shop ship log jog fit knit swap skip prefer admit commit drop grab hug nap rob")


def _third(base: str) -> str:
    if base in {"have", "be", "do", "go"}:
        return {"have": "has", "be": "is", "do": "does", "go": "goes"}[base]
    if base.endswith(("s", "x", "z", "ch", "sh", "o")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeou":
        return base[:-1] + "ies"
    return base + "s"


def _past(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base in _DOUBLING:
        return base + base[-1] + "ed"
    if base.endswith("y") and base[-2] not in "aeou":
        return base[:-1] + "ied"
    return base + "ed"


_PARTS = {parts[0]: (parts[1], parts[2]) for parts in (each.split() for each in _IRREGULAR.split(";"))}
_BASES = word_set(_REGULAR) | _PARTS.keys() | TIMELESS
BASE_OF_THIRD = {_third(base): base for base in sorted(_BASES)}
BASE_OF_PAST = {
    **{_past(base): base for base in sorted(_BASES) if base not in _PARTS and base not in TIMELESS},
    **{past: base for base, (past, _) in _PARTS.items() if base != "be"},
}
PARTICIPLES = frozenset(BASE_OF_PAST) | {participle for _, participle in _PARTS.values()} | TIMELESS | {"born", "based"}

AUX_ONE = word_set("is isn't has hasn't does doesn't")
AUX_MANY = word_set("are aren't have haven't do don't")
AUX_FIRST = word_set("am have haven't do don't")
AUX_PAST = word_set("was wasn't were weren't had hadn't did didn't")
MODALS = word_set("can can't cannot could couldn't will won't must mustn't should shouldn't shall may might would")
BE = word_set("am is are was were isn't aren't wasn't weren't")

NEGATIONS = word_set(
    """
    not no never none nobody nothing nowhere neither nor cannot without hardly barely scarcely rarely seldom nicht
    kein keine keinen keinem keiner nie niemals nichts ohne pas jamais rien aucun aucune sans
    """
)
HEDGES = word_set(
    """
    think thinks thought believe believes believed guess guesses suppose supposes assume assumes feel feels felt
    maybe perhaps probably possibly apparently presumably seemingly allegedly supposedly reportedly likely unlikely
    seems seem seemed appears appear appeared hopefully heard hear hears say says said told tells tell claim claims
    claimed know knows knew hope hopes hoped doubt doubts expect expects expected wonder wonders almost roughly
    approximately around vielleicht wahrscheinlich vermutlich glaube denke meine peut-être probablement crois pense
    """
)
# After these a clause hangs on another one, which must not be cut off.
SUBORDINATORS = word_set(
    """
    if because since unless although though while when whenever before after until till that which who whom whose
    where wherever whether than as once so provided except despite instead rather lest
    """
)
SUPPOSED = word_set("would wouldn't might mightn't could couldn't suppose imagine pretend wish hypothetically")
OTHERS_WORD = word_set("you your yours yourself yourselves you're you've you'll you'd u ur")

PREPOSITIONS = word_set(
    """
    in on at to from for with of by about into onto over under near behind between through during against among
    around across along beside besides beyond inside outside off up down out via per toward towards within without
    """
)
DETERMINERS = word_set(
    "the a an my our his her its their every each all some many most several few both any no another"
)
ADVERBS = word_set(
    """
    usually often always never also still really currently now just already mostly generally sometimes only rarely
    even typically normally hardly barely almost recently once then soon too ever both either definitely certainly
    actually basically simply probably possibly apparently maybe perhaps
    """
)
ARE_NO_LY_ADVERBS = word_set("family italy july reply supply apply rely fly only lily emily sally kelly billy molly")
DATES = word_set(
    """
    monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december mondays tuesdays wednesdays thursdays fridays saturdays sundays easter
    christmas
    """
)
TIME_NOUNS = word_set("week weeks month year morning afternoon evening night summer winter spring autumn weekend time")
COUNTS = word_set("two three four five six seven eight nine ten eleven twelve twenty hundred")

HER = word_set(
    """
    mother mom mum mommy sister wife girlfriend daughter aunt grandmother grandma niece woman girl lady queen
    actress waitress bride widow fiancée
    """
)
HIM = word_set(
    """
    father dad daddy brother husband boyfriend son uncle grandfather grandpa nephew man boy gentleman king actor
    groom widower fiancé
    """
)
SOMEONE = word_set(
    """
    cat dog horse pony puppy kitten pet bird rabbit hamster
    doctor boss friend colleague manager neighbour neighbor teacher student engineer nurse lawyer partner cousin
    child kid parent baby client customer coach professor director assistant designer developer dentist landlord
    tenant guest roommate flatmate person user author owner founder ceo cto president minister editor writer artist
    singer driver pilot chef baker officer spouse classmate mentor therapist accountant plumber gardener intern
    recruiter
    """
)
WOMEN = word_set(
    """
    anna ana anne ann alice amy andrea angela barbara bella beatrice carla carmen carol caroline catherine charlotte
    chloe christina claire clara daniela diana dora elena elisa elizabeth ella emily emma erika eva eve fatima fiona
    franziska grace greta hannah heidi helen helena ines inês irene isabel jane janet jennifer jessica joan johanna
    julia karen kate katharina katherine laura lea lena leonie lisa lucy luisa maja margaret maria marie marta
    martha mary maya mia monika nadia nancy natalie nina nora olga olivia patricia paula petra priya rachel rebecca
    rita rosa ruth sally sandra sara sarah sofia sonia sophia sophie stella susan sylvia tanja teresa tina ursula
    vera victoria yuki zoe
    """
)
MEN = word_set(
    """
    aaron adam ahmed alan albert alexander andreas andrew anton antonio arthur ben benjamin bernd bob boris brian
    bruno carl carlos charles christian christopher daniel david dennis dieter dmitri edward emil eric erik ethan
    felix fernando finn frank franz fred frederik gabriel george gerald greg gustav hans harry heinrich henry
    hiroshi hugo ian ivan jack jakob james jan jason javier jens joe joel johannes john jonas jonathan jorge jose
    joseph juan jürgen karl kenji kevin klaus lars leo leon louis luca lucas luis lukas marco marcus mario mark
    markus martin mateo matthew max michael miguel mohammed moritz nico niklas nikolai noah oliver omar oscar oskar
    otto pablo patrick paul pedro peter philip pierre rafael raj ralf ravi richard robert roger roland rudolf samuel
    scott sebastian simon stefan stephen steve steven sven theo thomas tim tobias tom tomas uwe victor vincent
    walter werner wilhelm william wolfgang
    """
)
EXPLETIVE = word_set(
    """
    seems seemed appears appeared takes took turns turned happens happened depends rains snows
    """
)
SHARED = word_set(
    """
    both either neither together respectively between each only even let lets help helps make makes not-only then
    """
)
PLACE_PREPOSITIONS = frozenset(("in", "near", "to", "from", "at", "around", "outside", "through", "via"))
WEATHER = word_set("rains rained raining snows snowed snowing rain snow")
PLURALS = word_set("people children men women parents police twins")
SAYING = word_set(
    """
    say says said think thinks thought know knows knew hope hopes hoped hear hears heard tell tells told show shows
    showed mean means meant believe believes believed see sees saw claim claims claimed find finds found report
    reports reported explain explained
    """
)

# What is said of these together cannot be said of them one by one.
QUANTIFIERS = word_set(
    "a an no nobody none nothing few some someone somebody something any anyone anybody many most several or hardly "
    "half two three four five six seven eight nine ten eleven twelve twenty hundred"
)


def is_finite(word: str, number: Number) -> Form | None:
    """What kind of finite verb the word is with such a subject, None when it is none."""
    if word in AUX_PAST or word in MODALS:
        return "aux"
    if word in BASE_OF_PAST or word in TIMELESS:
        return "past"
    if number == "one":
        return "aux" if word in AUX_ONE else "third" if word in BASE_OF_THIRD else None
    if word in (AUX_MANY if number == "many" else AUX_FIRST):
        return "aux"
    return "base" if word in _BASES else None


def is_inflected(word: str) -> bool:
    """Whether it is a verb that has its subject before it: rose, runs, is."""
    return word in BASE_OF_PAST or word in BASE_OF_THIRD or word in AUX_ONE or word in AUX_MANY or word in AUX_PAST


def is_base(word: str) -> bool:
    return word in _BASES


def third_person(word: str) -> str | None:
    """What "I" takes, as a name takes it; None for what does not say when it was, or is not known."""
    known = {"am": "is", "have": "has", "do": "does", "don't": "doesn't", "haven't": "hasn't"}
    if word in known:
        return known[word]
    if word in AUX_PAST or word in MODALS:
        return None if word in {"were", "weren't"} else word
    if word in TIMELESS:
        return None
    if word in _BASES:
        return _third(word)
    return word if word in BASE_OF_PAST else None


def is_adverb(word: str) -> bool:
    return word in ADVERBS or (len(word) > 4 and word.endswith("ly") and word not in ARE_NO_LY_ADVERBS)

"""Growth of the cost of a text with its length: every compiled pattern and text function, and hostile texts.

A pattern is found wherever a module keeps it: the modules' dictionaries are followed into tuples, tables, classes and
closures. The repetitions a pattern is driven with are drawn from the pattern itself.
"""

import ast
import gc
import importlib
import pkgutil
import re
import time
import types
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple, TypeVar

from mnemo_core.ingest.attributes.attribute_claims import CLAIM_CHARS_MAX
from mnemo_core.text.lazy_patterns import LazyPattern, lazy_pattern

T = TypeVar("T")

PACKAGES = ("mnemo_core", "mnemo_daemon", "mnemo_store", "mnemo_client")
SIZES = (1024, 2048, 4096, 8192)
RATIO_MAX = 2.6  # of one doubling
UNITS_MAX = 40  # of `unit_seconds`, for a text of SIZES[-1] characters
FLOOR_UNITS = 0.8  # below it the ratio says nothing: the clock and the caches are as large
TRIES = 12

# What has cost more than its length somewhere, or stands for what does: repeated as it is and before a long line.
NASTY = (
    "a", "A", "Ab ", "a ", " ", "\n", "\t", "\n\t", " \n", "\r\n", "\u00a0", "\u3000", "1", "1 ", "12 ", "1,",
    "1.", "1:", "1-", "1/", "01/02/2026 ", "2026-05-03 ", "12:30 ", "½", "½ ", "%", "$1 ", "三", "三 ", "三天",
    "月", "五月三日", "上", "的", "今天", "ー", "ア", "さん", "は", "。", "、", "一つ", "한", "ä", "é", "ß",
    "ſ", "İ", "Ⅷ", "😀", "e\u0301", "\u200b", "\u202e", "May 3 ", "May ", "3 May ", "on ", "in ", "last week ",
    "last ", "next Friday ", "week ", "since ", "from to ", "letzte Woche ", "am 3. Mai ", "vor ",
    "la semaine dernière ", "le 3 mai ", "il y a ", "先週", "昨日", "three days ago ", "at 5 pm ",
    "tomorrow at ", "every ", "not ", "n't ", "no longer ", "I ", "I'm\n", "I'm ", "I am ", "he ", "she ",
    "is ", "is a ", "my ", "My name is ", "the ", "and ", ", ", "; ", ": ", ". ", ".", "...", "…", "!", "?",
    "? ", "! ", "-", "--", "---\n", "- ", "- a\n", "* ", "*", "**", "_", "__", "#", "# ", "## a\n", "#a ", "=",
    "===\n", "+", "+-", "|", "| a ", "| a |\n", "|-|\n", "> ", ">", "<", "<a ", "<!--", "<memory>", "<memory ",
    "</memory>", "<private>", "<private ", "<memory id=\"1\">\n", "&", "&amp;", "(", ")", "()", "[", "]", "[[",
    "[[a", "[[a]]", "[ ] ", "](", "{", "}", "{}", "'", "\"", "\"a", "'s ", "“", "”", "„", "«", "「", "`", "``",
    "```", "```\n", "~~~\n", "`a", "`a` ", "\\", "/", "//", "/a", "a/", "./", "../", "a.py ", "a.b", "a_b",
    "aB", "a-b-", "a@", "@", "@a", "a@b.", "a@b.c ", "http://", "https://a ", "www.", "a:b@", "://", "a=b ",
    "key=", "password=", "password: ", "token ", "bearer ", "sk-", "ghp_", "eyJ", "eyJa.", "AKIA",
    "-----BEGIN ", "-----BEGIN RSA PRIVATE KEY-----\n", "api_key", "Authorization: ", "machine a login ",
    "curl -u ", "mysql -p", "User: ", "User: a\n", "Assistant: a\n", "Anna: ", "[12:30] Anna: ", "A: b\n",
    "a::b", ":a:", ":PROPERTIES:\n", ":END:\n", "#+begin_src\n", "#+title: a\n", "* DONE a\n", ".. a::\n",
    "..\n", "a\n===\n", "a\n\n", "\n\n\n", " a\n", "    a\n", "\ta\n", "1. a\n", "1) ", "• ", "– ", "— ", "~",
    "~ ", "^", "Dr. ", "e.g. ", "z.B. ", "U.S. ", "A. ", "A.", "Mr. A ", "INFO ", "ERROR: ", "Error: ",
    "at a.b(c:1)\n", "Traceback ", "File \"a\", line 1\n", "50% ", "[=====", "ok ", "thanks ", "haha", "ha",
    "lol ", "yes ", "let's ", "we decided ", "to ", "prefer ", "I prefer ", "always ", "never ", "i like ",
    "because ", "if ", "when ", "who ", "what ", "remember ", "please ", "step 1 ", "first then ", "you ",
    "can you ", "Ich bin ", "ich ", "mag ", "nicht ", "je ", "j'", "j'aime ", "ne ", "我", "我喜欢", "是",
    "住在", "私は", "好き", "です", "0x", "deadbeef", "v1.2.3 ", "1e9", "1_000", "1 000", "1.000,", "10 km ",
    "10:30 am ", "€5 ", "5€", "x²", "°", "id 1 ", "recalled: ", "memory 1: ", "a,b,c\n", "\"a\",\"b\"\n", "\0",
    "\x1b[0m",
)  # fmt: skip


class Pattern(NamedTuple):
    """A compiled pattern, and where it is kept."""

    place: str
    pattern: re.Pattern[Any]


@cache
def modules() -> list[types.ModuleType]:
    """Every module of the packages."""
    found = []
    for name in PACKAGES:
        package = importlib.import_module(name)
        found.append(package)
        names = [each.name for each in pkgutil.walk_packages(package.__path__, f"{name}.")]
        found += [importlib.import_module(each) for each in names if not each.endswith("__main__")]
    return found


@cache
def patterns() -> list[Pattern]:
    """Every compiled pattern that something in the packages holds, each text and flags once."""
    found: dict[tuple[Any, int], Pattern] = {}
    seen = {id(vars(module)) for module in modules()}
    for module in modules():
        waiting: list[tuple[str, Any]] = [(f"{module.__name__}.{name}", each) for name, each in vars(module).items()]
        while waiting:
            place, each = waiting.pop()
            if isinstance(each, LazyPattern):
                each = each.compiled()
            if isinstance(each, re.Pattern):
                key = (each.pattern, each.flags)
                if key not in found or _is_home(each, place):
                    found[key] = Pattern(place, each)
            elif id(each) not in seen and _is_ours(each):
                seen.add(id(each))
                waiting += [(place, inner) for inner in _held(each)]
    return [*found.values(), *_written_in_functions(found)]


def _is_home(pattern: re.Pattern[Any], place: str) -> bool:
    """True if the place is where the pattern is made, not where it is imported: there its name is used."""
    module, _, name = place.rpartition(".")
    return (module, name) in _uses()


def _is_ours(each: object) -> bool:
    """True if it may hold a pattern of ours: a table or tuple, or what a class of the packages made."""
    if isinstance(each, dict | list | tuple | set | frozenset | types.CellType | types.MappingProxyType):
        return True
    owner = getattr(each, "__module__", None) or type(each).__module__
    return str(owner).startswith(PACKAGES) and not isinstance(each, types.ModuleType)


def _held(each: object) -> list[Any]:
    if isinstance(each, types.FunctionType):  # its globals are the module's, which is looked through by itself
        return [each.__closure__, each.__defaults__, each.__kwdefaults__]
    return gc.get_referents(each)


@cache
def _uses() -> dict[tuple[str, str], set[str]]:
    """The methods of a pattern that are called on a name: of a module, or of every module for `words.PAST.search`."""
    found: dict[tuple[str, str], set[str]] = {}
    for module in modules():
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in _METHODS:
                for inner in ast.walk(node.value):
                    if isinstance(inner, ast.Name):
                        found.setdefault((module.__name__, inner.id), set()).add(node.attr)
                    elif isinstance(inner, ast.Attribute):
                        found.setdefault(("", inner.attr), set()).add(node.attr)
    return found


# Tables of patterns, which no name shows the use of: each is only tried at one place.
MATCHED_ONLY = frozenset({"FRAMES", "_SHAPES", "DEFAULT_RULES"})
# What only ever sees texts of so many characters.
LENGTHS = {"FRAMES": CLAIM_CHARS_MAX}


def methods_of(place: str) -> set[str]:
    """The methods with which the pattern of that name is used; all of them if that cannot be determined."""
    if ":" in place:
        return {place.rpartition(" ")[2]}
    module, _, name = place.rpartition(".")
    if name in MATCHED_ONLY:
        return {"match", "fullmatch"}
    methods = _uses().get((module, name), set()) | _uses().get(("", name), set())
    return methods or {"search", "fullmatch"}


def _written_in_functions(known: dict[tuple[Any, int], Pattern]) -> Iterator[Pattern]:
    """The patterns that stand as texts where they are used: `re.search("…", text)`."""
    done: set[tuple[Any, int]] = set()
    for place, text, flags in written_patterns():
        pattern = re.compile(text, flags)
        key = (pattern.pattern, pattern.flags)
        if key not in known and key not in done:
            done.add(key)
            yield Pattern(place, pattern)


_METHODS = frozenset({"match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"})


@cache
def uses_of_re() -> list[tuple[str, ast.Call, bool]]:
    """Every call of `re` and `lazy_pattern` by name: its place, the call, and whether it stands within a function."""
    found = []
    for module in modules():
        waiting: list[tuple[ast.AST, bool]] = [
            (ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")), False)
        ]
        while waiting:
            node, within = waiting.pop()
            within = within or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            if isinstance(node, ast.Call) and _makes_pattern(node.func):
                found.append((f"{module.__name__}:{node.lineno}", node, within))
            waiting += [(child, within) for child in ast.iter_child_nodes(node)]
    return found


def _makes_pattern(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id == lazy_pattern.__name__
    if not isinstance(function, ast.Attribute) or ast.unparse(function.value) != "re":
        return False
    return function.attr in _METHODS | {"compile"}


def written_patterns() -> Iterator[tuple[str, Any, int]]:
    for place, call, _ in uses_of_re():
        if call.args and isinstance(call.args[0], ast.Constant):
            method = call.func.attr if isinstance(call.func, ast.Attribute) else "finditer"
            yield f"{place} {method}", call.args[0].value, _flags(call)


def _flags(call: ast.Call) -> int:
    named = {each.attr for each in ast.walk(call) if isinstance(each, ast.Attribute) and each.attr.isupper()}
    flags = 0
    for name in named & set(re.RegexFlag.__members__):
        flags |= re.RegexFlag[name]
    return flags


# What a pattern is made of


def pieces_of(pattern: re.Pattern[Any], most: int) -> list[str]:
    """Texts to repeat that the pattern nearly matches: of each of its parts, and of those before and behind it."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = parser.parse(text, pattern.flags & ~(re.LOCALE))
    found: dict[str, None] = {}
    for sequence in _sequences(tree):
        samples = [_sample(item) for item in sequence]
        whole = "".join(samples)
        for piece in (whole, whole[:-1], whole * 2 + "\n", *samples):
            found.setdefault(piece)
        for at in range(1, len(samples)):
            found.setdefault("".join(samples[:at]))
            found.setdefault("".join(samples[at:]))
            found.setdefault(samples[at - 1] + samples[at])
    pieces = [piece for piece in found if piece and piece not in USUAL]
    step = max(len(pieces) / most, 1)
    return [*USUAL, *(pieces[int(at * step)] for at in range(min(most, len(pieces))))]


USUAL = ("a", " ", "\n", "1", "三")  # one of each sort of character: what a class is most often of


def _sequences(tree: Any) -> Iterator[Sequence[Any]]:
    """The pattern's sequences of parts, the outermost first."""
    items = list(tree)
    yield items
    for kind, value in items:
        for inner in _inner(kind, value):
            yield from _sequences(inner)


def _inner(kind: Any, value: Any) -> list[Any]:
    if kind is sre.SUBPATTERN:
        return [value[3]]
    if kind is sre.BRANCH:
        return list(value[1])
    if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        return [value[2]]
    if kind is sre.ATOMIC_GROUP:
        return [value]
    if kind in (sre.ASSERT, sre.ASSERT_NOT):
        return [value[1]]
    if kind is sre.GROUPREF_EXISTS:
        return [each for each in value[1:] if each is not None]
    return []


_CATEGORIES = {
    sre.CATEGORY_DIGIT: "1", sre.CATEGORY_NOT_DIGIT: "a", sre.CATEGORY_SPACE: " ", sre.CATEGORY_NOT_SPACE: "a",
    sre.CATEGORY_WORD: "a", sre.CATEGORY_NOT_WORD: "-",
}  # fmt: skip
_CANDIDATES = "a1 A-_.,'\"/:=x\n三アé"


def _sample(item: tuple[Any, Any]) -> str:
    """A short text that one part matches."""
    kind, value = item
    if kind is sre.LITERAL:
        return chr(value)
    if kind is sre.NOT_LITERAL:
        return "a" if value != ord("a") else "b"
    if kind is sre.ANY:
        return "a"
    if kind is sre.CATEGORY:
        return str(_CATEGORIES[value])
    if kind is sre.IN:
        return _of_class(value)
    if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        return str("".join(map(_sample, value[2])) * max(1, min(value[0], 40)))
    if kind is sre.BRANCH:
        return "".join(map(_sample, value[1][0]))
    if kind is sre.SUBPATTERN:
        return "".join(map(_sample, value[3]))
    if kind is sre.ATOMIC_GROUP:
        return "".join(map(_sample, value))
    return ""


def _of_class(members: Sequence[Any]) -> str:
    if members[0][0] is not sre.NEGATE:
        kind, value = members[0]
        if kind is sre.CATEGORY:
            return _CATEGORIES[value]
        return chr(value[0] if kind is sre.RANGE else value)
    pattern = re.compile(_written(members))
    return next((each for each in _CANDIDATES if pattern.match(each)), "字")


def _written(members: Sequence[Any]) -> str:
    """The class as it is written."""
    written = {
        sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_NOT_DIGIT: r"\D", sre.CATEGORY_SPACE: r"\s",
        sre.CATEGORY_NOT_SPACE: r"\S", sre.CATEGORY_WORD: r"\w", sre.CATEGORY_NOT_WORD: r"\W",
    }  # fmt: skip
    parts = []
    for kind, value in members:
        if kind is sre.NEGATE:
            parts.append("^")
        elif kind is sre.RANGE:
            parts.append(f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}")
        elif kind is sre.CATEGORY:
            parts.append(written[value])
        else:
            parts.append(re.escape(chr(value)))
    return f"[{''.join(parts)}]"


# Measuring


class CostGrowth(NamedTuple):
    """A fault in the growth of something, with the input that shows it."""

    place: str
    shown: str
    seconds: float
    units: float
    ratio: float

    def __str__(self) -> str:
        return (
            f"{self.place}: {self.shown}: {self.seconds * 1000:.1f} ms, {self.units:.1f} units, "
            f"{self.ratio:.2f} a doubling"
        )


def repeated(piece: str, size: int) -> str:
    """Whole pieces, about so many characters: what is left of one may be another word."""
    return piece * max(size // len(piece), 1)


def seconds_of(run: Callable[[T], object], subject: T) -> float:
    """The processor time of one run, without collections of garbage, which grow with all that other tests left."""
    gc.disable()
    start = time.thread_time()
    try:
        run(subject)
        return time.thread_time() - start
    finally:
        gc.enable()


def unit_seconds() -> float:
    """The processor time of a fixed piece of work in Python, about 5 ms on an idle machine of 2026: what this machine,
    loaded as it is at this moment, takes for it. Limits are multiples of it, so that they say nothing of a machine."""
    return seconds_of(_work, UNIT_STEPS)


UNIT_STEPS = 120_000


def _work(steps: int) -> int:
    total = 0
    for step in range(steps):
        total += step & 7
    return total


@cache
def usual_unit() -> float:
    """The least of some units: for a first look, which a second one confirms before anything fails."""
    return min(unit_seconds() for _ in range(5))


def cost_growth(
    place: str, run: Callable[[T], object], inputs: Sequence[T], units_max: float = UNITS_MAX, shown: str = ""
) -> CostGrowth | None:
    """None where the cost of `run` grows no faster than its input, which doubles from each of inputs to the next, and
    the last costs at most units_max; otherwise what was measured. The inputs and the unit are measured alternately and
    again and again, and the best of each is judged: a busy moment has to meet one of them twelve times."""
    unit = usual_unit()
    quarter = seconds_of(run, inputs[-3])
    if quarter * 16 < FLOOR_UNITS * unit:  # even were it quadratic
        return None
    if quarter > 2 * units_max * unit and min(quarter, seconds_of(run, inputs[-3])) > 2 * units_max * unit_seconds():
        return CostGrowth(place, shown, quarter, quarter / unit, float("inf"))
    whole = seconds_of(run, inputs[-1])
    if whole < FLOOR_UNITS * unit or (whole <= units_max * unit and whole <= quarter * RATIO_MAX**2):
        return None
    best = [float("inf")] * len(inputs)
    ratio = 0.0
    unit = float("inf")
    for _ in range(TRIES):
        for at, each in enumerate(inputs):
            best[at] = min(best[at], seconds_of(run, each))
        unit = min(unit, unit_seconds())
        # A doubling that ends below the floor says nothing; of the others the last is judged.
        ratio = best[-1] / best[-2]
        if best[-1] < FLOOR_UNITS * unit or (best[-1] <= units_max * unit and ratio <= RATIO_MAX):
            return None
    return CostGrowth(place, shown, best[-1], best[-1] / unit, ratio)


def cost_growth_of_piece(place: str, run: Callable[[str], object], piece: str) -> CostGrowth | None:
    """The growth with a text that repeats a piece."""
    return cost_growth(place, run, [repeated(piece, size) for size in SIZES], shown=repr(piece))


def require_linear(run: Callable[[str], object], text: str, units_max: float) -> None:
    """Fails where a text costs more than its length, judged by its beginnings, or more than units_max."""
    inputs = [text[: len(text) // part] for part in (4, 2, 1)]
    found = cost_growth("", run, inputs, units_max, f"{text[:40]!r}…")
    assert found is None, str(found)


def drive(found: Pattern) -> Callable[[str], object]:
    """Everything that is done with a pattern: each of its matches, or only the one at the beginning."""
    pattern, methods = found.pattern, methods_of(found.place)
    most = LENGTHS.get(found.place.rpartition(".")[2])

    def run(text: str) -> None:
        text = text[:most]
        subject: Any = text if isinstance(pattern.pattern, str) else text.encode("utf-8", "surrogatepass")
        if methods - {"match", "fullmatch"}:
            for _ in pattern.finditer(subject):
                pass
        if "match" in methods:
            pattern.match(subject)
        if "fullmatch" in methods:
            pattern.fullmatch(subject)

    return run

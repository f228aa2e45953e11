"""Texts that have nothing to do with any question, to lay beside those that do: prose of other sources, in pieces of
the length of what people say.

They are from folders of text files and of Python, whose docstrings count; where none is named, from Python's own
library.
"""

import ast
import random
import re
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

WORDS_MIN, WORDS_MAX = 6, 30
SUFFIXES = (".txt", ".md", ".rst", ".py")
PASSED_OVER = frozenset({"site-packages", "test", "tests", "lib2to3", "idlelib"})  # of Python's library
LETTERS_MIN = 0.7  # of the characters, or it is a table or code

_BLANK_LINES = re.compile(r"\n\s*\n")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


class Distractor(NamedTuple):
    source: str  # the file it stands in
    text: str


def distractors(count: int, folders: Sequence[Path] = (), seed: int = 1) -> list[Distractor]:
    """`count` different pieces, drawn by chance, those of one file in the order they stand there.

    Raises ValueError where there are fewer.
    """
    library = Path(sysconfig.get_paths()["stdlib"])
    found: dict[str, Distractor] = {}
    for folder in folders or (library,):
        passed_over = PASSED_OVER if folder == library else frozenset()
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if path.suffix in SUFFIXES and path.is_file() and passed_over.isdisjoint(name.parts):
                for piece in pieces(_text(path)):
                    found.setdefault(piece, Distractor(name.as_posix(), piece))
    if len(found) < count:
        where = ", ".join(map(str, folders or (library,)))
        raise ValueError(f"there are {len(found)} pieces in {where}, not {count}: name more folders (--texts)")
    every = list(found.values())
    return [every[place] for place in sorted(random.Random(seed).sample(range(len(every)), count))]


def pieces(text: str) -> Iterator[str]:
    """Sentences of the prose in a text, as many together as somebody would say at once."""
    for paragraph in _BLANK_LINES.split(text):
        words: list[str] = []
        for sentence in _SENTENCE_END.split(" ".join(paragraph.split())):
            if len(words) + len(said := sentence.split()) > WORDS_MAX:
                yield from _piece(words)
                words = []
            words += said
        yield from _piece(words)


def _piece(words: list[str]) -> Iterator[str]:
    text = " ".join(words)
    letters = sum(character.isalpha() or character == " " for character in text)
    if WORDS_MIN <= len(words) <= WORDS_MAX and letters >= LETTERS_MIN * len(text):
        yield text


def _text(path: Path) -> str:
    if path.suffix != ".py":
        return path.read_text(encoding="utf-8", errors="replace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old escapes in other people's strings
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return ""  # a file that tries out a parser
    return "\n\n".join(_docstrings(tree))


def _docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield text

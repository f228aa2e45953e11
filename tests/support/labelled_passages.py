"""Passages with a question each and what an excerpt has to show, and how many excerpts show it.

Two sets: tests/fixtures/excerpts.txt, where a question shares its words with sentences that do not answer it,
and the questions about tests/fixtures/recall/notes. Of both, every second one is for fitting, the others are held out.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mnemo_core.documents.chunking import split_text
from mnemo_core.retrieval import excerpts
from mnemo_core.retrieval.excerpts import TokenRows
from mnemo_daemon.models.embedders.embedder import Embedder
from mnemo_store.indexes.tokenizer import Tokenizer
from tests.support import recall_sets

CHARS_PER_TOKEN = 4
TERMS = Tokenizer("english")


class LabelledPassage(NamedTuple):
    """trail: the title and headings above the passage. says: what has to be visible."""

    trail: str
    question: str
    says: str
    text: str

    def is_in(self, shown: str) -> bool:
        return " ".join(self.says.split()) in " ".join(shown.split())


def made() -> list[LabelledPassage]:
    """Passages that were written for this."""
    whole = (recall_sets.FOLDER.parent / "excerpts.txt").read_text(encoding="utf-8")
    return [_labelled(block) for block in re.split(r"^=== ", whole, flags=re.MULTILINE)[1:]]


def _labelled(block: str) -> LabelledPassage:
    trail, question, says, text = block.rstrip("\n").split("\n", 3)
    return LabelledPassage(trail, question.removeprefix("? "), says.removeprefix("! "), text)


def notes() -> list[LabelledPassage]:
    """The passages of notes, as they are cut into memories."""
    return list(_of_notes())


def _of_notes() -> Iterator[LabelledPassage]:
    for asked in recall_sets.note_questions():
        path = recall_sets.NOTES / asked.file
        title = path.stem.replace("-", " ")
        chunks = split_text(path.read_text(encoding="utf-8"), _estimate, path.suffix)
        right = next(chunk for chunk in chunks if asked.says in chunk.text)
        yield LabelledPassage(" > ".join((title, *right.headings)), asked.text, asked.says, right.text)


def _estimate(texts: Sequence[str]) -> list[int]:
    return [len(text) // CHARS_PER_TOKEN for text in texts]


def token_rows(embedder: Embedder, items: Sequence[LabelledPassage]) -> list[TokenRows | None]:
    """Those of each question and its passage, as a recall has them."""
    texts = [f"{item.trail}\n{item.text}" for item in items]
    found: list[TokenRows | None] = []
    for item, text, codes in zip(items, texts, embedder.encode_both(texts)[1], strict=True):
        assert codes is not None
        assert embedder.late is not None
        codes = embedder.late.unpack(embedder.late.pack(codes))
        starts = [start - len(item.trail) - 1 for start in embedder.token_starts(text)]
        assert len(starts) == len(codes)
        found.append(TokenRows(embedder.encode_query_tokens(item.question).rows, codes, starts))
    return found


def shown(item: LabelledPassage, rows: TokenRows | None) -> str:
    """The excerpt of the passage."""
    marks = TERMS.highlight_spans(item.text, item.question)
    found = excerpts.select_excerpt(item.text, item.question, marks, rows)
    return excerpts.join(item.text, found.sentences, marks)[0]

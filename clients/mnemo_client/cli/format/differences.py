"""Shows the difference between two texts: the words that were removed and added."""

import re
from collections.abc import Iterator, Sequence

from mnemo_client.cli.terminal import TextStyle, sanitize

CONTEXT_CHARS = 30  # of unchanged text around a change
EXACT_COMPARISON_MAX = 40_000  # pairs of words that are compared: 0.1 s

# A word, an ideograph or a punctuation mark, with the space behind it.
_WORDS = re.compile(
    r"(?:[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|\W)\s*"
)


def word_diff(before: str, after: str, style: TextStyle) -> str:
    """Mark removed and added words among a few unchanged ones: `with [-Ines-]{+Otto+}.`; by colour if there is any."""
    parts = []
    changes = list(word_changes(before, after))
    for place, (kind, text) in enumerate(changes):
        shown = sanitize(text)
        if kind == "=":
            parts.append(_clipped_run(shown, is_first=place == 0, is_last=place == len(changes) - 1))
        elif style.colour:
            parts.append(style.bad(shown) if kind == "-" else style.good(shown))
        else:
            stripped = shown.rstrip()
            parts.append((f"[-{stripped}-]" if kind == "-" else f"{{+{stripped}+}}") + shown[len(stripped) :])
    return "".join(parts) if any(kind != "=" for kind, _ in changes) else "only white space"


def word_changes(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Yield runs of unchanged (=), removed (-) and added (+) words, in order, ignoring white space."""
    from difflib import SequenceMatcher

    old, new = _WORDS.findall(before.strip()), _WORDS.findall(after.strip())
    bare_old, bare_new = [word.rstrip() for word in old], [word.rstrip() for word in new]
    # Most edits change little between a common start and end. If the rest is long, frequent words are ignored
    # (autojunk): otherwise the comparison could take seconds.
    head = _common_prefix_length(bare_old, bare_new)
    tail = _common_prefix_length(bare_old[head:][::-1], bare_new[head:][::-1])
    if head:
        yield "=", "".join(new[:head])
    kept = new[len(new) - tail :]
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    bare_old, bare_new = bare_old[head:][: len(old)], bare_new[head:][: len(new)]
    matcher = SequenceMatcher(None, bare_old, bare_new, autojunk=len(old) * len(new) > EXACT_COMPARISON_MAX)
    for kind, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            yield "=", "".join(new[new_start:new_end])
            continue
        if old_start < old_end:
            removed = "".join(old[old_start:old_end])
            yield "-", removed.rstrip() if new_start < new_end else removed
        if new_start < new_end:
            yield "+", "".join(new[new_start:new_end])
    if kept:
        yield "=", "".join(kept)


def _common_prefix_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of words that both begin with."""
    for count, (word, counterpart) in enumerate(zip(one, other, strict=False)):
        if word != counterpart:
            return count
    return min(len(one), len(other))


def _clipped_run(text: str, *, is_first: bool, is_last: bool) -> str:
    """Return the ends of an unchanged run that are next to a change."""
    if len(text) <= 2 * CONTEXT_CHARS:
        return text
    head = "" if is_first else text[:CONTEXT_CHARS].rstrip() + " "
    tail = "" if is_last else " " + text[-CONTEXT_CHARS:].lstrip()
    return f"{head}…{tail}"

"""Noise in a note: what a broken or hostile file has in place of text. SPEC 6

A piece that repeats itself for kilobytes (`<!--<!--<!--…`) is shortened before anything reads it, so that it costs
neither time nor passages; a passage of a few words or signs over and over is left out. What is said once is never
noise.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mnemo_core.documents.chunking import Chunk
from mnemo_core.text.languages import WORD

PIECE_BYTES_MAX = 64  # of what repeats itself
STRETCH_BYTES_MIN = 4_096  # of the repetition
SLICE_BYTES = 1 << 20
STRETCH_BYTES_KEPT = 1_024  # of its beginning, which is then judged like all text

NOISE_CHARS_MIN = 400
NOISE_SAMPLE_CHARS = 2_000  # at the beginning of a long text, to see at once that it says something
NOISE_WORDS_MAX = 4
NOISE_REPEATS_MIN = 20
NOISE_CHARS_SHORTENED = 60
CHUNKS_ALIKE_MAX = 10  # of one text below the same headings
_BLANKS = frozenset(" \t\n")


def without_repetitions(text: str) -> str:
    """The text with each long repetition of a piece cut down to its beginning. Newlines stay: no line moves."""
    if len(text) < STRETCH_BYTES_MIN:
        return text
    data = text.encode()
    array = np.frombuffer(data, np.uint8)
    kept: list[bytes] = []
    done = 0
    for start, end, size in _stretches(array):
        start = max(start, done)
        begin = start + -(-STRETCH_BYTES_KEPT // size) * size
        end -= (end - begin) % size  # whole pieces, so that no character is cut
        if end > begin:
            kept += [data[done:begin], b"\n" * data.count(b"\n", begin, end)]
            done = end
    return b"".join([*kept, data[done:]]).decode() if kept else text


def _stretches(array: NDArray[np.uint8]) -> Iterator[tuple[int, int, int]]:
    """(start, end, bytes of the piece) of each stretch in which a piece repeats itself, in order. One that goes on in
    the next slice is another there: slices keep the memory small."""
    for first in range(0, len(array) - STRETCH_BYTES_MIN, SLICE_BYTES):
        part = array[first : first + SLICE_BYTES]
        found = []
        for size in range(1, PIECE_BYTES_MAX + 1):
            if _repeats_somewhere(part, size):
                differs = np.flatnonzero(part[size:] != part[:-size])
                starts, ends = np.append(0, differs + 1), np.append(differs, len(part) - size)
                long = ends - starts >= STRETCH_BYTES_MIN
                places = zip(starts[long].tolist(), ends[long].tolist(), strict=True)
                found += [(first + start, first + end + size, size) for start, end in places]
        yield from sorted(found)


def _repeats_somewhere(array: NDArray[np.uint8], size: int) -> bool:
    """Return whether a piece of that size may repeat itself: samples so near to each other that a stretch has some in a
    row are looked at."""
    step = STRETCH_BYTES_MIN // 4
    places = np.arange(0, len(array) - 2 * PIECE_BYTES_MAX, step)[:, None] + np.arange(16)
    return bool((array[places] == array[places + size]).all(axis=1).any())


def is_noise(text: str, least: int = NOISE_CHARS_MIN) -> bool:
    """Return whether a text of at least so many characters is a few words or signs, over and over: `<!--<!--`, `a a a`.
    A word that stands in it once or seldom is something said, but for one that the text was cut in."""
    if len(text) < least or len(set(WORD.findall(text, 0, NOISE_SAMPLE_CHARS))) > NOISE_WORDS_MAX:
        return False
    if len(set(text) - _BLANKS) <= 1:
        return True
    counts = Counter(WORD.findall(text))
    often = [word for word, count in counts.items() if count >= NOISE_REPEATS_MIN]
    seldom = counts.keys() - often
    return len(counts) <= NOISE_WORDS_MAX and all(
        counts[word] <= 2 and any(word in other for other in often) for word in seldom
    )


def without_noise(chunks: Sequence[Chunk], *, is_shortened: bool) -> list[Chunk]:
    """The chunks but those that are noise, and those that say the same below the same headings as many others. In a
    text that was shortened, what is left of the noise is short too."""
    least = NOISE_CHARS_SHORTENED if is_shortened else NOISE_CHARS_MIN
    headings = {heading for chunk in chunks for heading in chunk.headings}
    if is_noise("\n".join([*(chunk.text for chunk in chunks), *headings]), least):
        return []
    seen: Counter[tuple[tuple[str, ...], str]] = Counter()
    kept = []
    for chunk in chunks:
        seen[chunk.headings, chunk.text] += 1
        if (
            seen[chunk.headings, chunk.text] <= CHUNKS_ALIKE_MAX
            and not is_noise(chunk.text, least)
            and not (is_shortened and WORD.search(chunk.text) is None)
        ):
            kept.append(chunk)
    return kept

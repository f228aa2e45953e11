"""Matching of chunks and files between two readings of a notes folder. SPEC 6

Unchanged text keeps its memory, wherever it was moved.
"""

import hashlib
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from mnemo_core.similarity.thresholds import jaccard, words
from mnemo_store.records import NoteFile

SAME_CHUNK_JACCARD_MIN = 0.5  # word overlap from which a changed text is a new version of the old one [SPEC 6]
PAIRS_MAX = 20_000  # changed chunks below one heading are all compared up to this many pairs
NEIGHBOURS = 8  # beyond it, each is compared only with chunks at about the same position


class ChunkText(NamedTuple):
    """Identity of a chunk: hash, headings and text."""

    hash: str
    headings: tuple[str, ...]
    text: str


def text_hash(text: str) -> str:
    """32 hex digits, equal exactly for equal texts: a change of case or spacing is a change."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def match_chunks(old: Sequence[ChunkText], new: Sequence[ChunkText]) -> list[int | None]:
    """Return for each new chunk the index of the old chunk it corresponds to, or None. No old one is used twice.

    Equal text first (below the same headings, then anywhere); then, below the same headings, word overlap of at least
    SAME_CHUNK_JACCARD_MIN, the most alike first, then in order.
    """
    matched: list[int | None] = [None] * len(new)
    free = set(range(len(old)))
    keys: tuple[Callable[[ChunkText], Hashable], ...] = (
        lambda each: (each.hash, each.headings),
        lambda each: each.hash,
    )
    for key in keys:
        _match_equal([*map(key, old)], [*map(key, new)], matched, free)
    by_headings: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for index in sorted(free):
        by_headings[old[index].headings].append(index)
    changed: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, found in enumerate(matched):
        if found is None:
            changed[new[index].headings].append(index)
    for headings, candidates in changed.items():
        if by_headings[headings]:
            _match_alike(old, new, by_headings[headings], candidates, matched)
    return matched


def _match_equal(old: Sequence[Hashable], new: Sequence[Hashable], matched: list[int | None], free: set[int]) -> None:
    """Match each of the new keys that is not matched with the first free one of the old ones that equals it."""
    waiting: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for index in sorted(free):
        waiting[old[index]].append(index)
    for index, key in enumerate(new):
        if matched[index] is None and (indices := waiting.get(key)):
            matched[index] = found = indices.popleft()
            free.discard(found)


def _match_alike(
    old: Sequence[ChunkText], new: Sequence[ChunkText], gone: Sequence[int], came: Sequence[int],
    matched: list[int | None],
) -> None:  # fmt: skip
    """Match each of `came` with the most similar of `gone`."""
    old_words = [words(old[index].text) for index in gone]
    new_words = [words(new[index].text) for index in came]
    everyone = range(len(gone))
    alike: list[tuple[float, int, int]] = []
    for place, have in enumerate(new_words):
        near: Sequence[int] = everyone
        if len(gone) * len(came) > PAIRS_MAX:
            middle = place * len(gone) // len(came)
            near = range(max(0, middle - NEIGHBOURS), min(len(gone), middle + NEIGHBOURS + 1))
        for candidate in near:
            overlap = jaccard(old_words[candidate], have)
            if overlap >= SAME_CHUNK_JACCARD_MIN:
                alike.append((-overlap, candidate, place))
    alike.sort()
    taken: set[int] = set()
    for _, candidate, place in alike:
        if candidate not in taken and matched[came[place]] is None:
            matched[came[place]] = gone[candidate]
            taken.add(candidate)


# Files


class PreviousFile(NamedTuple):
    """A known file whose old content no longer stands at its old place: gone, or replaced."""

    id: str
    root: str
    path: str
    inode: int
    hash: str


class NewFile(NamedTuple):
    """A file whose content is new at its place."""

    root: str
    path: str
    inode: int
    hash: str


def match_files(
    before: Sequence[PreviousFile],
    now: Sequence[NewFile],
    shares_text: Callable[[PreviousFile, NewFile], bool] = lambda before, now: False,
) -> list[str | None]:
    """Return for each file of `now` the id of the known file it corresponds to, or None for a new one. No id is used
    twice.

    Equal content first (at the same place, then the same inode, then in the same root, then anywhere): a file that
    moved, came back, or changed places with another. Then the same place: a file that was edited. Then the same inode
    in the same root, if they share text, since an inode is used again as soon as its file is deleted.
    """
    matched: list[int | None] = [None] * len(now)
    free = set(range(len(before)))
    keys: tuple[Callable[[PreviousFile | NewFile], Hashable], ...] = (
        lambda each: (each.hash, each.root, each.path),
        lambda each: (each.hash, each.root, each.inode),
        lambda each: (each.hash, each.root),
        lambda each: each.hash,
        lambda each: (each.root, each.path),
    )
    for key in keys:
        _match_equal([*map(key, before)], [*map(key, now)], matched, free)
    by_inode = {(before[each].root, before[each].inode): each for each in sorted(free) if before[each].inode}
    for index, file_now in enumerate(now):
        at = by_inode.get((file_now.root, file_now.inode), -1)
        if matched[index] is None and at in free and shares_text(before[at], file_now):
            matched[index] = at
            free.discard(at)
    return [None if at is None else before[at].id for at in matched]


# Links


def link_key(path_or_target: str) -> str:
    """Common key of a wiki link and the file it targets: the last part of the path, case-folded, without suffix."""
    name = path_or_target.replace("\\", "/").rstrip("/").rpartition("/")[2].casefold()
    for suffix in (".markdown", ".rst.txt", ".md", ".rst", ".org", ".txt"):
        name = name.removesuffix(suffix)
    return name.strip()


def resolve_link(target: str, source_path: str, candidates: Sequence[str]) -> str | None:
    """The path a link in source_path means, of those with its link_key: one that ends with the target's folders, else
    one in the same folder, else the one nearest to the top; None without candidates."""
    wanted = [part for part in target.casefold().replace("\\", "/").split("/")[:-1] if part not in ("", ".", "..")]
    folder = source_path.rpartition("/")[0]

    def rank(path: str) -> tuple[bool, bool, int, str]:
        folders = path.casefold().split("/")[:-1]
        fits = not wanted or folders[-len(wanted) :] == wanted
        return (not fits, path.rpartition("/")[0] != folder, len(folders), path)

    return min(candidates, key=rank, default=None)


def manifest_for_texts(note: NoteFile, texts: Iterable[str]) -> NoteFile:
    """The manifest of a file without some chunks: its title where a chunk is left, and the links of the remaining
    texts."""
    if not note.chunks:
        return msgspec.structs.replace(note, title="", links=())
    stay = "\n".join(texts) if note.links else ""
    return msgspec.structs.replace(note, links=tuple(link for link in note.links if link in stay))

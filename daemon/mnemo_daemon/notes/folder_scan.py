"""Looking into a notes folder: which files are there, and what one of them says. SPEC 6

Every name is opened relative to a handle of the folder above it, never through a symbolic link, and never so that the
open could wait: a FIFO, a device or a link out of the folder is named, not opened. What a file system answers about
one file never stops the look at the others.
"""

import bisect
import datetime as dt
import errno
import hashlib
import itertools
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from mnemo_core.documents import chunking, file_formats, markup, noise
from mnemo_core.documents.folder_files import DEFAULT_RULES, IGNORE_FILE, Rules, is_ignored, read_rules
from mnemo_core.documents.note_dates import HeadingDates, date_in_heading, date_in_logseq, date_in_name, date_in_org
from mnemo_core.documents.note_diff import text_hash
from mnemo_core.ingest.note_sync import NoteChunk, NoteContent
from mnemo_core.text.cleaning import normalize_text, remove_private_spans, valid_tags
from mnemo_core.text.note_secrets import find_note_secrets
from mnemo_core.text.secrets import SENSITIVE_TAG, SecretSpan
from mnemo_daemon.notes import pdf_reader
from mnemo_daemon.times import utc_offset
from mnemo_store.records import NoteFile, NoteRoot

DEPTH_MAX = 64  # of folders
IGNORE_FILE_BYTES_MAX = 64 << 10
LINKS_MAX = 1000  # of one file
OTHERS_NAMED_MAX = 5_000  # files of one root that are no notes: further ones are counted by what they are
SUFFIX_CHARS_MAX = 16
EXCLUDED_NAMES = "left out by a rule"  # of an ignore file, or by default
WITHOUT_PASSAGE = "no passage: its text and its name tell nothing, or its front matter says `memory: false`"
NOISE = "no passage: it repeats a few words or signs and says nothing"
PART_NOISE = "no passage of some parts, which repeat a few words or signs and say nothing"
READER = 3  # grows with what is read of a file: those that were read by an older one are read again
NOT_SHORTENED = frozenset({".canvas", ".ipynb", ".docx", ".pdf"})  # its text is made from data, or holds some
WITH_INLINE_TAGS = frozenset({".md", ".markdown", ".txt", ".canvas", ".ipynb"})

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class UnreadableNote(Exception):
    """A file that is there and is not read; the message says why."""


class FileStat(NamedTuple):
    """A file as its folder shows it."""

    path: str  # relative to the root, with forward slashes
    inode: int
    mtime_ns: int
    size: int


class FileContent(NamedTuple):
    """A file as it was read."""

    seen: FileStat
    data: bytes
    hash: str  # of the data


class FolderListing(NamedTuple):
    """The listing of a folder."""

    files: dict[str, FileStat]
    skipped: dict[str, str]  # path → why
    unlisted: list[str]  # folders that could not be listed: what is in them is unknown, not gone
    others: dict[str, str]  # path → why, of what is no note, and of what a rule leaves out; so many by name
    uncounted: Counter[str]  # why → how many further ones

    def add_other(self, path: str, why: str) -> None:
        """Record a file that is no note or is excluded."""
        if len(self.others) < OTHERS_NAMED_MAX:
            self.others[path] = why
        else:
            self.uncounted[why] += 1

    @classmethod
    def nothing(cls) -> "FolderListing":
        return cls({}, {}, [], {}, Counter())


class Folder:
    """An open notes folder. Its handle keeps meaning the same folder whatever happens to its path."""

    def __init__(self, path: Path, excluded: str = "") -> None:
        """Open the folder; raises OSError. `excluded`: a path within it that is left out."""
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._excluded = excluded
        self._layers: dict[str, tuple[tuple[str, Rules], ...]] = {}
        status = os.fstat(self._fd)
        self.identity = (status.st_dev, status.st_ino)

    def close(self) -> None:
        os.close(self._fd)

    def walk(self, start: str = "", is_stopping: Callable[[], bool] = lambda: False) -> FolderListing:
        """The notes at and below the folder `start` ("" for all)."""
        found = FolderListing.nothing()
        waiting = [start]
        while waiting and not is_stopping():
            folder = waiting.pop()
            if folder.count("/") >= DEPTH_MAX:
                found.skipped[folder] = f"deeper than {DEPTH_MAX} folders"
                found.unlisted.append(folder)
                continue
            try:
                waiting += self._list(folder, found)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno not in (errno.ENOTDIR, errno.ELOOP):  # replaced meanwhile by a file or a link
                    found.skipped[folder or "."] = f"the folder cannot be listed: {error.strerror}"
                    found.unlisted.append(folder)
        return found

    def look(self, path: str) -> FileStat | None:
        """The note or folder at path (a folder has size -1), or None where nothing that counts is there."""
        above, _, name = path.rpartition("/")
        try:
            with self._opened(above) as fd:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError:
            return None
        is_folder = stat.S_ISDIR(status.st_mode)
        if self.is_excluded(path, is_folder=is_folder) or not (is_folder or markup.suffix_of(name)):
            return None
        return FileStat(path, status.st_ino, status.st_mtime_ns, -1 if is_folder else status.st_size)

    def read(self, path: str, bytes_max: int) -> FileContent:
        """Read a file. Raises FileNotFoundError where it is gone, UnreadableNote where it cannot be read."""
        above, _, name = path.rpartition("/")
        if _lacks_reader(name):
            raise UnreadableNote(pdf_reader.EXTRA_MISSING)
        try:
            with self._opened(above) as folder:
                mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
                    raise UnreadableNote("not a regular file")
                fd = os.open(name, _OPEN_FILE, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(path) from None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise UnreadableNote("a symbolic link, which is not followed") from None
            raise UnreadableNote(f"cannot be opened: {error.strerror}") from None
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableNote("not a regular file")
            data = b""
            if status.st_size <= bytes_max:
                with open(fd, "rb", closefd=False) as file:
                    data = file.read(bytes_max + 1)
            if max(status.st_size, len(data)) > bytes_max:
                raise UnreadableNote(
                    f"{max(status.st_size, len(data)) / 2**20:.1f} MiB, over {bytes_max / 2**20:g} MiB"
                )
        except OSError as error:
            raise UnreadableNote(f"cannot be read: {error.strerror}") from None
        finally:
            os.close(fd)
        seen = FileStat(path, status.st_ino, status.st_mtime_ns, status.st_size)
        return FileContent(seen, data, hashlib.blake2b(data, digest_size=16).hexdigest())

    def is_excluded(self, path: str, *, is_folder: bool) -> bool:
        """True if the path, or a folder it lies in, is left out."""
        parts = path.split("/")
        for depth in range(1, len(parts)):
            if self._is_entry_excluded("/".join(parts[:depth]), is_folder=True):
                return True
        return self._is_entry_excluded(path, is_folder=is_folder)

    def _is_entry_excluded(self, path: str, *, is_folder: bool) -> bool:
        if path == self._excluded:
            return True
        return is_ignored(self._rules_of(path.rpartition("/")[0]), path, is_folder=is_folder)

    def _rules_of(self, folder: str) -> tuple[tuple[str, Rules], ...]:
        """The layers of rules that hold for what is in the folder, the outermost first."""
        known = self._layers.get(folder)
        if known is not None:
            return known
        outer = self._rules_of(folder.rpartition("/")[0]) if folder else (("", DEFAULT_RULES),)
        try:
            text = self.read(f"{folder}/{IGNORE_FILE}" if folder else IGNORE_FILE, IGNORE_FILE_BYTES_MAX).data
            layers = (*outer, (folder, read_rules(text.decode("utf-8-sig", errors="replace"))))
        except (FileNotFoundError, UnreadableNote):
            layers = outer
        self._layers[folder] = layers
        return layers

    def _list(self, folder: str, found: FolderListing) -> list[str]:
        """Put the notes of one folder into `found`; return its folders."""
        below: list[str] = []
        with self._opened(folder) as fd, os.scandir(fd) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if self._is_entry_excluded(path, is_folder=is_folder):
                    found.add_other(_printable(path) + ("/" if is_folder else ""), EXCLUDED_NAMES)
                elif not (is_folder or markup.suffix_of(entry.name)):
                    if entry.name != IGNORE_FILE:
                        found.add_other(_printable(path), _other_kind(entry))
                elif not _is_text(entry.name):
                    found.skipped[_printable(path)] = "its name is not UTF-8"
                elif is_folder:
                    below.append(path)
                elif entry.is_symlink():
                    found.skipped[path] = "a symbolic link, which is not followed"
                elif not entry.is_file(follow_symlinks=False):
                    found.skipped[path] = "not a regular file"
                elif _lacks_reader(entry.name):
                    found.skipped[path] = pdf_reader.EXTRA_MISSING
                else:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    found.files[path] = FileStat(path, status.st_ino, status.st_mtime_ns, status.st_size)
        return below

    @contextmanager
    def _opened(self, folder: str) -> Iterator[int]:
        """A handle of a folder below this one, reached without following a link."""
        fd = os.dup(self._fd)
        try:
            for part in folder.split("/") if folder else ():
                below = os.open(part, _OPEN_FOLDER, dir_fd=fd)
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)


def parse_note(
    content: FileContent, root: NoteRoot, file_id: str, is_stopping: Callable[[], bool] = lambda: False
) -> NoteContent:
    """The content of a file, cut into chunks. Raises UnreadableNote, and ReadInterruption once is_stopping says so."""
    path = content.seen.path
    name = path.rpartition("/")[2]
    suffix = markup.suffix_of(name)
    text = _text_of(content.data, suffix, is_stopping)
    pages = file_formats.page_starts(text) if suffix == ".pdf" else None
    is_markup = suffix in markup.NOTE_SUFFIXES
    read = markup.parse if is_markup else file_formats.parse_format
    whole, text = text, noise.without_repetitions(text) if suffix not in NOT_SHORTENED else text
    try:
        document = read(text, suffix, name[: -len(suffix)])
    except file_formats.FileFormatError as error:
        raise UnreadableNote(str(error)) from None
    has_inline_tags = suffix in WITH_INLINE_TAGS
    every = chunking.split_blocks(document.blocks)
    pieces = noise.without_noise(every, is_shortened=text is not whole)
    has_noise = len(pieces) < len(every) or text is not whole
    if not every and (title := markup.title_passage(document, path)):
        pieces = chunking.split_blocks(title)
        is_markup = False  # it stands on none of the file's lines
    secret_lines = _lines_of(text, find_note_secrets(text))
    # The day that the whole file tells of; and the one it was created on, which is only its date where nothing in it
    # has another.
    dates = parse_date(document.meta.date), date_in_name(path, utc_offset), date_in_heading(document.title, utc_offset)
    own_date = next((date for date in dates if date is not None), None)
    other_date = parse_date(document.meta.created)
    headings = HeadingDates(utc_offset)
    chunks = []
    with_secrets = frozenset() if is_markup else _with_secrets([chunk.text for chunk in pieces])
    for place, chunk in enumerate(pieces):
        tags = (*document.meta.tags, *chunk.tags)
        if has_inline_tags and (inline := markup.inline_tags(chunk.text)):
            tags = (*tags, *inline)
        if place in with_secrets or (secret_lines and _is_sensitive(chunk, secret_lines)):
            tags = (SENSITIVE_TAG, *tags)
        tags = valid_tags(tags)
        date = headings.nearest(chunk.headings)
        if date is None and own_date is None:
            date = date_in_org(chunk.text, utc_offset) if suffix == ".org" else date_in_logseq(chunk.text, utc_offset)
        first, last = chunk.first_line, chunk.last_line
        if pages is not None:  # the lines of a PDF file mean nothing to a person; its pages do
            first = last = bisect.bisect_right(pages, first)
        chunks.append(NoteChunk(chunk.text, text_hash(chunk.text), chunk.headings, tags, first, last, date))
    links = tuple(dict.fromkeys(link.target for link in document.links))[:LINKS_MAX]
    seen = content.seen
    file = NoteFile(
        id=file_id, root=root.id, path=path, inode=seen.inode, mtime_ns=seen.mtime_ns, size=seen.size,
        hash=content.hash, title=document.title, links=links, importance=document.meta.importance, reader=READER,
    )  # fmt: skip
    meta = document.meta
    date = other_date if own_date is None else own_date
    changed_at = max(0, seen.mtime_ns // 1_000_000)
    return NoteContent(file, tuple(chunks), meta.namespace or root.namespace, date, changed_at, meta.memory, has_noise)


def why_skipped(reading: NoteContent) -> str | None:
    """The reason why a file that was read, or a part of it, is no memory; None where all of it is."""
    if reading.remembered and reading.has_noise:
        return PART_NOISE if reading.chunks else NOISE
    return None if reading.remembered and reading.chunks else WITHOUT_PASSAGE


def _text_of(data: bytes, suffix: str, is_stopping: Callable[[], bool]) -> str:
    """The text of a file, without its private spans. Raises UnreadableNote, ReadInterruption."""
    try:
        if suffix == ".pdf":
            raw = pdf_reader.read_pdf_file(data, is_stopping=is_stopping)
        elif suffix == ".docx":
            raw = _read_word(data)
        elif b"\0" in data:
            raise UnreadableNote("binary, or not UTF-8: it holds a NUL")
        else:
            raw = data.decode("utf-8-sig")
    except pdf_reader.UnreadablePdf as error:
        raise UnreadableNote(str(error)) from None
    except UnicodeDecodeError as error:
        raise UnreadableNote(f"not UTF-8 (byte {error.start}): save it as UTF-8") from None
    text = normalize_text(raw)
    return remove_private_spans(text, keep_lines=True) if "<" in text else text


def _read_word(data: bytes) -> str:
    from mnemo_core.documents import word_file  # with zipfile and its codecs: 10 ms of a start that few folders need

    try:
        return word_file.read_word_file(data)
    except word_file.WordFileError as error:
        raise UnreadableNote(str(error)) from None


def parse_date(text: str) -> int | None:
    """ms since the epoch of a date as people write it into a note, or None: ISO 8601, without a zone in the local
    one, and whatever follows a date (a weekday, in Org) passed over; or a day in words, with its year."""
    for part in (text.strip(), text.strip()[:10]):
        try:
            return max(0, int(dt.datetime.fromisoformat(part).timestamp() * 1000))
        except (ValueError, OverflowError, OSError):
            continue
    return date_in_heading(text, utc_offset)


def with_new_place(file: NoteFile, seen: FileStat) -> NoteFile:
    """The manifest of a file whose content is as it was."""
    return msgspec.structs.replace(
        file, path=seen.path, inode=seen.inode, mtime_ns=seen.mtime_ns, size=seen.size, missing=False
    )


def _lines_of(text: str, spans: list[SecretSpan]) -> list[tuple[int, int]]:
    """The first and last line of each span, 1-based."""
    if not spans:
        return []
    starts = [0]
    while (at := text.find("\n", starts[-1])) >= 0:
        starts.append(at + 1)
    return [(bisect.bisect_right(starts, span.start), bisect.bisect_right(starts, span.end - 1)) for span in spans]


def _with_secrets(texts: Sequence[str]) -> frozenset[int]:
    """The places of the texts that hold a secret, looked for in all of them at once: there may be thousands."""
    starts = list(itertools.accumulate((len(text) + 2 for text in texts), initial=0))
    spans = find_note_secrets("\n\n".join(texts))
    return frozenset(bisect.bisect_right(starts, at) - 1 for span in spans for at in (span.start, span.end - 1))


def _is_sensitive(chunk: chunking.Chunk, secret_lines: list[tuple[int, int]]) -> bool:
    if any(first <= chunk.last_line and chunk.first_line <= last for first, last in secret_lines):
        return True
    return any(find_note_secrets(heading) for heading in chunk.headings)


def _other_kind(entry: "os.DirEntry[str]") -> str:
    """The reason why a file that is not named like a note is not read."""
    if entry.is_symlink():
        return "a symbolic link, which is not followed"
    if not entry.is_file(follow_symlinks=False):
        return "not a regular file"
    stem, dot, suffix = entry.name.rpartition(".")
    if not (stem and dot and suffix) or len(suffix) > SUFFIX_CHARS_MAX:
        return "not a kind of note: no suffix"
    return f"not a kind of note: .{_printable(suffix.lower())}"


def _lacks_reader(name: str) -> bool:
    """True if a file is a PDF file, and what reads these is not installed."""
    return markup.suffix_of(name) == ".pdf" and not pdf_reader.is_installed()


def _printable(path: str) -> str:
    return path.encode(errors="replace").decode()


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True

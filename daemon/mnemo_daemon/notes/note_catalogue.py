"""The known note files in memory: by place, by content, and by how links name them. A view of the store's manifests."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mnemo_core.documents.note_diff import PreviousFile, link_key, resolve_link
from mnemo_store.records import NoteFile


class KnownFile(NamedTuple):
    """The part of a manifest that is kept in memory, about 500 bytes a file."""

    id: str
    root: str
    path: str
    inode: int
    mtime_ns: int
    size: int
    hash: str
    missing: bool
    chunks: int
    first: str  # id of the first chunk's memory, "" without chunks
    links: tuple[str, ...]
    reader: int

    @classmethod
    def of(cls, file: NoteFile) -> "KnownFile":
        return cls(
            file.id, file.root, file.path, file.inode, file.mtime_ns, file.size, file.hash, file.missing,
            len(file.chunks), file.chunks[0].memory if file.chunks else "", file.links, file.reader,
        )  # fmt: skip

    def before(self) -> PreviousFile:
        return PreviousFile(self.id, self.root, self.path, self.inode, self.hash)


class NoteCatalogue:
    """The catalogue. Used by one thread, except `counts`, `id_at` and `without_chunks`."""

    def __init__(self) -> None:
        self._files: dict[str, KnownFile] = {}
        self._by_path: defaultdict[str, dict[str, str]] = defaultdict(dict)  # root → path → id of what is there
        self._missing_by_hash: defaultdict[str, set[str]] = defaultdict(set)
        self._missing_by_path: dict[tuple[str, str], str] = {}
        self._by_link: defaultdict[str, set[str]] = defaultdict(set)
        self._files_linking_to: defaultdict[str, set[str]] = defaultdict(set)
        self._by_inode: dict[tuple[str, int], str] = {}
        self._without_chunks: defaultdict[str, set[str]] = defaultdict(set)  # root → paths
        self._counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])

    def put(self, file: NoteFile) -> None:
        """Add or replace a file, by its manifest."""
        self.drop(file.id)
        known = KnownFile.of(file)
        self._files[known.id] = known
        if known.missing:
            self._missing_by_hash[known.hash].add(known.id)
            self._missing_by_path[known.root, known.path] = known.id
            return
        self._by_path[known.root][known.path] = known.id
        self._by_inode[known.root, known.inode] = known.id
        self._by_link[link_key(known.path)].add(known.id)
        for target in known.links:
            self._files_linking_to[link_key(target)].add(known.id)
        count = self._counts[known.root]
        count[0] += 1
        count[1] += known.chunks
        if not known.chunks:
            self._without_chunks[known.root].add(known.path)

    def drop(self, file_id: str) -> None:
        """Remove a file."""
        known = self._files.pop(file_id, None)
        if known is None:
            return
        if known.missing:
            self._missing_by_hash[known.hash].discard(file_id)
            if self._missing_by_path.get((known.root, known.path)) == file_id:
                del self._missing_by_path[known.root, known.path]
            return
        if self._by_path[known.root].get(known.path) == file_id:
            del self._by_path[known.root][known.path]
            self._without_chunks[known.root].discard(known.path)
        if self._by_inode.get((known.root, known.inode)) == file_id:
            del self._by_inode[known.root, known.inode]
        self._by_link[link_key(known.path)].discard(file_id)
        for target in known.links:
            self._files_linking_to[link_key(target)].discard(file_id)
        count = self._counts[known.root]
        count[0] -= 1
        count[1] -= known.chunks

    def get(self, file_id: str) -> KnownFile | None:
        return self._files.get(file_id)

    def at(self, root: str, path: str) -> KnownFile | None:
        """The file that is known to be there."""
        file_id = self._by_path[root].get(path)
        return self._files[file_id] if file_id is not None else None

    def id_at(self, root: str, path: str) -> str | None:
        """The id of the file that is known to be there. Safe in any thread."""
        return self._by_path.get(root, {}).get(path)

    def without_chunks(self, root: str) -> list[str]:
        """The paths of the files that were read and are no memory. Safe in any thread."""
        return list(self._without_chunks.get(root, ()))

    def by_inode(self, root: str, inode: int) -> KnownFile | None:
        file_id = self._by_inode.get((root, inode))
        return self._files[file_id] if file_id is not None else None

    def under(self, root: str, folder: str) -> list[KnownFile]:
        """The files in a folder and below it; "" for all of the root."""
        prefix = folder + "/" if folder else ""
        return [self._files[i] for path, i in self._by_path[root].items() if path.startswith(prefix)]

    def missing_like(self, root: str, path: str, content_hash: str) -> Iterator[KnownFile]:
        """Files that are gone and could be the one at path: the same content anywhere, or the same place."""
        yield from (self._files[i] for i in self._missing_by_hash.get(content_hash, ()))
        at_path = self._missing_by_path.get((root, path))
        if at_path is not None:
            yield self._files[at_path]

    def has_missing(self) -> bool:
        return bool(self._missing_by_path)

    def orphans(self, roots: Iterable[str]) -> list[KnownFile]:
        """Files of folders that are no longer watched and are not yet marked as gone."""
        known = set(roots)
        return [file for file in self._files.values() if not file.missing and file.root not in known]

    def counts(self, root: str) -> tuple[int, int]:
        """Files and chunks of a root. Safe in any thread."""
        files, chunks = self._counts.get(root, (0, 0))
        return files, chunks

    def files_linking_to(self, path: str) -> set[str]:
        """Ids of the files with a link that could mean the file at path."""
        return self._files_linking_to.get(link_key(path), set())

    def link_target(self, source: KnownFile, target: str) -> KnownFile | None:
        """The file that a link in source means."""
        candidates = {
            file.path: file
            for i in self._by_link.get(link_key(target), ())
            if (file := self._files[i]).root == source.root and file.id != source.id
        }
        path = resolve_link(target, source.path, list(candidates))
        return candidates[path] if path is not None else None

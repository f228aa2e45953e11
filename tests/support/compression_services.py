"""A store with the services that compress conversations and lift items to profiles. SPEC 9.6"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from mnemo_core.ingest.policies import POLICIES, PolicyName
from mnemo_core.lifecycle.profiles import ProfilePlace
from mnemo_daemon.lifecycle.compression import Compression, CompressionResult
from mnemo_daemon.lifecycle.profile_service import LISTED_STATES, Entries, Owner, ProfileService
from mnemo_daemon.memories.memory_service import Caller
from mnemo_daemon.models.language.task_runner import TaskRunner
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import Memory, Usage
from tests.support.consolidation_services import Answers, ScriptedAnswers
from tests.support.samples import sample_memory, write
from tests.support.store_services import PERSON, StoreServices, services_in

OWNER = Owner("default", "local")
HOUR = 3_600_000


class CompressionServices:
    """`services` has the store and its other services; its time is late enough that what is put by default is old."""

    def __init__(self, services: StoreServices, answers: Answers | None = None, threshold: int = 20) -> None:
        self.services = services
        services.at = 1_700_000_000_000 + 100 * HOUR
        self.tasks = ScriptedAnswers(answers)
        self.profiles = ProfileService(services.store, services.views)
        self.is_unasked = True  # the setting lifecycle.compress_sessions
        self.policies: dict[str, PolicyName] = {}
        self.compression = Compression(
            services.store, services.views, cast(TaskRunner, self.tasks), self.profiles, lambda: threshold,
            lambda namespace: POLICIES[self.policies.get(namespace, "own")], is_unasked=lambda: self.is_unasked,
        )  # fmt: skip
        self._count = 0

    def put(self, content: str, **fields: Any) -> str:
        """Store a memory as it is, a minute younger than the one before it, and return its id."""
        self._count += 1
        at = 1_700_000_000_000 + 60_000 * self._count
        memory = sample_memory(self._count, content, **{"created_at": at, "modified_at": at, "event_at": at, **fields})
        write(self.services.store, memory, Usage(id=memory.id, strength=memory.importance))
        return memory.id

    def talk(self, session: str, *contents: str, **fields: Any) -> list[str]:
        """Store the episodic memories of a session."""
        return [self.put(each, kind="episodic", session_id=session, **fields) for each in contents]

    def compress(
        self, sessions: int | None = None, cutoff_hours: int | None = None, owner: Owner = OWNER,
        caller: Caller = PERSON, *, dry_run: bool = False,
    ) -> CompressionResult:  # fmt: skip
        return self.compression.compress(owner, sessions, cutoff_hours, caller, dry_run=dry_run)

    def lift(self, cutoff_hours: int = 48, owner: Owner = OWNER) -> tuple[int, int, int]:
        return self.compress(0, cutoff_hours, owner).lifted

    def run_job(self) -> None:
        while self.compression.run_slice():
            pass

    def memory(self, memory_id: str) -> Memory:
        return self.services.memory(memory_id)

    def states(self, *ids: str) -> list[str]:
        return [self.memory(each).state for each in ids]

    def entries(self, owner: Owner = OWNER, **fields: Any) -> Entries:
        wanted = MemoryFilter(namespaces=(owner.namespace,), user_id=owner.user_id, states=LISTED_STATES, **fields)
        return self.profiles.entries(wanted)

    def texts(self, project: str = "", owner: Owner = OWNER) -> dict[str, list[str]]:
        """The texts of the entries of a profile by their lists, in alphabetical order."""
        found = self.entries(owner)
        return {place.bucket: sorted(each.content for each in some) for place, some in found.items()
                if place.project == project}  # fmt: skip

    def entry(self, bucket: Any, project: str = "") -> Memory:
        """The only entry of a list."""
        (memory,) = self.entries()[ProfilePlace(bucket, project)]
        return memory


@contextmanager
def compression_services_in(
    folder: Path, answers: Answers | None = None, threshold: int = 20
) -> Iterator[CompressionServices]:
    with services_in(folder) as services:
        yield CompressionServices(services, answers, threshold)

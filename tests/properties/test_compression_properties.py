"""Nothing that was compressed is lost, whatever happens to it and its replacement in whatever order. SPEC 7.2, 9.6"""

import contextlib
from random import Random
from typing import Literal, get_args

import pytest

from mnemo_daemon.errors import Refusal
from mnemo_daemon.maintenance.erasure import erase_in_store
from mnemo_daemon.maintenance.trash import Trash
from mnemo_store.records import Memory
from tests.support.compression_services import HOUR, CompressionServices, compression_services_in
from tests.support.samples import quick_folder

SEEDS = range(3)
STEPS = 50
SHOWN = ("active", "archived")
Action = Literal[
    "talk", "item", "compress", "lift", "edit", "reword the replacement", "trash", "trash the replacement", "restore",
    "undo", "forget the replacement", "empty the trash",
]  # fmt: skip
ACTIONS: tuple[Action, ...] = get_args(Action)
WEIGHTS = [5, 5, 3, 2, 1, 2, 1, 3, 3, 3, 1, 1]
TAGS = ((), (), ("project:web",), ("project:web", "project:app"), ("do_not_assume",))
CATEGORIES = ("fact", "preference", "decision", "crumb")


class AnyCompression:
    """Conversations and items, each with a word of its own, and what happens to them."""

    def __init__(self, services: CompressionServices, random: Random) -> None:
        self.services = services
        self.random = random
        self.words: dict[str, str] = {}  # by the id of an original
        self.groups: list[str] = []
        self.states: set[str] = set()  # that any of them has had

    def take(self, action: Action) -> None:
        services, random, number = self.services, self.random, len(self.words)
        services.services.at += HOUR
        match action:
            case "talk":
                filler = " and the rain went on for hours" * random.randrange(8)
                (said,) = services.talk(f"s{random.randrange(3)}", f"We heard of w{number}x{filler}.")
                self.words[said] = f"w{number}x"
            case "item":
                category, tags = random.choice(CATEGORIES), random.choice(TAGS)
                self.words[services.put(f"The word is w{number}x.", category=category, tags=tags)] = f"w{number}x"
            case "compress":
                self.groups.append(services.compress(sessions=random.randrange(1, 3)).group)
            case "lift":
                self.groups.append(services.compress(0, 48).group)
            case "edit" if self.words:
                original = random.choice([*self.words])
                with contextlib.suppress(Refusal):
                    services.services.edit(
                        original, content=f"It is w{number}y{random.randrange(1000)}, and was another."
                    )
                    self.words[original] = services.memory(original).content.split()[2].rstrip(",")
            case "reword the replacement" if made := self.replacements("active"):
                services.services.edit(random.choice(made), content=f"Other words, number {random.randrange(1000)}.")
            case "trash" if self.words:
                services.services.trash(random.choice([*self.words]))
            case "trash the replacement" if made := self.replacements("active"):
                services.services.trash(random.choice(made))
            case "restore" if made := self.replacements("trashed") + self.trashed():
                services.services.restore(random.choice(made))
            case "undo" if self.groups:
                with contextlib.suppress(Refusal):
                    services.services.undo(group=self.groups.pop(random.randrange(len(self.groups))))
            case "forget the replacement" if made := self.replacements("active"):
                erase_in_store(services.services.store, [random.choice(made)], ())
            case "empty the trash":
                gone = self.trashed()
                Trash(services.services.store, services.services.views).empty((), "cli", confirm=True)
                self.words = {each: word for each, word in self.words.items() if each not in gone}
            case _:
                pass

    def replacements(self, state: Literal["active", "trashed"]) -> list[str]:
        found = [self.services.services.listed(source=source, states=(state,)) for source in ("compress", "profile")]
        return [memory.id for some in found for memory in some]

    def trashed(self) -> list[str]:
        return [each for each in self.words if self.services.memory(each).state == "trashed"]

    def check(self) -> None:
        """Each original is found by its word: directly, or where something stands in its place, with that hidden one
        included."""
        for original, word in self.words.items():
            memory = self.services.memory(original)
            self.states.add(memory.state)
            if memory.state == "trashed" or self.says(word, SHOWN):
                continue
            assert memory.state == "compressed", (word, memory)
            assert self.is_replaced(memory), (word, memory)
            assert self.says(word, (*SHOWN, "compressed")), (word, memory)

    def says(self, word: str, states: tuple[str, ...]) -> bool:
        return any(word in content for content in self.services.services.recalled(word, states=states))

    def is_replaced(self, memory: Memory) -> bool:
        with self.services.services.store.snapshot() as snapshot:
            replacement = snapshot.memory(memory.superseded_by)
        return replacement is not None and replacement.state in SHOWN


@pytest.mark.parametrize("seed", SEEDS)
def test_an_original_is_found_directly_or_while_its_replacement_stands(seed: int) -> None:
    random = Random(seed)
    with quick_folder() as folder, compression_services_in(folder) as services:
        life = AnyCompression(services, random)
        for action in random.choices(ACTIONS, WEIGHTS, k=STEPS):
            life.take(action)
            life.check()
    assert {"active", "compressed"} <= life.states

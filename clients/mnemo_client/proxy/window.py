"""A window: the last turns of a conversation, which are written together. SPEC 19 [G proxy]"""

from dataclasses import dataclass, field
from typing import Any

from mnemo_client.proxy.chat_formats import ChatMessage

TURNS_MAX = 8
CHARS_MAX = 16_000
CHARS_MIN = 80  # shorter windows are left out
QUIET_SECONDS = 30.0  # after the last turn, a window is written
TURN_CHARS_MAX = 8000  # of one piece of a turn: less than a memory can have (8192)
CUT_MARK = "[…]"


@dataclass
class TurnWindow:
    """The turns of one conversation that are not written yet. Times are in ms, `changed_at` is of a monotonic clock."""

    turns: list[dict[str, Any]] = field(default_factory=list)
    chars: int = 0
    changed_at: float = 0.0

    def has_room(self, message: ChatMessage) -> bool:
        """Return True if the message fits in; an empty window takes any."""
        pieces = split_text(message.text)
        fits = len(self.turns) + len(pieces) <= TURNS_MAX and self.chars + sum(map(len, pieces)) <= CHARS_MAX
        return fits or not self.turns

    def add(self, message: ChatMessage, at: int, now: float) -> None:
        for piece in split_text(message.text):
            self.turns.append({"role": message.role, "content": piece, "at": at})
            self.chars += len(piece)
        self.changed_at = now

    def is_full(self) -> bool:
        return len(self.turns) >= TURNS_MAX or self.chars >= CHARS_MAX


def split_text(text: str) -> list[str]:
    """Return a text as one piece or two; of one that is longer than a window the beginning and the end, as of a long
    question of a recall."""
    if len(text) <= TURN_CHARS_MAX:
        return [text]
    if len(text) > 2 * TURN_CHARS_MAX:
        half = TURN_CHARS_MAX - len(CUT_MARK)
        return [text[:half] + CUT_MARK, CUT_MARK + text[-half:]]
    middle = text.rfind(" ", len(text) - TURN_CHARS_MAX, TURN_CHARS_MAX)
    middle = middle if middle > 0 else TURN_CHARS_MAX
    return [text[:middle], text[middle:]]

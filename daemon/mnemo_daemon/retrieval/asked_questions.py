"""The last questions of each session and their answers, in memory alone: what a follow-up refers to. SPEC 11

Nothing of it is stored: a restart, an erasure and an hour without a question of the session end it.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable

from mnemo_core.llm.tasks import EarlierQuestion

SESSIONS_MAX = 256  # the one that was used longest ago goes first
QUESTIONS_MAX = 4
TEXT_CHARACTERS = 400  # of a question and of an answer
IDLE_SECONDS = 3600.0


class AskedQuestions:
    """The questions of the sessions of one daemon; safe in any thread."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """now: seconds."""
        self._now = now
        self._lock = threading.Lock()
        self._sessions: OrderedDict[Hashable, tuple[float, deque[EarlierQuestion]]] = OrderedDict()

    def of_session(self, session: Hashable) -> tuple[EarlierQuestion, ...]:
        """The last questions of a session, the oldest first."""
        with self._lock:
            used_at, asked = self._sessions.get(session, (0.0, deque()))
            return tuple(asked) if self._now() - used_at < IDLE_SECONDS else ()

    def add(self, session: Hashable, question: str, answer: str) -> None:
        """Keep a question and its answer as the last of a session."""
        kept = EarlierQuestion(question[:TEXT_CHARACTERS], answer[:TEXT_CHARACTERS])
        earlier = self.of_session(session)
        with self._lock:
            self._sessions[session] = self._now(), deque((*earlier, kept), QUESTIONS_MAX)
            self._sessions.move_to_end(session)
            while len(self._sessions) > SESSIONS_MAX:
                self._sessions.popitem(last=False)

    def clear(self) -> None:
        """Forget every session: an answer may quote what was erased."""
        with self._lock:
            self._sessions.clear()

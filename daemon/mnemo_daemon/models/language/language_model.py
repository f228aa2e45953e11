"""The language model of a daemon: calls with a deadline, served one at a time by a child process. SPEC 4.2, 12

The first call starts the process (`llm_worker`). It is killed when it overruns a deadline, dies or writes nonsense,
started again by the next call, and ended after a time without calls. Having no model is a normal state: every task has
a fallback.

LanguageModelError
├── ModelAbsent        no model is installed or may be used; a normal state
├── ModelFailureError  the model or its process broke; the next call may succeed
├── AnswerTimeout      there was no answer before the deadline
│   └── AnswerOverrun  the model was stopped at the deadline while it answered
├── CallCancellation   the caller gave up, or an interactive call went before this background one
├── ModelBusy          too many calls wait already
└── PromptTooLong      the prompt does not fit the model's context
"""

import contextlib
import importlib.util
import itertools
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, assert_never, get_args

import msgspec

from mnemo_client.protocol.status import ModelStatus
from mnemo_core.llm.tasks import key_of_model
from mnemo_core.llm_sites import Site
from mnemo_daemon.errors import ModelError, UnsupportedModel
from mnemo_daemon.models.catalogue import KNOWN_MODELS, ROLES, ModelCatalogue, ModelManifest
from mnemo_daemon.models.language.llm_worker import AnswerPiece, Cancel, Completion, Prompt, Ready, Reply
from mnemo_daemon.models.worker_process import POLL_S, START_LIMIT_S, CallQueue, Worker, WorkerSlots, time_left
from mnemo_daemon.models.worker_protocol import FRAME_BYTES_MAX, BrokenFrame, ModelRefusal
from mnemo_daemon.settings import LlmSettings

State = Literal["absent", "off", "starting", "ready", "failed"]
Clock = Callable[[], float]
OnPiece = Callable[[str], None]

# -P: nothing is imported from the folder in which the daemon was started.
WORKER_COMMAND = (sys.executable, "-P", "-m", "mnemo_daemon.models.language.llm_worker")
CONTEXT_TOKENS = 4096
KILL_GRACE_S = 0.5  # after its deadline, for a worker to stop by itself before it is killed
IDLE_S = 600.0
FAILURES_MAX = 3  # in a row, before the model is paused
FAILURE_PAUSE_S = 60.0  # doubles with every further failure
FAILURE_PAUSE_MAX_S = 3600.0
WAITING_MAX = 16  # calls that wait at once, for each priority; a model takes seconds for each
NO_MODEL_CHOSEN = "no language model is chosen; `mnemo models list` shows what there is"


class LanguageModelError(Exception):
    """A call of the language model gave no answer."""

    code = "llm"


class ModelAbsent(LanguageModelError):
    """There is no language model to call."""

    code = "llm_absent"


class ModelFailureError(LanguageModelError):
    """The language model or its process broke."""

    code = "llm_failed"


class AnswerTimeout(LanguageModelError):
    """The language model did not answer in time."""

    code = "llm_late"


class AnswerOverrun(AnswerTimeout):
    """The language model was asked in time, and stopped while it answered."""


class CallCancellation(LanguageModelError):
    """The call was stopped before its answer was finished."""

    code = "llm_cancelled"


class ModelBusy(LanguageModelError):
    """Too many calls wait for the language model."""

    code = "llm_busy"


class PromptTooLong(LanguageModelError):
    """The prompt and its answer do not fit the model's context."""

    code = "llm_prompt_too_long"


class LanguageModelStatus(msgspec.Struct, frozen=True):
    """The state of the language model: absent, off (the next call starts it), starting, ready, failed; and why."""

    state: State
    reason: str
    model: str
    pid: int | None = None
    waiting: int = 0  # calls that wait for their turn


class LanguageModel:
    """A language model; safe to call from any thread, one call at a time is served. Tests pass a command, for a worker
    that misbehaves, and a clock."""

    def __init__(
        self, model: Path | None, *, sha256: str | None = None, allow_unknown: bool = False,
        context_tokens: int = CONTEXT_TOKENS, threads: int = 0, gpu_layers: int = 0, memory_limit_bytes: int = 0,
        idle_s: float = IDLE_S, clock: Clock = time.monotonic, command: Sequence[str] = WORKER_COMMAND,
        slots: WorkerSlots | None = None, absence: str = NO_MODEL_CHOSEN,
    ) -> None:  # fmt: skip
        """Start nothing. The file must have this sha256; without one, it needs allow_unknown. slots: shared with other
        models, which bounds how many are loaded; absence: why there is no model."""
        self._model = model
        self._absence = absence
        self._slots = slots or WorkerSlots(1)
        self._options = [
            f"--context={context_tokens}",
            f"--threads={threads}",
            f"--gpu-layers={gpu_layers}",
            f"--memory-limit={memory_limit_bytes}",
            f"--sha256={sha256 or ''}",
        ]
        self._is_allowed = bool(sha256) or allow_unknown
        self._idle_s = idle_s
        self._clock = clock
        self._command = command
        self._queue = CallQueue(WAITING_MAX)
        self._numbers = itertools.count(1)
        self._worker: Worker | None = None
        self._idle_timer: threading.Timer | None = None
        self._is_closed = False
        self._failures = 0
        self._failed_at = 0.0
        self._reason = ""

    def status(self) -> LanguageModelStatus:
        """Return what the next call will find, without waiting."""

        def status(state: State, reason: str = "", pid: int | None = None) -> LanguageModelStatus:
            return LanguageModelStatus(state, reason, self.name, pid, len(self._queue))

        if why_not := self._reason_for_absence():
            return status("absent", why_not)
        if self._is_paused():
            return status("failed", self._reason)
        worker = self._worker
        if worker is None or not worker.is_alive():
            return status("off", self._reason or "it starts with the first call")
        return status("ready" if worker.ready else "starting", pid=worker.pid)

    @property
    def name(self) -> str:
        """The name of the model's file; "" without one."""
        return self._model.name if self._model else ""

    def answer(
        self, prompt: str, max_tokens: int, deadline_s: float, *, head: str = "", grammar: str = "",
        is_interactive: bool = True, is_cancelled: Callable[[], bool] = lambda: False, on_piece: OnPiece | None = None,
    ) -> Completion:  # fmt: skip
        """Return the model's answer, of at most max_tokens, within deadline_s seconds and KILL_GRACE_S.

        `on_piece` gets the answer piece by piece while it is written, and must not raise.

        `head` stands before the prompt; the answer follows `grammar`, if one is given, which must be a tested one. A
        background call ends as CallCancellation as soon as an interactive one waits. The time to start the model counts
        too: if that alone takes longer, this raises AnswerTimeout, and the model goes on loading for the next call.
        Raises any LanguageModelError.
        """
        until = time.monotonic() + deadline_s
        if (size := len((head + prompt).encode())) > FRAME_BYTES_MAX // 2:
            raise PromptTooLong(f"the prompt has {size} bytes; no model's context holds that")
        self._check_usable()

        def must_stop() -> bool:
            return is_cancelled() or (not is_interactive and self._queue.has_interactive())

        try:
            with self._queue.turn(until, is_interactive=is_interactive, is_cancelled=is_cancelled):
                return self._answer_in_turn(
                    lambda: Prompt(prompt, max_tokens, time_left(until), head, grammar, next(self._numbers),
                                   streams=on_piece is not None),
                    until, must_stop, on_piece,
                )  # fmt: skip
        except InterruptedError as error:
            raise CallCancellation("the call was cancelled while it waited") from error
        except OverflowError as error:
            raise ModelBusy(f"{WAITING_MAX} calls wait for the language model already") from error
        except TimeoutError as error:
            raise AnswerTimeout("the language model was busy with other calls until the deadline") from error

    def unload_if_idle(self) -> None:
        """End the process, unless a call is running."""
        with contextlib.suppress(TimeoutError, OverflowError), self._queue.turn(until=0.0):
            self._cancel_idle_timer()
            self._drop_worker()

    def close(self) -> None:
        """End the process and refuse further calls; a running one ends as ModelFailureError."""
        self._is_closed = True
        if worker := self._worker:
            worker.kill()
        with self._queue.turn(math.inf):
            self._cancel_idle_timer()
            self._drop_worker()

    def _answer_in_turn(
        self, make_prompt: Callable[[], Prompt], until: float, must_stop: Callable[[], bool], on_piece: OnPiece | None
    ) -> Completion:
        self._check_usable()  # it may have been closed meanwhile
        try:
            worker = self._ready_worker(until, must_stop)
            return self._ask(worker, make_prompt(), until, must_stop, on_piece)
        except TimeoutError as error:
            raise AnswerTimeout("the deadline passed before the prompt could be sent") from error
        finally:
            self._cancel_idle_timer()
            if self._worker and not self._is_closed:
                self._idle_timer = threading.Timer(self._idle_s, self._unload_if_idle, [self._worker])
                self._idle_timer.daemon = True
                self._idle_timer.start()

    def _reason_for_absence(self) -> str:
        """Return why there is no model, in words for a person; "" if there is one."""
        if self._is_closed:
            return "the daemon is stopping"
        if self._model is None:
            return self._absence
        if importlib.util.find_spec("llama_cpp") is None:
            return "llama-cpp-python is not installed: pip install 'mnemod[llm]' (it is compiled, some five minutes)"
        if not self._model.is_file():
            return f"the model file does not exist: {self._model}"
        if not self._is_allowed:
            return (
                f"{self._model.name} is not in the catalogue, so its hash is not known; "
                "allow unknown models in the configuration if you trust it"
            )
        return ""

    def _is_paused(self) -> bool:
        """Return whether the model is paused, since it failed too often in a row."""
        return self._failures >= FAILURES_MAX and self._clock() - self._failed_at < self._failure_pause_s()

    def _failure_pause_s(self) -> float:
        return min(FAILURE_PAUSE_S * 2.0 ** min(self._failures - FAILURES_MAX, 10), FAILURE_PAUSE_MAX_S)

    def _check_usable(self) -> None:
        if why_not := self._reason_for_absence():
            raise ModelAbsent(why_not)
        if self._is_paused():
            raise ModelFailureError(
                f"the language model failed {self._failures} times in a row and is paused for "
                f"{self._failure_pause_s():g} s; the last failure: {self._reason}"
            )

    def _ready_worker(self, until: float, must_stop: Callable[[], bool]) -> Worker:
        """Return the worker once its model is loaded; start one if there is none."""
        if self._worker and not self._worker.is_alive():
            self._fail(f"without a call, {self._worker.exit_report()}")
        if self._worker is None:
            try:
                self._slots.take(self, self.unload_if_idle)
            except OverflowError as error:
                raise ModelBusy(f"{self._slots.count} other language models are answering") from error
            try:
                self._worker = Worker([*self._command, *self._options, str(self._model)], Reply)
            except OSError as error:
                raise self._fail(f"its process could not be started: {error}") from error
            if self._is_closed:  # close() came before there was anything to kill
                self._worker.kill()
        worker = self._worker
        if worker.ready:
            return worker
        start_until = worker.began + START_LIMIT_S
        match self._receive(worker, min(until, start_until), must_stop):
            case Ready():
                worker.ready = True
                return worker
            case ModelRefusal(reason=reason):
                raise self._fail(reason)
            case AnswerPiece() | Completion():
                raise self._fail("it answered before there was a prompt")
            case None if time.monotonic() >= start_until:
                raise self._fail(f"it was not loaded after {START_LIMIT_S:g} s and was killed")
            case None:
                raise AnswerTimeout("the language model is still being loaded")
            case unknown:
                assert_never(unknown)

    def _ask(
        self, worker: Worker, prompt: Prompt, until: float, must_stop: Callable[[], bool], on_piece: OnPiece | None
    ) -> Completion:
        """Send the prompt and return the answer to it; every other outcome is an error."""
        self._send(worker, prompt, until + KILL_GRACE_S)
        try:
            reply = self._receive_answer(worker, until + KILL_GRACE_S, must_stop, on_piece)
        except CallCancellation:
            until = time.monotonic()
            self._send(worker, Cancel(prompt.number), until + KILL_GRACE_S)
            reply = self._receive_answer(worker, until + KILL_GRACE_S)
        match reply:
            case Completion() as completion:
                self._failures, self._reason = 0, ""
                worker.clear_output()
                return completion
            case ModelRefusal(code="late", reason=reason):
                raise AnswerOverrun(f"the language model was stopped: {reason}")
            case ModelRefusal(code="cancelled", reason=reason):
                raise CallCancellation(reason)
            case ModelRefusal(code="too_long", reason=reason):
                raise PromptTooLong(reason)
            case ModelRefusal(reason=reason):
                raise self._fail(reason)
            case Ready():
                raise self._fail("it reported twice that it is ready")
            case None:
                self._fail("it did not stop in time and was killed")
                raise AnswerTimeout("the language model hung and was stopped")
            case unknown:
                assert_never(unknown)

    def _receive_answer(
        self, worker: Worker, until: float, must_stop: Callable[[], bool] = lambda: False,
        on_piece: OnPiece | None = None,
    ) -> Ready | Completion | ModelRefusal | None:  # fmt: skip
        """Return the message that ends an answer, as `_receive` does, after its pieces."""
        while isinstance(reply := self._receive(worker, until, must_stop), AnswerPiece):
            if must_stop():
                raise CallCancellation("the call was cancelled")
            if on_piece is not None:
                on_piece(reply.text)
        return reply

    def _send(self, worker: Worker, message: Prompt | Cancel, until: float) -> None:
        try:
            worker.send(message, until)
        except TimeoutError as error:
            self._fail("it stopped reading and was killed")
            raise AnswerTimeout("the language model hung and was stopped") from error
        except ConnectionError as error:
            raise self._fail(worker.exit_report()) from error

    def _receive(self, worker: Worker, until: float, must_stop: Callable[[], bool] = lambda: False) -> Reply | None:
        """Return the worker's next message, None if there is none before `until`. Raises CallCancellation once
        must_stop returns True, and ModelFailureError if the process ended or sent nonsense."""
        try:
            while True:
                try:
                    reply: Reply = worker.receive(min(until, time.monotonic() + POLL_S))
                    return reply
                except TimeoutError:
                    if time.monotonic() >= until:
                        return None
                if must_stop():
                    raise CallCancellation("the call was cancelled")
        except ConnectionError as error:
            raise self._fail(worker.exit_report()) from error
        except (BrokenFrame, msgspec.DecodeError) as error:
            raise self._fail(f"it sent an invalid message ({error}) and was killed") from error

    def _fail(self, reason: str) -> ModelFailureError:
        """End the worker, count the failure, and return the error to raise."""
        self._drop_worker()
        self._failures += 1
        self._failed_at = self._clock()
        self._reason = reason
        return ModelFailureError(f"the language model failed: {reason}")

    def _drop_worker(self) -> None:
        """End the worker, if there is one."""
        worker, self._worker = self._worker, None
        try:
            if worker:
                worker.end()
        finally:
            self._slots.give_back(self)

    def _cancel_idle_timer(self) -> None:
        if self._idle_timer:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _unload_if_idle(self, worker: Worker) -> None:
        """Unload the model, unless a call is running, which rearms the timer at its end."""
        with contextlib.suppress(TimeoutError, OverflowError), self._queue.turn(until=0.0):
            if self._worker is worker and threading.current_thread() is self._idle_timer:
                self._drop_worker()


LOADED_MAX = 2  # a quick one for those who wait and a better one for the background; each has gigabytes
WITHOUT_MODEL = "until there is one, every task uses its method without a language model"


class LanguageModelService:
    """Keeps a LanguageModel for each chosen file. Everything may be called from any thread."""

    def __init__(self, catalogue: ModelCatalogue, settings: LlmSettings) -> None:
        """Starts nothing."""
        self._catalogue = catalogue
        self._settings = settings
        self._lock = threading.Lock()
        self._slots = WorkerSlots(LOADED_MAX)
        self._models: dict[str, tuple[ModelManifest, LanguageModel]] = {}  # by the model's name
        self._default = ""  # the model that a person chose

    def model(self, site: Site | None = None) -> LanguageModel:
        """The model to ask at a site, by default at one without a model of its own: of the file installed now."""
        manifest = self.manifest(site)
        if manifest is None:
            return LanguageModel(None, absence=self._absence(site))
        with self._lock:
            known, model = self._models.get(manifest.name, (None, None))
            if model is None or known != manifest:
                if model is not None:
                    model.close()
                settings = self._settings
                model = LanguageModel(
                    manifest.path(),
                    sha256=manifest.weights_sha256,
                    context_tokens=settings.context_tokens,
                    threads=settings.threads,
                    gpu_layers=settings.gpu_layers,
                    memory_limit_bytes=settings.memory_mib << 20,
                    idle_s=settings.idle_minutes * 60.0,
                    slots=self._slots,
                )
                self._models[manifest.name] = (manifest, model)
            return model

    def manifest(self, site: Site | None = None) -> ModelManifest | None:
        """The installed model that the settings give to a site, else the default: the one that `llm.model` names, that
        a person chose, or the largest installed one of the catalogue."""
        if configured := self._configured(site)[1]:
            return self._installed(configured)
        by_size = sorted(KNOWN_MODELS, key=lambda known: -known.size_bytes)
        names = [self._default, *(known.name for known in by_size if known.role == "llm")]
        return next(filter(None, map(self._installed, filter(None, names))), None)

    def require_usable(self, name: str) -> str:
        """The model's own name. Raises UnknownModel, MissingModelError, DamagedModelError, or UnsupportedModel for what
        is no language model."""
        manifest = self._catalogue.require_installed(name)
        if manifest.role != "llm":
            raise UnsupportedModel(f"{manifest.name} is {ROLES[manifest.role]}, not a language model")
        return manifest.name

    def use(self, name: str) -> None:
        """Make a model the default from the next call on; "" for the largest installed one."""
        self._default = name

    def manifests(self) -> dict[Site, ModelManifest]:
        """The installed model of each site that has one."""
        sites: tuple[Site, ...] = get_args(Site)
        key_of = {site: key_of_model(site, self._settings.models) for site in sites}
        found = {key: self.manifest(site) for site, key in key_of.items()}
        return {site: manifest for site, key in key_of.items() if (manifest := found[key]) is not None}

    def status(self) -> ModelStatus:
        """The state of the default model, as `mnemo status` shows it. Without a call it is not loaded, which is no
        failure. The hint names settings whose model is not installed."""
        status, manifest = self.model().status(), self.manifest()
        answer = ModelStatus(name=manifest.name if manifest else None, state="ready", reason=status.reason or None)
        # The sites that the settings name, by themselves or by the name of their group.
        sites: list[Site] = ["resume_compress" if key == "resume" else key for key in self._settings.models]
        if missing := [self._absence(site) for site in sites if self.manifest(site) is None]:
            answer = msgspec.structs.replace(answer, hint="; ".join(missing))
        match status.state:
            case "absent":
                return msgspec.structs.replace(answer, state="absent", hint=answer.hint or WITHOUT_MODEL)
            case "starting":
                return msgspec.structs.replace(answer, state="loading")
            case "failed":
                return msgspec.structs.replace(answer, state="failed")
            case "off" | "ready":
                return answer

    def close(self) -> None:
        """End the processes of the models."""
        with self._lock:
            for _, model in self._models.values():
                model.close()

    def _configured(self, site: Site | None) -> tuple[str, str]:
        """The setting that names the model of a site, and the name; "" where none does."""
        models = self._settings.models
        key = key_of_model(site, models) if site else None
        return ("llm.model", self._settings.model) if key is None else (f"llm.models.{key}", models[key])

    def _absence(self, site: Site | None) -> str:
        """Return why a site has no model."""
        setting, name = self._configured(site)
        if not name:
            return NO_MODEL_CHOSEN
        listed = self._catalogue.listing()
        installed = ", ".join(entry.name for entry in listed if entry.role == "llm" and entry.installed)
        return f"`{setting}` names {name!r}; the installed language models are: {installed or 'none'}"

    def _installed(self, name: str) -> ModelManifest | None:
        """The language model of that name, if it is installed."""
        try:
            manifest = self._catalogue.require_installed(name)
        except ModelError:
            return None
        return manifest if manifest.role == "llm" else None

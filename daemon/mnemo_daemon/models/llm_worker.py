"""The child process that holds the language model: `python -m mnemo_daemon.models.llm_worker MODEL`. SPEC 4.2.

It is a process of its own because llama.cpp is not thread-safe, can crash on a bad file or grammar, and must be
stoppable at any moment. It reads Prompts from standard input and writes Ready once, then one Completion or Refusal for
each Prompt, to standard output; each is a frame of four bytes of length, big-endian, and that much msgpack. It keeps no
state worth saving: killing it is the ordinary way to stop it, and it ends by itself when its input closes, which
happens when the daemon dies in whatever way. (PR_SET_PDEATHSIG would not do: it fires when the thread that started the
child ends, and the daemon's threads come and go.)

Importing this module is cheap and does not need llama_cpp: the daemon takes the messages and frames from here.
"""

import argparse
import hashlib
import math
import os
import queue
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any, Literal

import msgspec

FRAME_HEAD_BYTES = 4
FRAME_BYTES_MAX = 1024 * 1024
"""Bytes of one message; far above any prompt that fits a context, far below what could exhaust memory."""
NICENESS = 10
"""Added to the daemon's own: a recall must not wait for a model that is thinking. [facts/engine 1]"""
CONTENT_MARK = "\ue000content\ue000"  # private-use characters: stands for the prompt when a template is rendered
GGUF_MAGIC = b"GGUF"


class Prompt(msgspec.Struct, tag="prompt"):
    """One question: at most max_tokens of answer, within deadline_s seconds of its arrival."""

    text: str
    max_tokens: int
    deadline_s: float
    head: str = ""  # stands before the text and is the same for many prompts
    grammar: str = ""  # GBNF that the answer follows; a wrong one crashes the process


class Ready(msgspec.Struct, tag="ready"):
    """The model is loaded; sent once."""

    context_tokens: int
    took_ms: float


class Completion(msgspec.Struct, tag="completion"):
    """The text that the model wrote; cut means that max_tokens ended it and not the model."""

    text: str
    prompt_tokens: int
    answer_tokens: int
    took_ms: float
    cut: bool


class ModelRefusal(msgspec.Struct, tag="refusal"):
    """No answer. After `unusable` the worker ends; after the others the model takes the next Prompt."""

    code: Literal["unusable", "late", "too_long", "failed"]
    reason: str


Reply = Ready | Completion | ModelRefusal


class BrokenFrame(ValueError):
    """A message on the wire is not one of this protocol."""


def to_frame(message: Prompt | Reply) -> bytes:
    """The message as it goes over the wire."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(FRAME_HEAD_BYTES, "big") + body


def take_frame(received: bytearray) -> bytes | None:
    """The body of the first whole frame, taken out of received; None while it is not all there.

    Raises BrokenFrame for a length that no message has.
    """
    if len(received) < FRAME_HEAD_BYTES:
        return None
    length = int.from_bytes(received[:FRAME_HEAD_BYTES], "big")
    if not 0 < length <= FRAME_BYTES_MAX:
        raise BrokenFrame(f"a message of {length} bytes was announced; 1 to {FRAME_BYTES_MAX} are possible")
    end = FRAME_HEAD_BYTES + length
    if len(received) < end:
        return None
    body = bytes(received[FRAME_HEAD_BYTES:end])
    del received[:end]
    return body


def main(arguments: list[str]) -> int:
    """Serves prompts until the input closes. Returns 1 if the model cannot be used."""
    options = parse(arguments)
    out = claim_stdout()
    prompts: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(prompts,), daemon=True).start()
    os.nice(NICENESS)
    if options.memory_limit:
        resource.setrlimit(resource.RLIMIT_AS, (options.memory_limit, options.memory_limit))
    began = time.monotonic()
    try:
        check_file(options.model, options.sha256)
        model = LoadedModel(options.model, options.context)
    except (ImportError, OSError, RuntimeError, ValueError, MemoryError) as error:
        send(out, ModelRefusal("unusable", str(error) or type(error).__name__))
        return 1
    send(out, Ready(model.context_tokens, milliseconds_since(began)))
    while True:
        send(out, model.complete(msgspec.msgpack.decode(prompts.get(), type=Prompt)))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="llm_worker", description="Serves one GGUF model to its parent process.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--sha256", default="", help="refuse the file unless it has this hash")
    parser.add_argument("--context", type=int, default=4096, help="tokens of prompt and answer together")
    parser.add_argument("--memory-limit", type=int, default=0, help="bytes of address space; 0: no limit")
    return parser.parse_args(arguments)


def claim_stdout() -> int:
    """The descriptor to write messages to. From now on what any library prints goes to standard error instead."""
    out = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return out


def listen(prompts: "queue.SimpleQueue[bytes]") -> None:
    """Queues the body of every frame that comes in, and ends the process when no more can come.

    A thread of its own, so that a parent's death is noticed in the middle of an answer: llama.cpp runs without the GIL.
    """
    received = bytearray()
    try:
        while data := os.read(sys.stdin.fileno(), FRAME_BYTES_MAX):
            received += data
            while (body := take_frame(received)) is not None:
                prompts.put(body)
    finally:
        os._exit(0)  # sys.exit would wait for the answer that nobody will read


def check_file(model: Path, sha256: str) -> None:
    """Raises ValueError unless model looks like a GGUF file and has the hash that is asked for, if one is.

    Parsers of this format have had holes, so nothing of the file is parsed before.
    """
    with model.open("rb") as file:
        if file.read(len(GGUF_MAGIC)) != GGUF_MAGIC:
            raise ValueError(f"{model} is not a GGUF file")
        file.seek(0)
        if sha256 and (found := hashlib.file_digest(file, "sha256").hexdigest()) != sha256:
            raise ValueError(f"{model} is not the file it should be: sha256 {found}, expected {sha256}")


class LoadedModel:
    """A GGUF model in memory that answers within a deadline."""

    def __init__(self, path: Path, context_tokens: int) -> None:
        """Raises ImportError, OSError, RuntimeError, ValueError or MemoryError if it cannot be used."""
        import llama_cpp

        threads = max(1, available_cpus() - 1)  # one stays free: OpenMP's threads spin at their barriers
        # Any: llama_cpp's types are partial, and absent where the extra is.
        self._llama: Any = llama_cpp.Llama(
            str(path), n_ctx=context_tokens, n_threads=threads, n_threads_batch=threads, verbose=False
        )
        self._frame = self._chat_frame()
        self._stop_at = math.inf
        # llama.cpp asks this within prompt processing too, where nothing else can stop it. It keeps a bare pointer to
        # the callback, so we keep the object.
        self._callback = llama_cpp.ggml_abort_callback(self.is_late)
        llama_cpp.llama_set_abort_callback(self._llama.ctx, self._callback, None)

    @property
    def context_tokens(self) -> int:
        return int(self._llama.n_ctx())

    def is_late(self, _data: object = None) -> bool:
        """True if the deadline of the prompt that is being answered has passed."""
        return time.monotonic() >= self._stop_at

    def complete(self, prompt: Prompt) -> Completion | ModelRefusal:
        """The most probable answer to prompt, in the model's own chat template; the same for the same prompt."""
        from llama_cpp.llama_grammar import LlamaGrammar

        began = time.monotonic()
        tokens = self._tokens_of(prompt)
        if len(tokens) + prompt.max_tokens > self.context_tokens:
            room = max(self.context_tokens - prompt.max_tokens, 0)
            return ModelRefusal("too_long", f"the prompt has {len(tokens)} tokens, and {room} fit with the answer")
        grammar = LlamaGrammar.from_string(prompt.grammar, verbose=False) if prompt.grammar else None
        self._stop_at = began + prompt.deadline_s
        try:
            answer = self._llama.create_completion(
                tokens, max_tokens=prompt.max_tokens, temperature=0.0, seed=0, grammar=grammar
            )
        except (RuntimeError, ValueError) as error:
            self._llama.reset()  # an aborted evaluation leaves half a prompt in the cache
            if self.is_late():
                return ModelRefusal("late", f"not finished after {prompt.deadline_s:g} s")
            return ModelRefusal("failed", f"the model could not answer: {error}")
        finally:
            self._stop_at = math.inf
        choice, usage = answer["choices"][0], answer["usage"]
        return Completion(
            text=choice["text"],
            prompt_tokens=usage["prompt_tokens"],
            answer_tokens=usage["completion_tokens"],
            took_ms=milliseconds_since(began),
            cut=choice["finish_reason"] == "length",
        )

    def _chat_frame(self) -> tuple[list[int], list[int]]:
        """The tokens that the chat template of the model file puts before and after a prompt; none without a template.

        Raises ValueError for a template that does not take a plain message.
        """
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter

        template = self._llama.metadata.get("tokenizer.chat_template")
        if template is None:
            return self._tokenize("", add_bos=True), []
        begin, end = (
            self._llama._model.token_get_text(max(t, 0)) for t in (self._llama.token_bos(), self._llama.token_eos())
        )
        formatter = Jinja2ChatFormatter(template, eos_token=end, bos_token=begin)
        rendered = formatter(messages=[{"role": "user", "content": CONTENT_MARK}]).prompt
        before, mark, after = rendered.partition(CONTENT_MARK)
        if not mark:
            raise ValueError("the chat template of the model file leaves out the message")
        return self._tokenize(before, special=True), self._tokenize(after, special=True)

    def _tokens_of(self, prompt: Prompt) -> list[int]:
        """The prompt within the frame. A control token that is written in a prompt is plain text there: only the frame
        may hold any, so that no text can end its message."""
        before, after = self._frame
        return [*before, *self._tokenize(prompt.head), *self._tokenize(prompt.text), *after]

    def _tokenize(self, text: str, *, special: bool = False, add_bos: bool = False) -> list[int]:
        tokens: list[int] = self._llama.tokenize(text.encode(), add_bos=add_bos, special=special)
        return tokens


def available_cpus() -> int:
    """The number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def send(out: int, reply: Reply) -> None:
    """Returns when the parent's side has all of it."""
    view = memoryview(to_frame(reply))
    while view:
        view = view[os.write(out, view) :]


def milliseconds_since(began: float) -> float:
    return (time.monotonic() - began) * 1000


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

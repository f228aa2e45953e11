"""The child process that holds the language model: `python -m mnemo_daemon.models.language.llm_worker MODEL`. SPEC 4.2.

llama.cpp is not thread-safe, can crash on a bad file or grammar, and must be stoppable at any moment, so it runs in a
process of its own. The process reads Prompts and Cancels from standard input and writes Ready once, then one Completion
or ModelRefusal for each Prompt, after AnswerPieces where one asks for them, to standard output. Each message is a
frame: four bytes of length, big-endian, and that much msgpack. It has no state to save, so killing it is the ordinary
way to stop it, and it ends when its input closes, which happens however the daemon dies. (PR_SET_PDEATHSIG would not
do: it fires when the thread that started the child ends, and the daemon's threads come and go.)

Importing this module does not need llama_cpp: the daemon takes the messages and frames from here.
"""

import argparse
import codecs
import ctypes
import math
import os
import queue
import re
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from mnemo_daemon.models.worker_protocol import (
    ModelRefusal,
    available_cpus,
    check_file,
    claim_stdout,
    forbid_network,
    messages,
    send,
)

NICENESS = 10  # added to the daemon's own: a recall must not wait for a model
HEADS_MAX = 24  # prompt heads whose state is kept: one a task, some 5 MB each with a model of 3B
CONTENT_MARK = "\ue000content\ue000"  # private-use characters: stands for the prompt when a template is rendered
MISSPELT_CHARACTER = re.compile(
    rb"\xe0[\x80-\x9f][\x80-\xbf]|[\xf0\xf8][\x80-\x8f][\x80-\xbf]{2}|[\xf8-\xff][\x80-\xbf]{3}"
)


class Prompt(msgspec.Struct, tag="prompt"):
    """A request for an answer of at most max_tokens, within deadline_s seconds of its arrival."""

    text: str
    max_tokens: int
    deadline_s: float
    head: str = ""  # stands before the text and is the same for many prompts
    grammar: str = ""  # GBNF that the answer follows; a wrong one crashes the process
    number: int = 0  # by which a Cancel names it
    streams: bool = False  # the answer is sent in AnswerPieces, too, while it is written


class Cancel(msgspec.Struct, tag="cancel"):
    """Stops the answer to the prompt of this number, if it is not finished."""

    number: int


class Ready(msgspec.Struct, tag="ready"):
    """The model is loaded; sent once."""

    context_tokens: int


class AnswerPiece(msgspec.Struct, tag="piece"):
    """The next characters of the answer that is being written."""

    text: str


class Completion(msgspec.Struct, tag="completion"):
    """The text that the model wrote; cut: it ended because of max_tokens."""

    text: str
    prompt_tokens: int
    answer_tokens: int
    cut: bool
    reused_tokens: int = 0  # of the prompt, which the model had read for an earlier one


Reply = Ready | AnswerPiece | Completion | ModelRefusal


class StopSignal:
    """Tells the running answer to stop: at its deadline, or by a Cancel. One thread answers, another one listens."""

    def __init__(self) -> None:
        self.cancelled = -1  # the number of the prompt that was cancelled last
        self._number = 0
        self._deadline = math.inf

    def arm(self, prompt: Prompt) -> None:
        """Begin to watch over the answer to a prompt."""
        self._number, self._deadline = prompt.number, time.monotonic() + prompt.deadline_s

    def is_set(self, _data: object = None) -> bool:
        """Return whether the running answer has to stop."""
        return time.monotonic() >= self._deadline or self.cancelled == self._number

    def refusal(self) -> ModelRefusal:
        """The reply for the answer that was stopped."""
        if self.cancelled == self._number:
            return ModelRefusal("cancelled", "the call was cancelled")
        return ModelRefusal("late", "it was not finished at its deadline")


def main(arguments: list[str]) -> int:
    """Serve prompts until the input closes; return 1 if the model cannot be used."""
    options = parse(arguments)
    out = claim_stdout()
    prompts: queue.SimpleQueue[Prompt] = queue.SimpleQueue()
    stop = StopSignal()
    threading.Thread(target=listen, args=(prompts, stop), daemon=True).start()
    sys.addaudithook(forbid_network)
    os.nice(NICENESS)
    if options.memory_limit:
        resource.setrlimit(resource.RLIMIT_AS, (options.memory_limit, options.memory_limit))
    try:
        check_file(options.model, options.sha256)
        model = LoadedModel(options, stop, lambda piece: send(out, piece))
    except (ImportError, OSError, RuntimeError, ValueError, MemoryError) as error:
        send(out, ModelRefusal("unusable", str(error) or type(error).__name__))
        return 1
    send(out, Ready(model.context_tokens))
    while True:
        send(out, model.complete(prompts.get()))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="llm_worker", description="Serves one GGUF model to its parent process.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--sha256", default="", help="refuse the file unless it has this hash")
    parser.add_argument("--context", type=int, default=4096, help="tokens of prompt and answer together")
    parser.add_argument("--threads", type=int, default=0, help="processor threads; 0: all but one")
    parser.add_argument("--gpu-layers", type=int, default=0, help="layers computed by the GPU; -1: all")
    parser.add_argument("--memory-limit", type=int, default=0, help="bytes of address space; 0: no limit")
    return parser.parse_args(arguments)


def listen(prompts: "queue.SimpleQueue[Prompt]", stop: StopSignal) -> None:
    """Queue every prompt, pass on every Cancel, and end the process when the input closes. It runs on a thread of its
    own, so that a parent's death is noticed in the middle of an answer: llama.cpp does not hold the GIL."""
    try:
        for message in messages(Prompt | Cancel):
            if isinstance(message, Cancel):
                stop.cancelled = message.number
            else:
                prompts.put(message)
    finally:
        os._exit(0)  # sys.exit would wait for an answer that nobody reads


class LoadedModel:
    """A GGUF model in memory that answers until it is told to stop."""

    def __init__(
        self, options: argparse.Namespace, stop: StopSignal, on_piece: Callable[[AnswerPiece], None] = lambda _: None
    ) -> None:
        """Raises ImportError, OSError, RuntimeError, ValueError or MemoryError if the model cannot be used."""
        import llama_cpp

        self._on_piece = on_piece

        # By default one processor stays free: OpenMP's threads spin at their barriers.
        threads = options.threads or max(1, available_cpus() - 1)
        # Any: llama_cpp's types are partial, and absent where the extra is.
        self._llama: Any = llama_cpp.Llama(
            str(options.model), n_ctx=options.context, n_threads=threads, n_threads_batch=threads,
            n_gpu_layers=options.gpu_layers, verbose=False,
        )  # fmt: skip
        self._frame = self._chat_frame()
        self._heads: dict[tuple[int, ...], ctypes.Array[ctypes.c_uint8]] = {}  # the state after each, oldest first
        self._stop = stop
        # llama.cpp asks this within prompt processing too, where nothing else can stop it. It keeps a bare pointer to
        # the callback, so we keep the object.
        self._callback = llama_cpp.ggml_abort_callback(stop.is_set)
        llama_cpp.llama_set_abort_callback(self._llama.ctx, self._callback, None)

    @property
    def context_tokens(self) -> int:
        return int(self._llama.n_ctx())

    def complete(self, prompt: Prompt) -> Completion | ModelRefusal:
        """Return the most probable answer to a prompt, in the model's own chat template; always the same one."""
        from llama_cpp.llama_grammar import LlamaGrammar

        before, after = self._frame
        head = [*before, *self._tokenize(prompt.head)]
        tokens = [*head, *self._tokenize(prompt.text), *after]
        if len(tokens) + prompt.max_tokens > self.context_tokens:
            room = max(self.context_tokens - prompt.max_tokens, 0)
            return ModelRefusal("too_long", f"the prompt has {len(tokens)} tokens, and {room} fit with the answer")
        grammar = LlamaGrammar.from_string(prompt.grammar, verbose=False) if prompt.grammar else None
        self._stop.arm(prompt)
        try:
            reused = self._read_head(head) if prompt.head else 0
            written, cut = self._generate(tokens, prompt, grammar)
        except (RuntimeError, ValueError) as error:
            self._llama.reset()  # an aborted evaluation leaves half a prompt in the cache
            if self._stop.is_set():
                return self._stop.refusal()
            return ModelRefusal("failed", f"the model could not answer: {error}")
        if self._stop.is_set():
            return self._stop.refusal()
        text = decode_answer(self._llama.detokenize(written, prev_tokens=tokens))
        return Completion(text, len(tokens), len(written), cut, reused)

    def _generate(self, tokens: list[int], prompt: Prompt, grammar: Any) -> tuple[list[int], bool]:
        """The most probable tokens after these, and whether they are cut: they ended because of max_tokens."""
        from llama_cpp import StoppingCriteriaList, llama_vocab_is_eog

        stop = StoppingCriteriaList([lambda _tokens, _scores: self._stop.is_set()])
        decoder = codecs.getincrementaldecoder("utf-8")("ignore")  # a token may end in the middle of a character
        written: list[int] = []
        for token in self._llama.generate(tokens, temp=0.0, grammar=grammar, stopping_criteria=stop):
            if llama_vocab_is_eog(self._llama._model.vocab, token):
                return written, False
            written.append(token)
            if prompt.streams and (text := decoder.decode(self._llama.detokenize([token]))):
                self._on_piece(AnswerPiece(text))
            if len(written) == prompt.max_tokens:
                break
        return written, True

    def _read_head(self, head: list[int]) -> int:
        """Have the model know the head of a prompt, from memory where it read it before; return the tokens reused."""
        import llama_cpp

        llama, key = self._llama, tuple(head)
        state = self._heads.pop(key, None)
        llama.reset()
        if state is None:
            llama.eval(head)
            state = (ctypes.c_uint8 * llama_cpp.llama_state_seq_get_size(llama.ctx, 0))()
            llama_cpp.llama_state_seq_get_data(llama.ctx, state, len(state), 0)
            reused = 0
        elif llama_cpp.llama_state_seq_set_data(llama.ctx, state, len(state), 0):
            llama.input_ids[: len(head)] = head  # as after an evaluation, so that the completion goes on from here
            llama.n_tokens = reused = len(head)
        else:
            llama.reset()
            return 0
        self._heads[key] = state
        if len(self._heads) > HEADS_MAX:
            del self._heads[next(iter(self._heads))]
        return reused

    def _chat_frame(self) -> tuple[list[int], list[int]]:
        """The tokens that the chat template of the model file puts before and after a prompt; none without a template.
        Raises ValueError for a template that does not take a plain message."""
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

    def _tokenize(self, text: str, *, special: bool = False, add_bos: bool = False) -> list[int]:
        """The tokens of a text. A control token that is written in it is plain text, unless `special`: only the frame
        may hold any, so that no prompt can end its message."""
        tokens: list[int] = self._llama.tokenize(text.encode(), add_bos=add_bos, special=special)
        return tokens


def decode_answer(written: bytes) -> str:
    """Decode what a model wrote.

    Where a token is a part of a character, llama.cpp lets a grammar's character be written in more bytes than it needs,
    or behind a first byte that UTF-8 does not know. Such a one counts as one character here too, U+FFFD, so that the
    text keeps to the bounds of its grammar.
    """
    return MISSPELT_CHARACTER.sub("\ufffd".encode(), written).decode(errors="replace")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Outputs of a language model with random weights under the grammar of each registered task.

    python -m tests.support.random_outputs COUNT [SITE...]

prints an `Output` a line. A process of its own, since a wrong grammar crashes llama.cpp. The vocabulary has pieces that
no JSON string may hold, pieces that end one field and begin the next, and every byte; the temperature, the prompt and
the seed differ from output to output.
"""

import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mnemo_core.llm.grammar import grammar_of
from mnemo_core.llm.registry import TASKS
from mnemo_core.llm.tasks import AnyTask
from mnemo_daemon.models.language.llm_worker import decode_answer
from tests.support.gguf_files import write_llama

CONTEXT_TOKENS = 32768  # more than an answer can have: there the grammar ends it, not the limit of tokens
TEMPERATURES = (0.7, 1.5, 4.0)
PIECES = (
    *('"', '", ', '", "', '": ', '": "', '"}', '"]', '"}]}', '"]}]}', '{"', '{"a": ', '["', "[]", "[", "], ", "}}"),
    *("\\", '\\"', "\\\\", "\\n", "\\u", "\\u0041", "\\ud83d", "\\ud83d\\udc3c", "\\x", "\n", "\r", "\t", "\x00"),
    *("\u007f", "\u0085", "\u2028", "\ufffe", "\uffff", "é", "ß", "鍵", "🐼", "🐼🐼", "e\u0301", "\u200d"),
    *("  ", "1", "12", "-1", "0.5", "1e9", ", 1", "1, ", "true", "false", "null", "NaN", "the", " the", "of the key"),
)  # fmt: skip


class Output(msgspec.Struct):
    """A text that the model wrote for a task; `is_whole`: the grammar ended it."""

    site: str
    text: str
    is_whole: bool


def outputs(tasks: Sequence[AnyTask], count: int) -> Iterator[Output]:
    """Generate `count` outputs of each task."""
    import llama_cpp

    with tempfile.TemporaryDirectory() as scratch:
        file = write_llama(Path(scratch) / "random.gguf", PIECES, context=CONTEXT_TOKENS)
        model: Any = llama_cpp.Llama(str(file), n_ctx=CONTEXT_TOKENS, n_threads=1, n_threads_batch=1, verbose=False)
        chance = random.Random(0)
        for task in tasks:
            for number in range(count):
                yield _output(model, task, chance, TEMPERATURES[number % len(TEMPERATURES)])


def _output(model: Any, task: AnyTask, chance: random.Random, temperature: float) -> Output:
    from llama_cpp.llama_grammar import LlamaGrammar

    model.set_seed(chance.getrandbits(32))
    prompt = [model.token_bos(), *(chance.randrange(model.n_vocab()) for _ in range(4))]
    grammar = LlamaGrammar.from_string(grammar_of(task.answer), verbose=False)
    tokens: list[int] = []
    for token in model.generate(prompt, temp=temperature, top_k=0, top_p=1.0, min_p=0.0, grammar=grammar):
        if token == model.token_eos():
            return Output(task.site, decode_answer(model.detokenize(tokens)), True)
        tokens.append(token)
        if len(tokens) + len(prompt) >= CONTEXT_TOKENS:
            break
    return Output(task.site, decode_answer(model.detokenize(tokens)), False)


def main(arguments: Sequence[str]) -> None:
    count, sites = int(arguments[0]), arguments[1:]
    for output in outputs([task for task in TASKS if not sites or task.site in sites], count):
        print(msgspec.json.encode(output).decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

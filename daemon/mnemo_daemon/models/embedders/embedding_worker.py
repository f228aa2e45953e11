"""The child process of a GGUF embedding model. SPEC 4.1

`python -m mnemo_daemon.models.embedders.embedding_worker MODEL` starts it.

It is to embeddings what `llm_worker` is to answers, with the same frames and for the same reasons: llama.cpp is not
thread-safe and can crash on a bad file. It reads Tokenize and Encode from standard input and writes EncoderFacts once,
then one Tokens or Vector for each, to standard output. It ends when its input closes.

Each Encode is run alone, so that no vector depends on the company of its text (SPEC 2.3).
"""

import argparse
import sys
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


class Tokenize(msgspec.Struct, tag="tokenize"):
    """Asks for the tokens of texts, special ones not counted."""

    texts: list[str]


class Encode(msgspec.Struct, tag="encode"):
    """Asks for the vector of tokens, special ones included."""

    tokens: list[int]


class EncoderFacts(msgspec.Struct, tag="facts"):
    """The model is loaded; sent once. The special tokens stand before and after those of a text."""

    dimensions: int
    before: list[int]
    after: list[int]


class Tokens(msgspec.Struct, tag="tokens"):
    """The tokens of each text."""

    tokens: list[list[int]]


class Vector(msgspec.Struct, tag="vector"):
    """A unit vector, as the bytes of its float32 numbers."""

    numbers: bytes


Reply = EncoderFacts | Tokens | Vector | ModelRefusal
SAMPLE = b"a"  # whose tokens show where the special ones stand


def main(arguments: list[str]) -> int:
    """Serve requests until the input closes; return 1 if the model cannot be used."""
    options = parse(arguments)
    out = claim_stdout()
    sys.addaudithook(forbid_network)
    try:
        check_file(options.model, options.sha256)
        model = LoadedEncoder(options)
    except (ImportError, OSError, RuntimeError, ValueError, MemoryError) as error:
        send(out, ModelRefusal("unusable", str(error) or type(error).__name__))
        return 1
    send(out, model.facts())
    for message in messages(Tokenize | Encode):
        if isinstance(message, Tokenize):
            send(out, Tokens(list(map(model.tokenize, message.texts))))
        else:
            send(out, Vector(model.encode(message.tokens)))
    return 0


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="embedding_worker", description="Serves one GGUF model to its parent.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--sha256", default="", help="refuse the file unless it has this hash")
    parser.add_argument("--tokens", type=int, required=True, help="that are encoded at once, at most")
    parser.add_argument("--pooling", choices=("mean", "cls", "last"), required=True)
    return parser.parse_args(arguments)


class LoadedEncoder:
    """A GGUF embedding model in memory."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Raises ImportError, OSError, RuntimeError, ValueError or MemoryError if the model cannot be used."""
        import llama_cpp

        threads = max(1, available_cpus() - 1)  # OpenMP's threads spin at their barriers
        poolings = {
            "mean": llama_cpp.LLAMA_POOLING_TYPE_MEAN,
            "cls": llama_cpp.LLAMA_POOLING_TYPE_CLS,
            "last": llama_cpp.LLAMA_POOLING_TYPE_LAST,
        }
        # Any: llama_cpp's types are partial, and absent where the extra is.
        self._llama: Any = llama_cpp.Llama(
            str(options.model), embedding=True, pooling_type=poolings[options.pooling], n_ctx=options.tokens,
            n_batch=options.tokens, n_ubatch=options.tokens, n_threads=threads, n_threads_batch=threads, verbose=False,
        )  # fmt: skip

    def facts(self) -> EncoderFacts:
        """The facts about the model that its parent needs."""
        own, whole = (self._llama.tokenize(SAMPLE, add_bos=with_special) for with_special in (False, True))
        start = next(at for at in range(len(whole)) if whole[at : at + len(own)] == own)
        return EncoderFacts(self._llama.n_embd(), whole[:start], whole[start + len(own) :])

    def tokenize(self, text: str) -> list[int]:
        """The tokens of a text. A control token that is written in it is plain text."""
        tokens: list[int] = self._llama.tokenize(text.encode(), add_bos=False, special=False)
        return tokens

    def encode(self, tokens: list[int]) -> bytes:
        """The unit vector of tokens."""
        import llama_cpp
        import numpy as np

        context, batch = self._llama._ctx, self._llama._batch
        batch.reset()
        batch.add_sequence(tokens, 0, True)
        context.kv_cache_clear()
        context.decode(batch)
        numbers = llama_cpp.llama_get_embeddings_seq(context.ctx, 0)
        vector = np.ctypeslib.as_array(numbers, shape=(self._llama.n_embd(),)).astype(np.float64)
        return (vector / max(float(np.linalg.norm(vector)), 1e-12)).astype(np.float32).tobytes()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

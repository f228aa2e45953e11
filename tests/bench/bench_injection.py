"""Tokens of a prompt that llama.cpp's server had in its cache, by its own counter, with contexts in the prompt.

    python -m tests.bench.bench_injection [TURNS]

One conversation of the client `openai` with a small model through `mnemo proxy`, once without and once with `--inject`.
Each turn asks for another thing; between two turns the memory of the one that was asked for is changed, and one of the
next is added. A cache that holds evaluates of each prompt what is new in it: the last answer, block and message.
Needs the models of `make models`.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import openai

from mnemo_client.client import Client
from mnemo_client.paths import models_folder
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue
from tests.support.llama_server import MODEL, LlamaServer, llama_server
from tests.support.running_daemon import RunningDaemon, running
from tests.support.scripted_upstream import running_proxy

LANGUAGE_MODEL = "SmolLM2-135M-Instruct-Q4_1"
TURNS = 10
ANSWER_TOKENS = 16
CONTEXT_TOKENS = 8192
SYSTEM = "You are the harbour master's helper. You answer in one short sentence, and you say what you do not know."
THINGS = ("anchor", "compass", "dinghy", "ensign", "fender", "gaff", "hatch key", "inverter", "jib", "kedge", "lantern",
          "mooring line", "nautical chart", "oar", "pump", "radio", "sextant", "tiller")  # fmt: skip


class TurnTokens(NamedTuple):
    prompt: int
    reused: int


def thing_of(turn: int) -> str:
    return f"{THINGS[turn % len(THINGS)]} number {turn // len(THINGS) + 1}"


def remember(client: Client, turn: int) -> str:
    text = f"The {thing_of(turn)} of the boat Wren is kept in locker {turn + 1} of the harbour office."
    return client.remember(text).memory.id


def converse(daemon: RunningDaemon, server: LlamaServer, turns: int, *options: str) -> tuple[list[TurnTokens], Any]:
    """The tokens of each turn, and what the proxy says of it. The daemon has the memory of the first turn."""
    history: list[Any] = [{"role": "system", "content": SYSTEM}]
    found = []
    with (
        running_proxy(daemon, server.address, *options) as proxy, daemon.client() as memory,
        openai.OpenAI(base_url=f"{proxy.address}/v1", api_key=f"k{len(options)}", max_retries=0) as talker,
    ):  # fmt: skip
        for turn in range(turns):
            asked_for = remember(memory, turn)
            daemon.wait_for_vectors()
            history.append({"role": "user", "content": f"In which locker is the {thing_of(turn)} of the boat Wren?"})
            hits = len(server.cache_hits())
            answer = talker.chat.completions.create(
                model=MODEL, messages=history, max_tokens=ANSWER_TOKENS, temperature=0.0
            )
            assert answer.usage is not None
            new = server.cache_hits()[hits:]
            found.append(TurnTokens(answer.usage.prompt_tokens, new[0].reused if new else 0))
            history.append({"role": "assistant", "content": answer.choices[0].message.content})
            memory.patch(asked_for, content=f"The {thing_of(turn)} of the boat Wren went to the workshop today.")
        return found, proxy.command("status")


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    models = models_folder(os.environ)
    manifest = ModelCatalogue(models).require_installed(LANGUAGE_MODEL)
    measured = {}
    with llama_server(manifest.path(), CONTEXT_TOKENS) as server:
        for options in ((), ("--inject",)):
            with tempfile.TemporaryDirectory(prefix="m") as scratch:
                own = Path(scratch) / "models"  # without the language model, which the daemon would use
                own.mkdir()
                (own / DEFAULT_EMBEDDING).symlink_to(models / DEFAULT_EMBEDDING)
                with running(Path(scratch) / "data", {"MNEMO_MODELS_FOLDER": str(own)}) as daemon:
                    measured[options], status = converse(daemon, server, turns, *options)
    print("turn    without: prompt  reused  evaluated    with contexts: prompt  reused  evaluated")
    for turn, (bare, injected) in enumerate(zip(*measured.values(), strict=True), 1):
        numbers = (f"{each.prompt:6}  {each.reused:6}  {each.prompt - each.reused:9}" for each in (bare, injected))
        print(f"{turn:4}            {'                  '.join(numbers)}")
    print(f"contexts put in: {status['injected']}, without one: {status['not_injected']}")


if __name__ == "__main__":
    main()

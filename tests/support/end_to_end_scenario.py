"""A person's life with mnemod, from the first command to the last: everything it offers, but for the pull of a model.

    python -m tests.support.end_to_end_scenario HOME MODELS

Is traced while it runs (see `traced.py`), so it does what a person does and no more: gives commands, edits notes, has
an agent that speaks over MCP. MODELS holds what is brought in by hand: `embedding`, `pairs` and `model.gguf`.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEP_SECONDS_MAX = 120.0
TELEMETRY_SECONDS = 12.0  # after onnxruntime is loaded; its first upload, where it is not silenced, comes after 9 to 10
NOTES = {
    "house.md": "# House\n\nThe spare key is with Ines, number 14.\n",
    "boat.md": "---\ntags: [boat]\n---\n# Boat\n\nThe ferry to Cacilhas leaves from the northern pier.\n",
    "kitchen/bread.org": "* Bread\nThe oven needs 240 degrees for the first ten minutes.\n",
}
CONVERSATION = [
    {"role": "user", "content": "I moved to Porto in January and I work at the aquarium."},
    {"role": "agent", "content": "Good to know. The aquarium opens at nine."},
]
OTHERS = [{"id": "1", "memory": "Tomas likes green tea.", "created_at": "2026-01-01T10:00:00Z", "user_id": "tomas"}]
WORKER = """
import sys
from pathlib import Path
from mnemo_daemon.models.language.language_model import LanguageModel
model = LanguageModel(Path(sys.argv[1]), allow_unknown=True)
print(model.answer("Hello", 1, 120).text)
model.close()
"""


class EndToEndScenario:
    """The commands of one person, whose environment says nothing but HOME and PATH."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.notes = home / "notes"

    def give(self, *words: str, typed: str = "", codes: tuple[int, ...] = (0,), **environ: str) -> str:
        """The output of the command."""
        done = subprocess.run(
            [sys.executable, "-m", "mnemo_client.cli.main", *words],
            input=typed, capture_output=True, text=True, env={**os.environ, **environ}, cwd=self.home, check=False,
            timeout=STEP_SECONDS_MAX,
        )  # fmt: skip
        if done.returncode not in codes or "Traceback" in done.stderr:
            sys.exit(f"mnemo {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def answer(self, *words: str, typed: str = "") -> Any:
        return json.loads(self.give(*words, "--json", typed=typed))

    def save(self, name: str, text: str) -> None:
        path = self.notes / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def wait_until(self, what: str, holds: Callable[[Any], bool]) -> Any:
        """The status once it is so."""
        deadline = time.monotonic() + STEP_SECONDS_MAX
        while time.monotonic() < deadline:
            if holds(status := self.answer("status")):
                return status
            time.sleep(0.1)
        sys.exit(f"not {what}: {status}")

    def wait_until_indexed(self) -> Any:
        """The status once the embedding model is there and everything has its vector."""
        return self.wait_until(
            "indexed",
            lambda status: (
                status["models"]["embedding"]["state"] == "ready" and not any(status["queue"].values())
                and all(root["state"] == "watching" and not root["waiting"] for root in status["notes"]["roots"])
            ),
        )  # fmt: skip


def main() -> None:
    life, models = EndToEndScenario(Path(sys.argv[1])), Path(sys.argv[2])
    try:
        live(life, models)
    finally:
        life.give("down")


def live(life: EndToEndScenario, models: Path) -> None:
    bring_models(life, models)
    for name, text in NOTES.items():
        life.save(name, text)
    life.give("init", str(life.notes))
    life.wait_until_indexed()
    loaded = time.monotonic()
    for step in (remember, recall, speak_as_an_agent, change, move, look_after):
        step(life)
    time.sleep(max(0.0, loaded + TELEMETRY_SECONDS - time.monotonic()))
    crash(life)
    use_fastembed(life, models)
    life.give("down")
    work_offline(life, models)


def bring_models(life: EndToEndScenario, models: Path) -> None:
    life.give("models", "import", str(models / "embedding"))
    life.give("models", "import", str(models / "pairs"), "--name", "made/pairs", "--allow-unverified")
    life.give("models", "list")


def remember(life: EndToEndScenario) -> None:
    life.give("add", "The deploy runs on Thursdays.", "--tag", "work", "--explain")
    life.give("add", "-", "--key", "token", typed="My mother's birthday is on 12 March.")
    life.give("ingest", "-", "--infer", typed="Maria moved to Berlin. " * 3 + "\n\nShe leads the payments team.")
    life.give("turns", "-", "--session", "s1", typed="".join(json.dumps(turn) + "\n" for turn in CONVERSATION))
    life.save("boat.md", NOTES["boat.md"] + "\nThe mooring costs 40 euros a month.\n")
    (life.notes / "house.md").rename(life.notes / "home.md")
    life.give("notes", "rescan")
    life.wait_until_indexed()


def recall(life: EndToEndScenario) -> None:
    for ranker in ("auto", "words", "fused", "layered", "rerank", "deterministic"):
        life.give("recall", "where", "is", "the", "spare", "key", "--ranker", ranker, "--explain")
    life.give("recall", "where is the key", "--ranker", "rerank", MNEMO_MODELS_RERANKER="made/pairs")
    life.give("search", "ferry")
    life.give("open", "1", VISUAL="cat")
    life.give("context", "what about the boat", "--budget", "200")
    life.give("why", "1", "spare", "key", codes=(0, 1, 2, 3))
    life.give("ask", "what does the mooring cost", codes=(0, 3))
    life.give("reindex", "--stats")
    life.give("try", str(life.notes))


def speak_as_an_agent(life: EndToEndScenario) -> None:
    """Over the bridge, as an agent's own process does."""
    calls: list[tuple[str, dict[str, object]]] = [
        ("memory_remember", {"content": "The user wants tests before code."}),
        ("memory_recall", {"query": "when does the ferry leave"}),
        ("memory_status", {}),
    ]
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "life", "version": "1"}}
    asked: list[dict[str, object]] = [{"id": 0, "method": "initialize", "params": about}]
    asked += [
        {"id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(calls, start=1)
    ]
    typed = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in asked)
    said = [json.loads(line) for line in life.give("mcp", typed=typed).splitlines()]
    if len(said) != len(asked) or any("error" in each for each in said):
        sys.exit(f"the bridge said {said}")


def change(life: EndToEndScenario) -> None:
    kept = life.answer("add", "The train to Faro leaves at seven.")["memory"]["id"]
    life.give("edit", kept, EDITOR=f"{sys.executable} -c \"import sys; open(sys.argv[1], 'a').write(' In May.')\"")
    life.give("history", kept)
    life.give("diff", "1h")
    life.give("undo")
    life.give("rm", kept)
    life.give("trash")
    life.give("trash", "restore", kept)
    life.give("forget", kept, "--yes")
    life.give("reclassify", "--dry-run")


def move(life: EndToEndScenario) -> None:
    """Out, and in again. The files are where the person says."""
    given = life.home / "given"
    given.mkdir()
    life.give("export", str(given / "memories.jsonl"), "--vectors")
    life.give("import", str(given / "memories.jsonl"))
    (given / "others.json").write_text(json.dumps(OTHERS))
    life.give("import", str(given / "others.json"), "--from", "mem0")
    life.give("backup", str(given / "backup"))
    life.give("backup")


def look_after(life: EndToEndScenario) -> None:
    life.give("doctor", codes=(0, 1))
    life.give("check")
    life.give("compact")
    life.give("consolidate")
    if "not blocked: switched off" not in life.give("status"):
        sys.exit("the kernel blocks the network, and hides from the trace what the program tries")
    life.give("notes", "status")
    life.give("config")
    life.give("completion", "bash")
    life.give("service", "status", codes=(0, 3))
    life.give("models", "calibrate", codes=(0, 1, 2))


def wait_until_refused(path: str) -> None:
    """Wait until the daemon is gone: while it dies, a connection is still taken, and ends without an answer."""
    deadline = time.monotonic() + STEP_SECONDS_MAX
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as client:
            if client.connect_ex(path):
                return
        time.sleep(0.01)
    sys.exit("the daemon that was killed still takes connections")


def crash(life: EndToEndScenario) -> None:
    status = life.answer("status")
    os.kill(status["pid"], signal.SIGKILL)
    wait_until_refused(status["socket"])
    life.give("recall", "the", "mooring")
    life.wait_until_indexed()


def use_fastembed(life: EndToEndScenario, models: Path) -> None:
    """A model that fastembed runs, for a while."""
    life.give("models", "import", str(models / "export"), "--name", "made/export", "--allow-unverified")
    life.wait_until("switched to made/export", lambda status: status["models"]["embedding"]["form"] == "fastembed")
    life.wait_until_indexed()
    life.give("recall", "where", "is", "the", "spare", "key", "--ranker", "fused")
    life.give("models", "use", "all-MiniLM-L6-v2")
    life.wait_until("switched back", lambda status: status["models"]["embedding"]["form"] != "fastembed")


def work_offline(life: EndToEndScenario, models: Path) -> None:
    offline = [sys.executable, "-m", "mnemo_daemon.offline"]
    for words in (["list"], ["check"], ["repair"], ["restore", str(life.home / "given" / "backup"), "--json"]):
        subprocess.run([*offline, *words], check=True, capture_output=True, timeout=STEP_SECONDS_MAX)
    life.give("restore", str(life.home / "given" / "backup"), "--yes")
    life.give("down")
    worker = [sys.executable, "-c", WORKER, str(models / "model.gguf")]
    subprocess.run(worker, check=True, capture_output=True, timeout=STEP_SECONDS_MAX)


if __name__ == "__main__":
    main()

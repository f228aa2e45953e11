"""A language model that gives recorded answers, as a capable model writes them, to the prompts that it knows.

Each line of tests/fixtures/llm/answers.jsonl has the test that asks, the site, the hash of the whole prompt, the data
of the prompt for a reader, and the answer. A prompt without an answer fails its test, which prints the line to be
added: put the right answer there in the place of null. So does an answer that no prompt asks for any more. When an
instruction has changed, read whether its answers still are right before their hashes are replaced.
"""

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

from mnemo_core.llm.registry import TASKS
from mnemo_core.llm.tasks import prompt_head
from mnemo_core.llm_sites import Site
from mnemo_daemon.models.catalogue import ModelCatalogue, ModelManifest
from mnemo_daemon.models.language.language_model import (
    LanguageModel,
    LanguageModelService,
    LanguageModelStatus,
    ModelFailureError,
)
from mnemo_daemon.models.language.llm_worker import Completion
from mnemo_daemon.settings import LlmSettings

ANSWERS = Path(__file__).parents[1] / "fixtures" / "llm" / "answers.jsonl"
_SITE_OF_HEAD = {prompt_head(task): task.site for task in TASKS}


def prompt_hash(head: str, data: str) -> str:
    return blake2b(f"{head}{data}".encode(), digest_size=8).hexdigest()


class RecordedModel(LanguageModel):
    """A model with the answers of one test."""

    def __init__(self, test: str) -> None:
        super().__init__(Path("recorded.gguf"))
        rows = [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]
        self._test = test
        self._answers: dict[str, Any] = {row["hash"]: row["answer"] for row in rows if row["test"] == test}
        self._unasked = set(self._answers)
        self._unknown: list[dict[str, Any]] = []

    def status(self) -> LanguageModelStatus:
        return LanguageModelStatus("ready", "", self.name)

    def answer(self, prompt: str, *_: Any, head: str = "", **__: Any) -> Completion:
        key, site = prompt_hash(head, prompt), _SITE_OF_HEAD[head]
        if self._answers.get(key) is None:
            row = {"test": self._test, "site": site, "hash": key, "prompt": prompt, "answer": None}
            self._unknown += [] if row in self._unknown else [row]
            raise ModelFailureError("no answer to this prompt is recorded")
        self._unasked.discard(key)
        return Completion(json.dumps(self._answers[key], ensure_ascii=False), 1, 1, cut=False)

    def require_all_known(self) -> None:
        """Raise AssertionError with the prompts that have no answer, and the answers that no prompt asked for."""
        unknown = "\n".join(json.dumps(row, ensure_ascii=False) for row in self._unknown)
        assert not unknown, f"prompts without a recorded answer, for {ANSWERS.name}:\n{unknown}"
        assert not self._unasked, f"answers of {ANSWERS.name} that no prompt of {self._test} asks for: {self._unasked}"


class RecordedModels(LanguageModelService):
    """The language models of a daemon: the recorded one at every site."""

    def __init__(self, model: RecordedModel) -> None:
        super().__init__(ModelCatalogue(Path("/nonexistent")), LlmSettings())
        self._recorded = model

    def model(self, site: Site | None = None) -> LanguageModel:
        del site
        return self._recorded

    def manifest(self, site: Site | None = None) -> ModelManifest | None:
        del site
        return None

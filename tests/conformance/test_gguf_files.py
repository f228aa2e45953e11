"""The models that tests write themselves are models for llama.cpp."""

from pathlib import Path

import pytest

from mnemo_daemon.models.language.language_model import LanguageModel
from tests.support.gguf_files import write_llama

LOADED_S = 120.0
TEMPLATE = "{% for message in messages %}<s>{{ message.content }}</s>{% endfor %}"


@pytest.mark.parametrize("template", ["", TEMPLATE])
def test_a_random_model_writes_what_its_grammar_allows_in_any_letters(tmp_path: Path, template: str) -> None:
    path = write_llama(tmp_path / "random.gguf", ["the key", "Zürich"], chat_template=template)
    model = LanguageModel(path, allow_unknown=True, context_tokens=512)
    try:
        grammar = 'root ::= "{" ("the key" | "Zürich 鍵") "}"'
        answer = model.answer("Where is the key? 鍵", 24, LOADED_S, grammar=grammar)
        assert answer.text in ("{the key}", "{Zürich 鍵}")
        assert 0 < model.answer("Hello", 8, LOADED_S).answer_tokens <= 8
    finally:
        model.close()

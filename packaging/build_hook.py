"""Build hook of the wheel: adds the manual pages and the shell completions, generated from the table of commands."""

import importlib.util
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGES = ("mnemo", "mnemod")
COMPLETIONS = {
    "bash": "share/bash-completion/completions/mnemo",
    "zsh": "share/zsh/site-functions/_mnemo",
    "fish": "share/fish/vendor_completions.d/mnemo.fish",
}


class GeneratedFiles(BuildHookInterface[Any]):
    """Writes the files to a temporary folder, which is removed after the build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":  # an editable installation runs from the working copy
            return
        man_page = _load(Path(self.root) / "packaging" / "man_page.py")
        from mnemo_client.cli import completion

        self._folder = tempfile.TemporaryDirectory(prefix="mnemo-build-")
        texts = {f"share/man/man1/{name}.1": man_page.PAGES[name]() for name in PAGES}
        for shell, place in COMPLETIONS.items():
            texts[place] = completion.file_text(shell)
        for number, (place, text) in enumerate(texts.items()):
            file = Path(self._folder.name, str(number))
            file.write_text(text, encoding="utf-8")
            build_data["shared_data"][str(file)] = place

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version == "standard":
            self._folder.cleanup()


def _load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

"""The language model of a daemon: the installed one that the settings choose, none until one is installed. SPEC 4.2"""

import threading

from mnemo_client.protocol.status import ModelStatus
from mnemo_daemon.errors import ModelError
from mnemo_daemon.models.catalogue import KNOWN_MODELS, ModelCatalogue, ModelManifest
from mnemo_daemon.models.language_model import LanguageModel
from mnemo_daemon.settings import LlmSettings


class LanguageModelService:
    """Keeps the LanguageModel of the chosen file. Everything may be called from any thread."""

    def __init__(self, catalogue: ModelCatalogue, settings: LlmSettings) -> None:
        """Starts nothing."""
        self._catalogue = catalogue
        self._settings = settings
        self._lock = threading.Lock()
        self._manifest: ModelManifest | None = None
        self._model = LanguageModel(None)

    def model(self) -> LanguageModel:
        """The model to ask: of the file that is installed now."""
        with self._lock:
            manifest = self._chosen()
            if manifest != self._manifest:
                self._model.close()
                self._manifest, self._model = manifest, self._made(manifest)
            return self._model

    def status(self) -> ModelStatus:
        """The state of the model, as `mnemo status` shows it. Without a call it is not loaded, which is no failure."""
        status = self.model().status()
        name = self._manifest.name if self._manifest else None
        match status.state:
            case "absent":
                return ModelStatus(name=name, state="absent", reason=status.reason)
            case "off":
                return ModelStatus(name=name, state="ready", reason=status.reason)
            case "starting":
                return ModelStatus(name=name, state="loading")
            case "ready":
                return ModelStatus(name=name, state="ready")
            case "failed":
                return ModelStatus(name=name, state="failed", reason=status.reason)

    def close(self) -> None:
        """End the process of the model."""
        with self._lock:
            self._model.close()

    def _chosen(self) -> ModelManifest | None:
        """The installed model that the settings name; without a name, the largest installed one of the catalogue."""
        own = self._settings.model
        by_size = sorted(KNOWN_MODELS, key=lambda known: -known.size_bytes)
        for name in (own,) if own else (known.name for known in by_size if known.role == "llm"):
            try:
                manifest = self._catalogue.installed(name)
            except ModelError:
                continue
            if manifest is not None and manifest.role == "llm":
                return manifest
        return None

    def _made(self, manifest: ModelManifest | None) -> LanguageModel:
        settings = self._settings
        return LanguageModel(
            manifest.path() if manifest else None,
            sha256=manifest.weights_sha256 if manifest else None,
            context_tokens=settings.context_tokens,
            threads=settings.threads,
            gpu_layers=settings.gpu_layers,
            memory_limit_bytes=settings.memory_mib << 20,
            idle_s=settings.idle_minutes * 60.0,
        )

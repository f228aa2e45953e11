"""The language models of a daemon: the default one, and those that the settings give to single tasks. SPEC 4.2, 12.2"""

import threading
from collections.abc import Iterator
from typing import get_args

import msgspec

from mnemo_client.protocol.status import ModelStatus
from mnemo_core.llm.tasks import key_of_model
from mnemo_core.llm_sites import Site
from mnemo_daemon.errors import ModelError, UnsupportedModel
from mnemo_daemon.models.call_queue import WorkerSlots
from mnemo_daemon.models.catalogue import KNOWN_MODELS, ROLES, ModelCatalogue, ModelManifest
from mnemo_daemon.models.language.language_model import NO_MODEL_CHOSEN, LanguageModel
from mnemo_daemon.settings import LlmSettings

LOADED_MAX = 2  # a quick one for those who wait and a better one for the background; each has gigabytes
WITHOUT_MODEL = "until there is one, every task uses its method without a language model"


class LanguageModelService:
    """Keeps a LanguageModel for each chosen file. Everything may be called from any thread."""

    def __init__(self, catalogue: ModelCatalogue, settings: LlmSettings) -> None:
        """Starts nothing."""
        self._catalogue = catalogue
        self._settings = settings
        self._lock = threading.Lock()
        self._slots = WorkerSlots(LOADED_MAX)
        self._models: dict[str, tuple[ModelManifest, LanguageModel]] = {}  # by the model's name
        self._default = ""  # the model that a person chose

    def model(self, site: Site | None = None) -> LanguageModel:
        """The model to ask at a site, by default at one without a model of its own: of the file installed now."""
        manifest = self.manifest(site)
        if manifest is None:
            return LanguageModel(None, absence=self._absence(site))
        with self._lock:
            known, model = self._models.get(manifest.name, (None, None))
            if model is None or known != manifest:
                if model is not None:
                    model.close()
                settings = self._settings
                model = LanguageModel(
                    manifest.path(),
                    sha256=manifest.weights_sha256,
                    context_tokens=settings.context_tokens,
                    threads=settings.threads,
                    gpu_layers=settings.gpu_layers,
                    memory_limit_bytes=settings.memory_mib << 20,
                    idle_s=settings.idle_minutes * 60.0,
                    slots=self._slots,
                )
                self._models[manifest.name] = (manifest, model)
            return model

    def manifest(self, site: Site | None = None) -> ModelManifest | None:
        """The installed model that the settings give to a site, else the default: the one that `llm.model` names, that
        a person chose, or the largest installed one of the catalogue."""
        if configured := self._configured(site)[1]:
            return self._installed(configured)
        by_size = sorted(KNOWN_MODELS, key=lambda known: -known.size_bytes)
        names = [self._default, *(known.name for known in by_size if known.role == "llm")]
        return next(filter(None, map(self._installed, filter(None, names))), None)

    def require_usable(self, name: str) -> str:
        """The model's own name. Raises UnknownModel, MissingModelError, DamagedModelError, or UnsupportedModel for what
        is no language model."""
        manifest = self._catalogue.require_installed(name)
        if manifest.role != "llm":
            raise UnsupportedModel(f"{manifest.name} is {ROLES[manifest.role]}, not a language model")
        return manifest.name

    def use(self, name: str) -> None:
        """Make a model the default from the next call on; "" for the largest installed one."""
        self._default = name

    def manifests(self) -> dict[Site, ModelManifest]:
        """The installed model of each site that has one."""
        sites: tuple[Site, ...] = get_args(Site)
        key_of = {site: key_of_model(site, self._settings.models) for site in sites}
        found = {key: self.manifest(site) for site, key in key_of.items()}
        return {site: manifest for site, key in key_of.items() if (manifest := found[key]) is not None}

    def status(self) -> ModelStatus:
        """The state of the default model, as `mnemo status` shows it. Without a call it is not loaded, which is no
        failure. The hint names settings whose model is not installed."""
        status, manifest = self.model().status(), self.manifest()
        answer = ModelStatus(name=manifest.name if manifest else None, state="ready", reason=status.reason or None)
        if missing := [self._absence(site) for site in self._sites() if self.manifest(site) is None]:
            answer = msgspec.structs.replace(answer, hint="; ".join(missing))
        match status.state:
            case "absent":
                return msgspec.structs.replace(answer, state="absent", hint=answer.hint or WITHOUT_MODEL)
            case "starting":
                return msgspec.structs.replace(answer, state="loading")
            case "failed":
                return msgspec.structs.replace(answer, state="failed")
            case "off" | "ready":
                return answer

    def close(self) -> None:
        """End the processes of the models."""
        with self._lock:
            for _, model in self._models.values():
                model.close()

    def _sites(self) -> Iterator[Site]:
        """The sites that the settings name, by themselves or by the name of their group."""
        return ("resume_compress" if key == "resume" else key for key in self._settings.models)

    def _configured(self, site: Site | None) -> tuple[str, str]:
        """The setting that names the model of a site, and the name; "" where none does."""
        models = self._settings.models
        key = key_of_model(site, models) if site else None
        return ("llm.model", self._settings.model) if key is None else (f"llm.models.{key}", models[key])

    def _absence(self, site: Site | None) -> str:
        """Return why a site has no model."""
        setting, name = self._configured(site)
        if not name:
            return NO_MODEL_CHOSEN
        listed = self._catalogue.listing()
        installed = ", ".join(entry.name for entry in listed if entry.role == "llm" and entry.installed)
        return f"`{setting}` names {name!r}; the installed language models are: {installed or 'none'}"

    def _installed(self, name: str) -> ModelManifest | None:
        """The language model of that name, if it is installed."""
        try:
            manifest = self._catalogue.require_installed(name)
        except ModelError:
            return None
        return manifest if manifest.role == "llm" else None

"""The thresholds of an installed model: measured on the labelled pairs, and kept next to its files. SPEC 4.5"""

import contextlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mnemo_core.similarity import thresholds
from mnemo_core.similarity.thresholds import COSINES, PAIRS, ThresholdRow, Thresholds
from mnemo_daemon.errors import InstallationError, MissingModelError, ModelError, UndiscriminatingModel
from mnemo_daemon.models.catalogue import EXACT_FILE, ModelCatalogue, ModelListing, ModelManifest, Progress, find_known
from mnemo_daemon.models.embedders.embedder import Embedder, name_space
from mnemo_daemon.models.embedders.embedding import EmbeddingService, load_embedder
from mnemo_daemon.settings import Numerics
from mnemo_store.batches import batched
from mnemo_store.disk import Disk

FILE_NAME = "calibration.json"  # in the model's own folder, next to its manifest
EXACT_FILE_NAME = "calibration.float32.json"  # of the float32 form, where that is installed next to the int8 one
FILE_FORMAT = 2  # grows when an anchor moves: an older calibration then no longer counts
BATCH_TEXTS = 64  # between two steps of the progress


class CalibrationFile(msgspec.Struct, frozen=True, kw_only=True):
    """The file kept next to a model. The figures are those of `calibration.Calibration`."""

    format: int
    name: str
    space: str  # of the vectors it was measured with: other weights, other numerics have another
    pairs: int
    languages: dict[str, float]
    counted: tuple[str, ...]
    related: float
    same: float
    thresholds: tuple[ThresholdRow, ...]


_FILE = msgspec.json.Decoder(CalibrationFile)  # made here, as that of a manifest (catalogue)


def calibrate(
    name: str, folder: Path, progress: Progress | None = None, numerics: Numerics = "auto"
) -> CalibrationFile:
    """The thresholds of an installed model in the form that is used here, measured, and kept next to its files. Raises
    MissingModelError, DamagedModelError, UnsupportedModel, or UndiscriminatingModel; nothing is kept then."""
    known = find_known(name)
    manifest = ModelCatalogue(folder).installed(known.name if known else name)
    if manifest is None:
        raise MissingModelError(f"{known.name if known else name} is not installed, so it cannot be calibrated")
    embedder = load_embedder(manifest, numerics=numerics)
    manifest = next(each for each in manifest.forms() if name_space(each) == embedder.space)
    try:
        found = thresholds.calibrate(similarities(embedder, progress), PAIRS)
    finally:
        embedder.close()
    if not found.separates:
        raise UndiscriminatingModel(
            f"{manifest.name} puts related texts above unrelated ones in {found.related:.0%} of the cases and what "
            f"says the same above what is related in {found.same:.0%}: at least {thresholds.SEPARATION_MIN:.0%} "
            "of both are needed"
        )
    kept = CalibrationFile(
        format=FILE_FORMAT, name=manifest.name, space=name_space(manifest), pairs=len(PAIRS),
        languages=dict(found.languages), counted=found.counted, related=found.related, same=found.same,
        thresholds=found.rows,
    )  # fmt: skip
    try:
        Disk().replace_file(calibration_file(manifest), [msgspec.json.format(msgspec.json.encode(kept), indent=2)])
    except OSError as error:
        raise InstallationError(f"the thresholds of {manifest.name} could not be written: {error.strerror}") from error
    return kept


def thresholds_for(manifest: ModelManifest) -> Thresholds:
    """The thresholds for an installed model: those measured here, else those that come with mnemod for it. For any
    other model they are the default model's, and say that they are not calibrated. Never raises."""
    try:
        kept = _FILE.decode(calibration_file(manifest).read_bytes())
    except (OSError, msgspec.DecodeError):
        kept = None
    if kept is not None and kept.format == FILE_FORMAT and kept.space == name_space(manifest):
        found: dict[str, Any] = {row.name: row.cosine for row in kept.thresholds}
        if found.keys() == set(COSINES):
            return Thresholds(**found)
    return thresholds.of_model(manifest.name, manifest.form)


def is_calibrated(listed: ModelListing, catalogue: ModelCatalogue) -> bool | None:
    """True if the thresholds of an embedding model were measured, here or for all; None for another model."""
    if listed.role != "embedding":
        return None
    with contextlib.suppress(ModelError):
        if (manifest := catalogue.installed(listed.name)) is not None:
            return thresholds_for(manifest).calibrated
    return thresholds.of_model(listed.name).calibrated


class ModelThresholds:
    """The thresholds of the models in use, as they were when each was first asked for. Any thread may ask."""

    def __init__(self, embedding: EmbeddingService) -> None:
        self._embedding = embedding
        self._known: dict[str, Thresholds] = {}  # by vector space

    def of(self, embedder: Embedder) -> Thresholds:
        """The thresholds for the vectors of a model."""
        if embedder.space not in self._known:
            manifest = self._embedding.manifest_of(embedder)
            known = thresholds.of_model(embedder.name, embedder.form)
            self._known[embedder.space] = known if manifest is None else thresholds_for(manifest)
        return self._known[embedder.space]


def calibration_file(manifest: ModelManifest) -> Path:
    """The path at which the measured thresholds of this form of the model are kept."""
    return Path(manifest.folder, EXACT_FILE_NAME if manifest.weights_file == EXACT_FILE else FILE_NAME)


def similarities(embedder: Embedder, progress: Progress | None = None) -> list[float]:
    """The cosine that the model gives each labelled pair."""
    texts = [text for pair in PAIRS for text in (pair.one, pair.other)]
    rows: list[np.ndarray] = []
    for some in batched(texts, BATCH_TEXTS):
        if progress:
            progress("comparing labelled texts", len(rows), len(texts))
        rows += embedder.encode_batch(some)
    return [float((one @ other.T).max()) for one, other in zip(rows[::2], rows[1::2], strict=True)]

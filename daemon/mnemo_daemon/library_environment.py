"""Environment variables that keep the libraries from the network. docs/operation.md, "Offline".

The package's `__init__` sets them, so they hold in every process that imports any module of it, before a library can be
loaded. The only modules that load these libraries are in this package. adr/0008-privacy.md says what each does.
"""

from collections.abc import MutableMapping

SILENT = {
    # onnxruntime 1.29 and newer: read once, when the library is loaded. Else it writes a device id and an event
    # database below the user's cache folder, and uploads them about 10 s later and at the end of the process.
    "ORT_DISABLE_TELEMETRY": "1",
    # huggingface_hub, which comes with tokenizers and fastembed, and hf-xet, which moves files for it.
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "HF_XET_TELEMETRY_ENABLED": "0",
    # fastembed is given a folder for each model. Where it was not, it would have no place for a cache, and raise.
    "FASTEMBED_CACHE_PATH": "/dev/null",
    # loguru, by which fastembed writes its log, prints to stderr by itself, in tracebacks with the values of variables.
    "LOGURU_AUTOINIT": "0",
    # opentelemetry-api does nothing alone, and loads an exporter where the same environment has one configured.
    "OTEL_SDK_DISABLED": "true",
    # https://consoledonottrack.com: whatever else reads it.
    "DO_NOT_TRACK": "1",
}


def silence_libraries(environ: MutableMapping[str, str]) -> None:
    """Set every variable, also where the user's own environment says otherwise: the promise holds for everyone."""
    environ.update(SILENT)

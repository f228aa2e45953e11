"""The command line of a benchmark from the parameters of its `main`, and what benchmarks measure on."""

import argparse
import inspect
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NoReturn, get_args, get_origin

from mnemo_client.client import Client
from mnemo_client.paths import models_folder
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue
from mnemo_daemon.models.embedders.embedder import Embedder
from mnemo_daemon.models.embedders.embedding import EmbeddingService, load_embedder
from tests.support.running_daemon import RunningDaemon, running


def run(main: Callable[..., int | None]) -> NoReturn:
    """Call `main` with what the command line says, and end with what it returns.

    A parameter after `*` is an option, a truth value a switch, and of several values one has commas between them.
    """
    written = inspect.getsource(main).partition(") ->")[0].partition("(")[2]
    parser = argparse.ArgumentParser(
        description=sys.modules[main.__module__].__doc__, epilog=f"Arguments: {written}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    for name, each in inspect.signature(main, eval_str=True).parameters.items():
        option = f"--{name.rstrip('_').replace('_', '-')}"
        if each.annotation is bool:
            parser.add_argument(option, dest=name, action="store_true")
        elif each.kind is each.KEYWORD_ONLY:
            parser.add_argument(option, dest=name, type=_reader(each.annotation), default=each.default)
        elif each.default is each.empty:
            parser.add_argument(name, type=_reader(each.annotation))
        else:
            parser.add_argument(name, type=_reader(each.annotation), default=each.default, nargs="?")
    sys.exit(main(**vars(parser.parse_args())))


def _reader(kind: Any) -> Callable[[str], Any]:
    """Return the function that reads an argument of this annotation: a class, one or None, or a tuple of one."""
    if get_origin(kind) is tuple:
        read = get_args(kind)[0]
        return lambda text: tuple(read(each) for each in text.split(",") if each)
    if isinstance(kind, UnionType):
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    assert isinstance(kind, type)
    return kind


@contextmanager
def new_daemon(environ: Mapping[str, str] | None = None) -> Iterator[tuple[RunningDaemon, Client]]:
    """Run a daemon on an empty folder of its own, with a client."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        running(Path(scratch) / "data", environ) as daemon,
        daemon.client() as client,
    ):
        yield daemon, client


def default_embedder(**options: Any) -> Embedder:
    """Load the default embedding model, which must be installed."""
    return load_embedder(ModelCatalogue(models_folder(os.environ)).require_installed(DEFAULT_EMBEDDING), **options)


@contextmanager
def embedding_service() -> Iterator[EmbeddingService]:
    """Run an embedding service that has loaded its model."""
    service = EmbeddingService(ModelCatalogue(models_folder(os.environ)))
    service.refresh()
    while service.current() is None:
        time.sleep(0.05)
    try:
        yield service
    finally:
        service.close()

"""The daemon's process around its parts, and the modules that it loads before the first answer. SPEC 14, 16."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mnemo_daemon.lifespan import freeze_long_lived

HEAVY = {"onnxruntime", "tokenizers", "fastembed", "llama_cpp", "mcp", "httpx", "huggingface_hub", "pydantic"}


@pytest.fixture(autouse=True)
def _nothing_stays_set_apart() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


class Knot:
    """An object that only a collection frees."""

    freed = 0

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        Knot.freed += 1


def test_objects_of_the_start_are_excluded_from_garbage_collection_after_warm_up() -> None:
    Knot.freed = 0
    Knot()
    seen = []

    def is_warming() -> bool:
        seen.append(gc.get_freeze_count())
        return len(seen) < 3

    asyncio.run(freeze_long_lived(is_warming, poll_seconds=0.001))
    assert seen == [0, 0, 0]
    assert gc.get_freeze_count() > 10_000
    assert Knot.freed == 1, "what nobody holds is freed before, not kept for ever"
    Knot()
    gc.collect()
    assert Knot.freed == 2, "and what comes later is freed as ever"


def test_a_start_that_never_ends_is_not_waited_for_for_ever() -> None:
    looks = []

    def is_warming() -> bool:
        looks.append(gc.get_freeze_count())
        return True

    asyncio.run(freeze_long_lived(is_warming, poll_seconds=0.001, seconds_max=0.004))
    assert looks == [0] * 4
    assert gc.get_freeze_count() > 10_000


def printed(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_nothing_that_only_models_and_agents_need_is_loaded_before_the_server_is_there() -> None:
    loaded = printed("import sys, mnemo_daemon.lifespan; print(*sys.modules)").split()
    assert "mnemo_daemon.api.main_routes" in loaded
    assert {name.split(".")[0] for name in loaded} & HEAVY == set()


def test_while_the_server_is_loaded_the_collector_rests_and_no_certificates_are_read() -> None:
    program = """
import gc, os
os.environ["SSL_CERT_FILE"] = "mine"
os.environ.pop("SSL_CERT_DIR", None)
from mnemo_daemon.__main__ import _cheap_imports
with _cheap_imports():
    print(gc.isenabled(), os.environ["SSL_CERT_FILE"])
    import mnemo_daemon.server.http_server
    from aiohttp import connector
print(gc.isenabled(), os.environ["SSL_CERT_FILE"], "SSL_CERT_DIR" in os.environ)
print(len(connector._SSL_CONTEXT_VERIFIED.get_ca_certs()), gc.get_freeze_count() > 10_000)
"""
    assert printed(program).splitlines() == ["False /dev/null", "True mine False", "0 True"]

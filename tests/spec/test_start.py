"""Modules loaded before the first answer by words. SPEC 14"""

import subprocess
import sys

HEAVY = {"onnxruntime", "tokenizers", "fastembed", "llama_cpp", "mcp", "httpx", "huggingface_hub", "pydantic"}


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

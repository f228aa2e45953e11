"""A plugin of pytest that puts our adapters in the place of the store that a framework tests. See bench_frameworks.

Each store that a test makes is a namespace of its own; those of one file of a database are one. LangGraph's store of
SQLite is a package that need not be there.
"""

import contextlib
import itertools
import os
import sys
import types
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from mnemo_client.client import Client

NUMBERS = itertools.count()
IN_MEMORY = ":memory:"
UNNAMED: Any = object()


def client_of(place: object = IN_MEMORY) -> Client:
    number = next(NUMBERS)
    name = f"{os.getpid()}-{number}" if str(place) == IN_MEMORY else f"{os.getpid()}-{Path(str(place)).parent.name}"
    return Client(Path(os.environ["MNEMO_SOCKET"]), namespace=name.lower().replace("_", "-"))


def use_langgraph() -> None:
    import langgraph.store.memory
    from langgraph.store.base.batch import AsyncBatchedBaseStore

    from mnemo_client.adapters.langgraph import MnemoStore

    class FrameworkStore(MnemoStore):
        def __init__(self, *, index: Any = None, **_: Any) -> None:
            fields = (index or {}).get("fields") or (index or {}).get("text_fields") or ()
            super().__init__(client_of(), fields=[each for each in fields if each != "$"])
            self.index_config = index

        def setup(self) -> None:
            pass

        @classmethod
        @contextlib.contextmanager
        def from_conn_string(cls, _: str, index: Any = None, **__: Any) -> Iterator["FrameworkStore"]:
            yield cls(index=index)

    class AsyncFrameworkStore(AsyncBatchedBaseStore):
        def __init__(self, index: Any = None) -> None:
            super().__init__()
            self.index_config = index
            self._within = FrameworkStore(index=index)

        async def abatch(self, ops: Any) -> Any:
            return await self._within.abatch(ops)

        def batch(self, ops: Any) -> Any:
            return self._within.batch(ops)

        async def setup(self) -> None:
            pass

        @classmethod
        @contextlib.asynccontextmanager
        async def from_conn_string(cls, _: str, index: Any = None, **__: Any) -> AsyncIterator["AsyncFrameworkStore"]:
            yield cls(index)

    langgraph.store.memory.InMemoryStore = FrameworkStore  # type: ignore[assignment, misc]
    package, base = types.ModuleType("langgraph.store.sqlite"), types.ModuleType("langgraph.store.sqlite.base")
    package.__dict__.update(SqliteStore=FrameworkStore, AsyncSqliteStore=AsyncFrameworkStore, base=base)
    for name in ("NS_MATCH_FUNCTION", "BaseSqliteStore", "SqliteIndexConfig", "_escape_glob_literal",
                 "_namespace_match_pattern"):  # fmt: skip
        setattr(base, name, UNNAMED)
    sys.modules |= {package.__name__: package, base.__name__: base}


def use_openai_agents() -> None:
    import agents

    from mnemo_client.adapters.openai_agents import MnemoSession

    class FrameworkSession(MnemoSession):
        def __init__(
            self, session_id: str, db_path: Any = IN_MEMORY, *_: Any, session_settings: Any = None, **__: Any
        ) -> None:
            super().__init__(session_id, client_of(db_path), session_settings=session_settings)

        def close(self) -> None:
            pass

    agents.SQLiteSession = FrameworkSession  # type: ignore[misc, assignment]


def use_anthropic() -> None:
    from anthropic.lib.tools import _beta_builtin_memory_tool as module

    from mnemo_client.adapters.anthropic import AsyncMnemoMemoryTool, MnemoMemoryTool

    class FrameworkTool(MnemoMemoryTool):
        def __init__(self, base_path: str) -> None:
            super().__init__(client_of(Path(base_path) / "-"))
            self.base_path = base_path

    class AsyncFrameworkTool(AsyncMnemoMemoryTool):
        def __init__(self, base_path: str) -> None:
            super().__init__(client_of(Path(base_path) / "-"))
            self.base_path = base_path

    module.BetaLocalFilesystemMemoryTool = FrameworkTool  # type: ignore[misc, assignment]
    module.BetaAsyncLocalFilesystemMemoryTool = AsyncFrameworkTool  # type: ignore[misc, assignment]


def files_of(base_path: str) -> dict[str, str]:
    """The files of the tool by their paths without the first slash, as the tests read them from a folder."""
    found = client_of(Path(base_path) / "-").list_memories().memories
    return {(each.key or "").lstrip("/"): each.content for each in found if each.state == "active"}


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items:
        if hasattr(item.module, "get_directory_snapshot"):
            item.module.get_directory_snapshot = files_of


{"langgraph": use_langgraph, "openai-agents": use_openai_agents, "anthropic": use_anthropic}[
    os.environ["MNEMO_FRAMEWORK"]
]()

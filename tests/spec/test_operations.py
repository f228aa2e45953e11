"""The operation table: each operation has a handler, a method of the client, and fields that exist. SPEC 13"""

import msgspec
import pytest

from mnemo_client.client import Client, OperationMethods
from mnemo_client.connection import Call, CallOn
from mnemo_client.protocol import operations
from mnemo_client.protocol.changes import UndoRequest
from mnemo_client.protocol.memories import NewMemory
from mnemo_client.protocol.operations import OPERATIONS, Operation
from mnemo_client.protocol.primitives import NoFields
from tests.test_docs import routes

# Operations that Client has a method of its own for, since its arguments or answers differ from what is sent.
OF_CLIENT = {
    "add_root": operations.ADD_ROOT, "ask_stream": operations.ASK, "back_up": operations.BACK_UP,
    "erase_many": operations.ERASE_MANY, "events": operations.EVENTS, "export": operations.EXPORT,
    "import_from": operations.IMPORT, "ingest": operations.INGEST, "notes_roots": operations.NOTES_ROOTS,
    "remember_many": operations.REMEMBER_MANY, "remove_root": operations.REMOVE_ROOT, "shutdown": operations.SHUTDOWN,
    "turns": operations.TURNS, "why": operations.WHY,
}  # fmt: skip
OF_PROGRAMS = (operations.MCP, operations.METRICS, operations.OPENAPI, operations.RESTORE)  # no client calls these


def test_every_operation_has_a_handler() -> None:
    handled = [route.operation for route in routes() if not route.alias]
    assert sorted(each.path for each in handled) == sorted(each.path for each in OPERATIONS)
    assert all(each in handled for each in OPERATIONS)
    assert {route.alias for route in routes() if route.alias} == {
        alias for each in OPERATIONS for alias in each.aliases
    }


def test_every_operation_has_a_method_of_the_client() -> None:
    calls = [each.operation for each in vars(OperationMethods).values() if isinstance(each, Call | CallOn)]
    assert all(callable(getattr(Client, name)) for name in OF_CLIENT)
    covered = [*calls, *OF_CLIENT.values(), *OF_PROGRAMS]
    assert [each.path for each in OPERATIONS if each not in covered] == []
    assert all(("{" in each.operation.path) == isinstance(each, CallOn)
               for each in vars(OperationMethods).values() if isinstance(each, Call | CallOn))  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: f"{each.method} {each.path}")
def test_what_a_row_names_exists(operation: Operation[..., object]) -> None:
    fields = operation.body or operation.query or NoFields
    if isinstance(operation.repeatable, str):
        assert operation.repeatable in fields.__struct_fields__
    assert (operation.body is None) or (operation.query is None)
    assert operation.for_person or not operation.for_owner


@pytest.mark.parametrize(
    ("operation", "request_", "expected"),
    [
        (operations.REMEMBER, NewMemory("a"), False),
        (operations.REMEMBER, NewMemory("a", key="k"), True),
        (operations.UNDO, UndoRequest(), False),
        (operations.UNDO, UndoRequest(dry_run=True), True),
        (operations.CHECK, NoFields(), True),
        (operations.STATUS, NoFields(), True),
        (operations.COMPACT, NoFields(), False),
    ],
)
def test_a_request_is_repeated_where_that_changes_nothing(
    operation: Operation[..., object], request_: msgspec.Struct, expected: bool
) -> None:
    assert operation.is_repeatable(request_) == expected

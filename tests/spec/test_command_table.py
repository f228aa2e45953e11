"""Every parameter of recall is an option of the command line. SPEC 7.1, 14"""

from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest

from mnemo_client.cli import command_table
from mnemo_client.protocol.memories import ListQuery, RecentQuery
from mnemo_client.protocol.retrieval import (
    AskAnswer,
    AskRequest,
    ContextAnswer,
    ContextRequest,
    RecallRequest,
    SearchQuery,
)
from mnemo_client.protocol.retrieval import WhyRequest as QuestionAboutOne
from tests.spec.test_cli_scenarios import WHY
from tests.support.stub_daemon import ID, CommandLineUser, StubDaemon, recall_answer, recalled

# The fields that have no option, with the reason.
ALWAYS = {
    "query": "the words of the command", "question": "the words of the command", "q": "the words of the command",
    "id": "the first word of `why`",
    "namespace": "the option -n of every command, sent as a header",
    "limit": "another name of top_k; of search it is -k",
    "default_top_k": "for programs with a default of their own; the setting recall.top_k is a person's",
    "highlight": "always asked for: the command marks the words of the question",
    "stream": "used wherever a person reads the answer",
    "cursor": "the pages follow each other",
    "hours": "--since takes a span: 3h",
    "explain": "of a context: the page shows it",
    **dict.fromkeys(("user_id", "agent_id", "run_id", "session_id"), "a list is of the person who asks"),
}  # fmt: skip
LEFT_OUT: dict[str, set[str]] = {
    "recall": {"query", "namespace", "limit", "default_top_k", "highlight"},
    "why": {"query", "namespace", "limit", "default_top_k", "highlight", "id", "explain", "dry"},
    "context": {"query", "namespace", "limit", "explain"},
    "search": {"q", "namespace", "highlight"},
    "list": {"namespace", "user_id", "agent_id", "run_id", "session_id", "cursor"},
    "recent": {"namespace", "user_id", "agent_id", "run_id", "session_id", "cursor", "hours"},
    "ask": {"question", "namespace", "stream"},
}
CLOSE_ENOUGH = {"highlight": True, "cut": "gap", "min_score": 0.005}  # of every recall at the command line
WHY_NEEDS_NONE = {"explain", "dry"}  # `why` explains, and uses nothing
ROUTES: dict[str, tuple[str, type[msgspec.Struct]]] = {
    "recall": ("POST /v1/recall", RecallRequest),
    "why": ("POST /v1/why", QuestionAboutOne),
    "context": ("POST /v1/context", ContextRequest),
    "search": ("GET /v1/search", SearchQuery),
    "list": ("GET /v1/memories", ListQuery),
    "recent": ("GET /v1/recent", RecentQuery),
    "ask": ("POST /v1/ask", AskRequest),
}
SEARCH_NAMES = {"tag": "tag", "limit": "top"}


def option_of(command: str, field: str) -> str | None:
    """The option that gives a field of the request of a command."""
    found = command_table.find_command([command])
    assert found is not None
    names = {argument.field: argument.names[-1] for argument in found[0].arguments if argument.is_option}
    mapped = SEARCH_NAMES.get(field) if command == "search" else None
    return names.get(mapped or field) or names.get(command_table.OPTION_FIELDS.get(field, field))


def sample(command: str, field: msgspec.structs.FieldInfo) -> tuple[list[str], Any]:
    option = option_of(command, field.name)
    assert option, f"{command} has no option for {field.name}"
    parser_settings = next(
        argument.settings
        for argument in command_table.find_command([command])[0].arguments  # type: ignore[index]
        if option in argument.names
    )
    if parser_settings.get("action") == "store_true":
        return [option], True
    if choices := parser_settings.get("choices"):
        value: Any = choices[-1] if choices[-1] != field.default else choices[0]
    else:
        value = {int: 3, float: 0.25}.get(parser_settings.get("type", str), "x1")
    is_list = get_origin(field.type) is list or parser_settings.get("action") == "append"
    return [option, str(value)], [value] if is_list else value


@pytest.fixture
def answering(stub_daemon: StubDaemon) -> StubDaemon:
    stub_daemon.say("POST /v1/recall", recall_answer(recalled()))
    stub_daemon.say("POST /v1/why", WHY)
    stub_daemon.say("POST /v1/context", ContextAnswer("<memory>", 9, [ID]))
    for route in ("search", "recent", "memories"):
        stub_daemon.say(f"GET /v1/{route}", {"memories": [], "total": 0})
    stub_daemon.say(
        "POST /v1/ask", AskAnswer(answer="No.", sentences=[], citations=[], abstained=True, method="quotes")
    )
    return stub_daemon


@pytest.mark.parametrize("command", ROUTES)
def test_every_parameter_of_a_question_has_an_option_that_sends_it(
    person: CommandLineUser, answering: StubDaemon, command: str
) -> None:
    for field in msgspec.structs.fields(ROUTES[command][1]):
        if field.name in LEFT_OUT[command]:
            continue
        words, value = sample(command, field)
        subject = [ID] if command == "why" else []
        question = [] if command in ("list", "recent") else ["spare key"]
        assert person.give(command, *subject, *question, *words) in (0, 3), person.err
        sent = answering.asked[-1]
        if sent.body is None:
            value = [str(each) for each in (value if isinstance(value, list) else [value])]
            assert sent.query[field.encode_name] == value, field.name
        else:
            assert sent.body[field.name] == value, field.name


def test_every_field_without_an_option_has_a_reason_and_exists() -> None:
    for command, (_, request) in ROUTES.items():
        assert LEFT_OUT[command] <= set(request.__struct_fields__), command
        assert LEFT_OUT[command] - (WHY_NEEDS_NONE if command == "why" else set()) <= set(ALWAYS), command


def test_a_number_of_zero_is_sent_and_a_budget_of_zero_is_no_limit(
    person: CommandLineUser, answering: StubDaemon
) -> None:
    person.give("recall", "x", "--min-importance", "0", "--budget", "0")
    assert answering.asked[0].body == {"query": "x", "min_importance": 0.0, "token_budget": None, **CLOSE_ENOUGH}


@pytest.mark.parametrize("name", ["rerank", "expand"])
def test_what_a_setting_switches_on_can_be_switched_off_and_not_both(
    person: CommandLineUser, answering: StubDaemon, name: str
) -> None:
    assert person.give("recall", "x", f"--no-{name}") == 0
    assert answering.asked[0].body == {"query": "x", **CLOSE_ENOUGH, name: False}
    assert person.give("recall", "x", f"--{name}", f"--no-{name}") == 2
    assert f"--{name} and --no-{name} exclude each other" in person.err
    assert len(answering.asked) == 1


def test_a_literal_of_the_protocol_is_offered_as_a_choice() -> None:
    """A choice that the protocol gets later is one that the command line takes."""
    for field in msgspec.structs.fields(RecallRequest):
        literals = [each for each in (field.type, *get_args(field.type)) if get_origin(each) is Literal]
        if literals and field.name not in ("expand", *LEFT_OUT["recall"]):
            option = option_of("recall", field.name)
            settings = next(each.settings for each in command_table._RECALL_OPTIONS if option in each.names)
            assert set(settings["choices"]) == set(get_args(literals[0])), field.name

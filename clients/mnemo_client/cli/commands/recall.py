"""The commands that ask: recall, ask, why, search, context, open; and chat, which also remembers what was said."""

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemo_client.cli.arguments import (
    list_candidates,
    memory_id_argument,
    numbered_hit,
    request_fields,
    save_hit_numbers,
)
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format import traces
from mnemo_client.cli.format.answers import (
    answer_lines,
    chat_lines,
    cited_memories,
    degraded_text,
    hit_lines,
    recall_summary,
    search_summary,
    sentence_texts,
    time_lines,
)
from mnemo_client.cli.format.records import memory_lines
from mnemo_client.cli.format.units import plural
from mnemo_client.cli.terminal import sanitize
from mnemo_client.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_NOT_FOUND,
    InterruptedAnswerError,
    MnemoError,
    NotFoundError,
    RefusalError,
)
from mnemo_client.protocol.retrieval import (
    AskAnswer,
    AskRequest,
    AskSentence,
    ContextRequest,
    RecallRequest,
    SearchQuery,
    WhyRequest,
)

if TYPE_CHECKING:
    from mnemo_client.client import Client

# The least score that is shown as more than 0.00. Of 167 right answers to the 195 questions of `beliefs` and `asked`
# in tests/fixtures/recall none was lower; the lowest was 0.015.
SHOWN_SCORE_MIN = 0.005

PROMPT = "> "
ENDS = ("/quit", "/exit", "/bye", "/q")  # a line of a chat that ends it, as the end of the input does


def recall(context: CommandContext) -> int:
    options = context.options
    asked = _with_default_cut(request_fields(options, RecallRequest))
    request = RecallRequest(**asked, query=context.text(options.words, "look for"), highlight=True)
    client = context.reading_client()
    answer = client.recall(request)
    body = client.last_body.decode()
    save_hit_numbers(context, answer.memories, options.offset + 1)
    if context.wants_json:
        context.print_json(body)
        return EXIT_DONE if answer.memories else EXIT_NOT_FOUND
    # The status has the reason for missing vectors; it is requested only then.
    status = client.status() if "vectors" in answer.degraded else None
    lines = hit_lines(answer.memories, context.style, context.cwd, context.home, first=options.offset + 1)
    context.print(*time_lines(answer.time, context.style), *lines)
    if options.explain and answer.trace is not None:
        context.print("", *traces.trace_lines(answer.trace, context.style))
    if not answer.memories:
        missing, is_cut = degraded_text(answer.degraded, status), asked["cut"] == "gap" and answer.total > 0
        return _report_nothing(context, answer.namespace, missing, is_cut=is_cut)
    context.print(*recall_summary(answer, status, context.style))
    return EXIT_DONE


def _with_default_cut(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with the default of `cut`, the same on a terminal and in a pipe. Without `--cut none` nothing
    is a result whose score would be shown as 0.00."""
    cut = fields.get("cut", "gap")
    return {"cut": cut, **({"min_score": SHOWN_SCORE_MIN} if cut == "gap" else {}), **fields}


def why(context: CommandContext) -> None:
    """Exit 0 whatever the reason is: the explanation is the answer."""
    options = context.options
    fields = _with_default_cut(request_fields(options, WhyRequest))
    question, client = context.text(options.words, "look for"), context.reading_client()
    with list_candidates(client):
        answer = client.why(memory_id_argument(context, options.id), question, **fields)
    if context.print_json_if_asked():
        return
    context.print(*traces.why_lines(answer, context.style))
    if answer.degraded:
        context.message(_missing_text(client, answer.degraded))


def search(context: CommandContext) -> int:
    options = context.options
    client = context.reading_client()
    words = context.text(options.words, "look for")
    answer = client.search(SearchQuery(q=words, highlight=True, **request_fields(options, SearchQuery)))
    save_hit_numbers(context, answer.memories, 1)
    if context.print_json_if_asked():
        return EXIT_DONE if answer.memories else EXIT_NOT_FOUND
    context.print(*hit_lines(answer.memories, context.style, context.cwd, context.home))
    if not answer.memories:
        return _report_nothing(context, answer.namespace, degraded_text(answer.degraded, None))
    context.print(*search_summary(answer, context.style))
    return EXIT_DONE


def ask(context: CommandContext) -> int:
    options = context.options
    request = AskRequest(question=context.text(options.words, "ask"), **request_fields(options, AskRequest))
    client = context.reading_client()
    shown: list[AskSentence] = []
    answer = _streamed_answer(context, client, request, shown) if context.is_for_terminal else client.ask(request)
    save_hit_numbers(context, cited_memories(answer), 1)
    if context.print_json_if_asked():
        return EXIT_NOT_FOUND if answer.abstained else EXIT_DONE
    if shown != answer.sentences[: len(shown)]:
        shown.clear()
        context.message(f"this was not the answer: {sanitize(answer.reason or 'it was withdrawn')}")
    context.print(*answer_lines(answer, context.style, context.cwd, context.home, shown=len(shown)))
    if answer.sensitive:
        matching = plural(answer.sensitive, "memory that matches as well is", "memories that match as well are")
        context.message(f"{matching} tagged sensitive and left out; include them with: -t sensitive")
    if answer.abstained and answer.method == "llm":
        where = f"the memories of namespace {answer.namespace}"
        context.message(f"the language model found no answer in {where}; show them with: mnemo recall")
        return EXIT_NOT_FOUND
    if answer.abstained and answer.memories:
        return EXIT_NOT_FOUND
    if answer.abstained:
        return _report_nothing(context, answer.namespace, _missing_text(client, answer.degraded))
    return EXIT_DONE


def _streamed_answer(
    context: CommandContext, client: "Client", request: AskRequest, shown: list[AskSentence]
) -> AskAnswer:
    """Return the answer, after its sentences were printed as they came; these are added to `shown`."""
    for event in client.ask_stream(request):
        if isinstance(event, AskAnswer):
            return event
        if isinstance(event, AskSentence):
            shown.append(event)
            context.print(sentence_texts(shown, context.style)[-1])
            context.terminal.flush()
    raise InterruptedAnswerError("the daemon ended its answer too early", "try again")


def context_block(context: CommandContext) -> int:
    options = context.options
    request = ContextRequest(query=context.text(options.words, "look for"), **request_fields(options, ContextRequest))
    client = context.reading_client()
    answer = client.context(request)
    if context.wants_json:
        context.print_answer()
    elif answer.block:
        context.print(sanitize(answer.block.rstrip("\n"), lines=True))
    elif not answer.cut:
        return _report_nothing(context, answer.namespace, _missing_text(client, answer.degraded))
    if answer.cut and not answer.block:
        raise MnemoError("memories were found, but none fits the limit", "raise the limit: --max-chars, --budget")
    return EXIT_DONE if answer.block else EXIT_NOT_FOUND


def _missing_text(client: "Client", degraded: list[str]) -> str:
    """Return what was missing for an answer; the daemon's status has the reason for missing vectors."""
    return degraded_text(degraded, client.status() if "vectors" in degraded else None)


def _report_nothing(context: CommandContext, namespace: str, missing: str, *, is_cut: bool = False) -> int:
    message = f"nothing found in namespace {namespace}"
    if is_cut:
        message = f"nothing in namespace {namespace} is close enough to be an answer; show the closest with: --cut none"
    context.message(message + (f" ({missing})" if missing else ""))
    if getattr(context.options, "as_of", None) is not None:
        context.message("--as-of goes by when a memory was stored, not by when it happened")
    return EXIT_NOT_FOUND


def open_hit(context: CommandContext) -> None:
    hit = numbered_hit(context, context.options.number)
    if context.print_json_if_asked(hit):
        return
    if hit["path"] is None:
        memory = context.client().get(str(hit["id"]))
        context.print(*memory_lines(memory, context.style, context.cwd, context.home))
        return
    open_file(context, Path(str(hit["path"])), int(hit["line"]))


def open_file(context: CommandContext, path: Path, line: int) -> None:
    from mnemo_client.cli import editor

    if not path.exists():
        raise NotFoundError(f"{path} no longer exists", "ask again: the daemon notices moved files within seconds")
    editor.check_terminal(context.environ, context.has_terminal, f"the text is in {path}:{line}")
    context.terminal.flush()
    editor.edit(context.environ, path, line)


def chat(context: CommandContext) -> int:
    """Reply to each line of standard input from memories alone, remember both, and end the session at the end."""
    client, session = context.client(), context.options.session or f"chat-{uuid.uuid4()}"
    has_begun = has_failed = False
    try:
        for message in _messages(context):
            try:
                answer = client.chat(session, message, speaker=context.options.speaker)
            except RefusalError as error:  # of a message that is too long, or while the daemon is busy
                context.message(sanitize(str(error)))
                has_failed = True
                continue
            has_begun = True
            if not context.print_json_if_asked():
                context.print(*chat_lines(answer, context.style, context.cwd, context.home))
            context.terminal.flush()
    finally:
        if has_begun:
            with contextlib.suppress(RefusalError):  # nothing of it was worth storing: there is no session
                client.end_session(session)
    return EXIT_FAILED if has_failed else EXIT_DONE


def _messages(context: CommandContext) -> Iterator[str]:
    """Yield the lines of standard input that are not blank, up to one of ENDS; on a terminal, each after a prompt."""
    while True:
        if context.has_terminal:
            context.terminal.out.write(PROMPT)
            context.terminal.flush()
        line = context.stdin.readline()
        if not line or line.strip().lower() in ENDS:
            return
        if line.strip():
            yield line.strip()

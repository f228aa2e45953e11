"""The commands about memories: add, recall, open, search, show, edit, rm, trash, undo, context."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemo_client import process
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format import display, traces
from mnemo_client.cli.terminal import TextStyle
from mnemo_client.errors import (
    EXIT_DONE,
    EXIT_NOT_FOUND,
    MnemoError,
    NotFoundError,
    RefusalError,
    UsageError,
)
from mnemo_client.paths import run_folder
from mnemo_client.protocol import memories as protocol
from mnemo_client.protocol import retrieval

if TYPE_CHECKING:
    from mnemo_client.client import Client

LAST_FILE = "last.json"
HIT_NUMBER_DIGITS_MAX = 3  # ids need 8 digits or more, so a short number is a place in the last answer


# Remember


def add(invocation: CommandContext) -> int:
    options = invocation.options
    text = invocation.text(options.text, "remember")
    client = invocation.client()
    fields: dict[str, Any] = {
        "tags": options.tag,
        "kind": options.kind,
        "category": options.category,
        "importance": options.importance,
        "speaker": options.speaker,
        "event_at": time_argument(options.at),
        "expires_at": time_argument(options.expires),
        "evidence": options.evidence,
        "pinned": options.pin or None,
    }
    answer = client.remember(
        protocol.NewMemory(
            content=text,
            key=options.key,
            supersedes=[memory_id_argument(invocation, text) for text in options.supersedes],
            infer=options.infer or None,
            dedup=options.dedup,
            explain=options.explain,
            # What no option names stays as it is under a known key.
            **{name: value for name, value in fields.items() if value is not None and value != []},
        )
    )
    if invocation.wants_json:
        invocation.print_answer()
    else:
        invocation.print(
            display.remember_line(answer, invocation.style), *display.explanation_lines(answer, invocation.style)
        )
    return EXIT_DONE


def time_argument(text: str | None) -> int | str | None:
    """ms since the epoch where it is a whole number with more digits than a year, else as it is, for the daemon."""
    if text is not None and text.lstrip("-").isdigit() and len(text) > 4:
        return int(text)
    return text


# Ask


def recall(invocation: CommandContext) -> int:
    options = invocation.options
    request = retrieval.RecallRequest(
        **_recall_fields(invocation), dry=options.dry, explain=options.explain, highlight=True
    )
    client = invocation.client()
    answer = client.recall(request)
    body = client.last_body.decode()
    save_hit_numbers(invocation, answer.memories, options.offset + 1)
    if invocation.wants_json:
        invocation.print(body.rstrip("\n"))
        return EXIT_DONE if answer.memories else EXIT_NOT_FOUND
    # Why an answer was by words only stands in the status; asked for only where it was.
    status = client.status() if "vectors" in answer.degraded else None
    lines = display.hit_lines(
        answer.memories, invocation.style, invocation.cwd, invocation.home, first=options.offset + 1
    )
    invocation.print(*lines)
    if options.explain and answer.trace is not None:
        invocation.print("", *traces.trace_lines(answer.trace, invocation.style))
    if not answer.memories:
        missing = display.degraded_text(answer.degraded, status)
        return _report_nothing(invocation, answer.namespace, missing, is_cut=answer.abstained and answer.total > 0)
    invocation.print(display.recall_summary(answer, status, invocation.style))
    return EXIT_DONE


def _recall_fields(invocation: CommandContext) -> dict[str, Any]:
    """What `recall` and `why` ask with."""
    options = invocation.options
    fields: dict[str, Any] = {
        "query": invocation.text(options.words, "look for"),
        "top_k": options.top,
        "offset": options.offset,
        "tags": options.tag,
        "kinds": options.kind,
        "categories": options.category,
        "layers": options.layer,
        "since": time_argument(options.since),
        "until": time_argument(options.until),
        "as_of": time_argument(options.as_of),
        "speaker": options.speaker,
        "source": options.source,
        "trust_min": options.trust,
        "min_score": options.min_score,
        "sort": options.sort or "score",
        "ranker": options.ranker,
        "group_by": options.group_by,
        "cut": options.cut or ("gap" if invocation.is_for_terminal else None),
    }
    if options.budget is not None:
        fields["token_budget"] = options.budget or None
    return fields


def why(invocation: CommandContext) -> int:
    """Exit 0 whatever the reason is: that there is one is what was asked."""
    asked, client = _recall_fields(invocation), invocation.client()
    with list_candidates(client):
        answer = client.why(memory_id_argument(invocation, invocation.options.id), **asked)
    if invocation.wants_json:
        invocation.print_answer()
        return EXIT_DONE
    invocation.print(*traces.why_lines(answer, invocation.style))
    if answer.degraded:
        status = client.status() if "vectors" in answer.degraded else None
        invocation.message(display.degraded_text(answer.degraded, status))
    return EXIT_DONE


def search(invocation: CommandContext) -> int:
    options = invocation.options
    client = invocation.client()
    answer = client.search(
        invocation.text(options.words, "look for"), limit=options.top, highlight=True, tag=options.tag or None,
        since=time_argument(options.since), until=time_argument(options.until), as_of=time_argument(options.as_of),
    )  # fmt: skip
    save_hit_numbers(invocation, answer.memories, 1)
    if invocation.wants_json:
        invocation.print_answer()
        return EXIT_DONE if answer.memories else EXIT_NOT_FOUND
    invocation.print(*display.hit_lines(answer.memories, invocation.style, invocation.cwd, invocation.home))
    if not answer.memories:
        return _report_nothing(invocation, answer.namespace, display.degraded_text(answer.degraded, None))
    invocation.print(display.search_summary(answer, invocation.style))
    return EXIT_DONE


def context(invocation: CommandContext) -> int:
    options = invocation.options
    request = retrieval.ContextRequest(
        query=invocation.text(options.words, "look for"),
        top_k=options.top,
        tags=options.tag,
        max_chars=options.max_chars,
        ids=options.ids,
    )
    if options.budget is not None:
        request.token_budget = options.budget or None
    client = invocation.client()
    answer = client.context(request)
    if invocation.wants_json:
        invocation.print_answer()
    elif answer.block:
        invocation.print(answer.block.rstrip("\n"))
    elif not answer.cut:
        status = client.status() if "vectors" in answer.degraded else None
        return _report_nothing(invocation, answer.namespace, display.degraded_text(answer.degraded, status))
    if answer.cut and not answer.block:
        raise MnemoError("something was found, and nothing of it fits", "allow more: --max-chars, --budget")
    return EXIT_DONE if answer.block else EXIT_NOT_FOUND


def _report_nothing(invocation: CommandContext, namespace: str, missing: str, *, is_cut: bool = False) -> int:
    said = f"nothing found in namespace {namespace}"
    if is_cut:
        said = f"nothing in namespace {namespace} is near enough to answer this; see what is nearest with: --cut none"
    invocation.message(said + (f" ({missing})" if missing else ""))
    return EXIT_NOT_FOUND


# The last answer


def save_hit_numbers(invocation: CommandContext, memories: Sequence[protocol.MemoryView], first: int) -> None:
    """Write down which memory has which number in the last answer, for `open`, `show`, `edit` and `rm`.

    Only its owner can read the file.
    """
    hits = {
        str(number): {
            "id": memory.id,
            "path": memory.note.path if memory.note is not None else None,
            "line": display.best_line(memory),
        }
        for number, memory in enumerate(memories, first)
    }
    folder = run_folder(invocation.environ)
    try:
        process.make_private_folder(folder)
        beside = folder / f"{LAST_FILE}.{os.getpid()}"
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(hits, file)
        beside.replace(folder / LAST_FILE)
    except OSError as failed:
        invocation.message(f"the answer's numbers could not be kept for `mnemo open`: {failed.strerror}")


def _numbered_hit(invocation: CommandContext, number: int) -> dict[str, Any]:
    try:
        text = (run_folder(invocation.environ) / LAST_FILE).read_text(encoding="utf-8")
        hits: dict[str, dict[str, Any]] = json.loads(text)
    except (OSError, ValueError):
        hits = {}
    if not hits:
        raise NotFoundError("there is no last answer", "ask first: mnemo recall WORDS")
    if str(number) not in hits:
        numbers = sorted(map(int, hits))
        raise NotFoundError(f"the last answer has no number {number}", f"it has {numbers[0]} to {numbers[-1]}")
    return hits[str(number)]


def memory_id_argument(invocation: CommandContext, text: str) -> str:
    """The id that was meant: as given, or that of a numbered hit of the last answer."""
    text = text.strip().lstrip("…")
    if text.isdigit() and len(text) <= HIT_NUMBER_DIGITS_MAX:
        return str(_numbered_hit(invocation, int(text))["id"])
    if len(text.replace("-", "")) < display.SHORT_ID_DIGITS:
        raise UsageError(f"{text!r} is too short for an id", f"give at least {display.SHORT_ID_DIGITS} of its digits")
    return text


def open_hit(invocation: CommandContext) -> int:
    hit = _numbered_hit(invocation, invocation.options.number)
    if hit["path"] is None:
        memory = invocation.client().get(str(hit["id"]))
        invocation.print(*display.memory_lines(memory, invocation.style, invocation.cwd, invocation.home))
        return EXIT_DONE
    _open_file(invocation, Path(str(hit["path"])), int(hit["line"]))
    return EXIT_DONE


def _open_file(invocation: CommandContext, path: Path, line: int) -> None:
    from mnemo_client.cli import editor

    if not path.exists():
        raise NotFoundError(f"{path} is not there any more", "ask again: the daemon sees what moved within seconds")
    editor.check_terminal(invocation.environ, invocation.has_terminal, f"it stands in {path}:{line}")
    invocation.terminal.flush()
    editor.edit(invocation.environ, path, line)


# One memory


@contextmanager
def list_candidates(client: "Client") -> Iterator[None]:
    """Digits that begin or end several ids are refused with those memories a line each, to choose from."""
    try:
        yield
    except RefusalError as error:
        if not error.candidates:
            raise
        lines = display.choice_lines([client.get(each) for each in error.candidates], TextStyle())
        said = error.message.partition(" could be ")[0]
        raise UsageError("\n".join([f"{said} could be", *lines]), "give one of these, or more digits") from error


def show(invocation: CommandContext) -> int:
    client = invocation.client()
    with list_candidates(client):
        memory = client.get(
            memory_id_argument(invocation, invocation.options.id), time_argument(invocation.options.as_of)
        )
    if invocation.wants_json:
        invocation.print_answer()
    else:
        invocation.page(display.memory_lines(memory, invocation.style, invocation.cwd, invocation.home))
    return EXIT_DONE


def edit(invocation: CommandContext) -> int:
    client = invocation.client()
    with list_candidates(client):
        memory = client.get(memory_id_argument(invocation, invocation.options.id))
    change = _patch_from_options(invocation)
    if change is None and memory.note is not None:
        if invocation.has_terminal:
            invocation.message("this memory is part of a note: what you save there is what is remembered")
        _open_file(invocation, Path(memory.note.path), memory.note.lines[0])
        return EXIT_DONE
    changed = client.patch(memory.id, change) if change is not None else _edit_text(invocation, memory)
    if changed is None:
        invocation.message("nothing changed")
    elif invocation.wants_json:
        invocation.print_answer()
    else:
        invocation.print(
            f"{invocation.style.good('changed')}: {display.short_id(changed.id)}, version {changed.version}"
        )
    return EXIT_DONE


def _patch_from_options(invocation: CommandContext) -> protocol.Patch | None:
    """What the options ask for; None where they ask for nothing, which means the editor."""
    options = invocation.options
    if options.pin and options.unpin:
        raise UsageError("--pin and --unpin contradict each other")
    fields: dict[str, Any] = {
        "tags": options.tag,
        "importance": options.importance,
        "kind": options.kind,
        "category": options.category,
        "pinned": True if options.pin else False if options.unpin else None,
    }
    if options.content is not None:
        fields["content"] = invocation.text([options.content], "store")
    given = {name: value for name, value in fields.items() if value is not None}
    return protocol.Patch(**given) if given else None


def _edit_text(invocation: CommandContext, memory: protocol.MemoryView) -> protocol.MemoryView | None:
    from mnemo_client.cli import editor

    otherwise = "give the new text: mnemo edit ID --content TEXT, or --content - from standard input"
    editor.check_terminal(invocation.environ, invocation.has_terminal, otherwise)
    folder = run_folder(invocation.environ)
    process.make_private_folder(folder)
    invocation.terminal.flush()
    text, path = editor.edit_text(invocation.environ, memory.content, folder)
    if text == memory.content.strip():
        path.unlink()
        return None
    try:
        changed = invocation.connect().patch(memory.id, protocol.Patch(content=text, if_version=memory.version))
    except MnemoError as error:
        # Work that was typed is not thrown away because the daemon would not have it.
        raise MnemoError(
            error.message, f"{error.hint + '; ' if error.hint else ''}your text is kept in {path}"
        ) from error
    path.unlink()
    return changed


def rm(invocation: CommandContext) -> int:
    """Moves all of them to the trash in one change, or none where one id is wrong."""
    ids = [memory_id_argument(invocation, text) for text in invocation.options.id]
    client = invocation.client()
    with list_candidates(client):
        answer = client.delete_ids(ids)
    if invocation.wants_json:
        invocation.print_answer()
    elif not answer.ids:
        invocation.message("already in the trash")
    else:
        invocation.print(f"moved to the trash: {', '.join(map(display.short_id, answer.ids))}")
        invocation.message(f"take {'it' if len(answer.ids) == 1 else 'them'} back with: mnemo undo")
    return EXIT_DONE


def trash(invocation: CommandContext) -> int:
    set_aside = invocation.options.set_aside
    page = invocation.client().trash(set_aside=set_aside, limit=invocation.options.top)
    if invocation.wants_json:
        invocation.print_answer()
    elif not page.memories:
        invocation.message("nothing is set aside" if set_aside else "the trash is empty")
    else:
        invocation.page(display.trash_lines(page, invocation.style))
        if page.cursor is not None:
            invocation.message(
                f"there is more; show it with: mnemo trash{' --set-aside' if set_aside else ''} --top 500"
            )
        stays = "; what is set aside goes after 30 days" if set_aside else ""
        invocation.message(f"bring one back with: mnemo trash restore ID{stays}")
    return EXIT_DONE


def trash_restore(invocation: CommandContext) -> int:
    client = invocation.client()
    bodies = []
    with list_candidates(client):  # all of them are there before the first is restored
        ids = [client.get(memory_id_argument(invocation, text)).id for text in invocation.options.id]
    for memory_id in ids:
        memory = client.restore(memory_id)
        bodies.append(json.loads(client.last_body))
        if not invocation.wants_json:
            invocation.print(f"{invocation.style.good('restored')}: {display.short_id(memory.id)}  "
                           f"{display.first_line(memory)}")  # fmt: skip
    if invocation.wants_json:
        invocation.print_value(bodies[0] if len(bodies) == 1 else bodies)
    return EXIT_DONE


def undo(invocation: CommandContext) -> int:
    options = invocation.options
    named = [each for each in (options.change, options.seq, options.group) if each is not None]
    if len(named) > 1:
        raise UsageError("one change is taken back at once, or one group", "see: mnemo undo --help")
    seq = options.change if options.seq is None else options.seq
    undone = invocation.client().undo(seq, options.group, dry_run=options.dry_run)
    if invocation.wants_json:
        invocation.print_answer()
    else:
        invocation.print(*display.undone_lines(undone, invocation.style))
    return EXIT_DONE

"""The commands about memories: add, recall, open, search, show, edit, rm, trash, undo, context."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemo_client import display, explained, launch, protocol, recall_protocol
from mnemo_client.errors import EXIT_DONE, EXIT_NOTHING, BadUsage, MnemoError, NothingFound, Refused
from mnemo_client.invocation import Invocation
from mnemo_client.places import run_folder
from mnemo_client.terminal import Look

if TYPE_CHECKING:
    from mnemo_client.client import Client

LAST_FILE = "last.json"
HIT_NUMBER_DIGITS_MAX = 3  # ids need 8 digits or more, so a short number is a place in the last answer


# Remember


def add(invocation: Invocation) -> int:
    options = invocation.options
    text = invocation.text(options.text, "remember")
    client = invocation.client()
    fields: dict[str, Any] = {
        "tags": options.tag,
        "kind": options.kind,
        "category": options.category,
        "importance": options.importance,
        "speaker": options.speaker,
        "event_at": as_ms(options.at),
        "expires_at": as_ms(options.expires),
        "evidence": options.evidence,
        "pinned": options.pin or None,
    }
    answer = client.remember(
        protocol.NewMemory(
            content=text,
            key=options.key,
            supersedes=[id_of(invocation, text) for text in options.supersedes],
            infer=options.infer or None,
            dedup=options.dedup,
            explain=options.explain,
            # What no option names stays as it is under a known key.
            **{name: value for name, value in fields.items() if value is not None and value != []},
        )
    )
    if invocation.wants_json:
        invocation.say_answer()
    else:
        invocation.say(display.remembered(answer, invocation.look), *display.explained(answer, invocation.look))
    return EXIT_DONE


def as_ms(text: str | None) -> int | str | None:
    """ms since the epoch where it is a whole number with more digits than a year, else as it is, for the daemon."""
    if text is not None and text.lstrip("-").isdigit() and len(text) > 4:
        return int(text)
    return text


# Ask


def recall(invocation: Invocation) -> int:
    options = invocation.options
    request = recall_protocol.RecallRequest(
        **_asked(invocation), dry=options.dry, explain=options.explain, highlight=True
    )
    client = invocation.client()
    answer = client.recall(request)
    body = client.last_body.decode()
    keep_numbers(invocation, answer.memories, options.offset + 1)
    if invocation.wants_json:
        invocation.say(body.rstrip("\n"))
        return EXIT_DONE if answer.memories else EXIT_NOTHING
    # Why an answer was by words only stands in the status; asked for only where it was.
    status = client.status() if "vectors" in answer.degraded else None
    lines = display.hits(answer.memories, invocation.look, invocation.here, invocation.home, first=options.offset + 1)
    invocation.say(*lines)
    if options.explain and answer.trace is not None:
        invocation.say("", *explained.trace_lines(answer.trace, invocation.look))
    if not answer.memories:
        missing = display.degraded_words(answer.degraded, status)
        return _nothing(invocation, answer.namespace, missing, is_cut=answer.abstained and answer.total > 0)
    invocation.say(display.recall_summary(answer, status, invocation.look))
    return EXIT_DONE


def _asked(invocation: Invocation) -> dict[str, Any]:
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
        "since": as_ms(options.since),
        "until": as_ms(options.until),
        "as_of": as_ms(options.as_of),
        "speaker": options.speaker,
        "source": options.source,
        "trust_min": options.trust,
        "min_score": options.min_score,
        "sort": options.sort or "score",
        "ranker": options.ranker,
        "group_by": options.group_by,
        "cut": options.cut or ("gap" if invocation.draws_for_a_person else None),
    }
    if options.budget is not None:
        fields["token_budget"] = options.budget or None
    return fields


def why(invocation: Invocation) -> int:
    """Exit 0 whatever the reason is: that there is one is what was asked."""
    asked, client = _asked(invocation), invocation.client()
    with telling_apart(client):
        answer = client.why(id_of(invocation, invocation.options.id), **asked)
    if invocation.wants_json:
        invocation.say_answer()
        return EXIT_DONE
    invocation.say(*explained.why_lines(answer, invocation.look))
    if answer.degraded:
        status = client.status() if "vectors" in answer.degraded else None
        invocation.tell(display.degraded_words(answer.degraded, status))
    return EXIT_DONE


def search(invocation: Invocation) -> int:
    options = invocation.options
    client = invocation.client()
    answer = client.search(
        invocation.text(options.words, "look for"), limit=options.top, highlight=True, tag=options.tag or None,
        since=as_ms(options.since), until=as_ms(options.until), as_of=as_ms(options.as_of),
    )  # fmt: skip
    keep_numbers(invocation, answer.memories, 1)
    if invocation.wants_json:
        invocation.say_answer()
        return EXIT_DONE if answer.memories else EXIT_NOTHING
    invocation.say(*display.hits(answer.memories, invocation.look, invocation.here, invocation.home))
    if not answer.memories:
        return _nothing(invocation, answer.namespace, display.degraded_words(answer.degraded, None))
    invocation.say(display.search_summary(answer, invocation.look))
    return EXIT_DONE


def context(invocation: Invocation) -> int:
    options = invocation.options
    request = recall_protocol.ContextRequest(
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
        invocation.say_answer()
    elif answer.block:
        invocation.say(answer.block.rstrip("\n"))
    elif not answer.cut:
        status = client.status() if "vectors" in answer.degraded else None
        return _nothing(invocation, answer.namespace, display.degraded_words(answer.degraded, status))
    if answer.cut and not answer.block:
        raise MnemoError("something was found, and nothing of it fits", "allow more: --max-chars, --budget")
    return EXIT_DONE if answer.block else EXIT_NOTHING


def _nothing(invocation: Invocation, namespace: str, missing: str, *, is_cut: bool = False) -> int:
    said = f"nothing found in namespace {namespace}"
    if is_cut:
        said = f"nothing in namespace {namespace} is near enough to answer this; see what is nearest with: --cut none"
    invocation.tell(said + (f" ({missing})" if missing else ""))
    return EXIT_NOTHING


# The last answer


def keep_numbers(invocation: Invocation, memories: Sequence[protocol.MemoryView], first: int) -> None:
    """Write down which memory has which number in the last answer, for `open`, `show`, `edit` and `rm`.

    Only its owner can read the file.
    """
    hits = {
        str(number): {
            "id": memory.id,
            "path": memory.note.path if memory.note is not None else None,
            "line": display.line_of(memory),
        }
        for number, memory in enumerate(memories, first)
    }
    folder = run_folder(invocation.environ)
    try:
        launch.make_private_folder(folder)
        beside = folder / f"{LAST_FILE}.{os.getpid()}"
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(hits, file)
        beside.replace(folder / LAST_FILE)
    except OSError as failed:
        invocation.tell(f"the answer's numbers could not be kept for `mnemo open`: {failed.strerror}")


def _hit(invocation: Invocation, number: int) -> dict[str, Any]:
    try:
        text = (run_folder(invocation.environ) / LAST_FILE).read_text(encoding="utf-8")
        hits: dict[str, dict[str, Any]] = json.loads(text)
    except (OSError, ValueError):
        hits = {}
    if not hits:
        raise NothingFound("there is no last answer", "ask first: mnemo recall WORDS")
    if str(number) not in hits:
        numbers = sorted(map(int, hits))
        raise NothingFound(f"the last answer has no number {number}", f"it has {numbers[0]} to {numbers[-1]}")
    return hits[str(number)]


def id_of(invocation: Invocation, text: str) -> str:
    """The id that was meant: as given, or that of a numbered hit of the last answer."""
    text = text.strip().lstrip("…")
    if text.isdigit() and len(text) <= HIT_NUMBER_DIGITS_MAX:
        return str(_hit(invocation, int(text))["id"])
    if len(text.replace("-", "")) < display.SHORT_ID_DIGITS:
        raise BadUsage(f"{text!r} is too short for an id", f"give at least {display.SHORT_ID_DIGITS} of its digits")
    return text


def open_hit(invocation: Invocation) -> int:
    hit = _hit(invocation, invocation.options.number)
    if hit["path"] is None:
        memory = invocation.client().get(str(hit["id"]))
        invocation.say(*display.memory_lines(memory, invocation.look, invocation.here, invocation.home))
        return EXIT_DONE
    _open_file(invocation, Path(str(hit["path"])), int(hit["line"]))
    return EXIT_DONE


def _open_file(invocation: Invocation, path: Path, line: int) -> None:
    from mnemo_client import editor

    if not path.exists():
        raise NothingFound(f"{path} is not there any more", "ask again: the daemon sees what moved within seconds")
    editor.check_terminal(invocation.environ, invocation.has_terminal, f"it stands in {path}:{line}")
    invocation.terminal.flush()
    editor.edit(invocation.environ, path, line)


# One memory


@contextmanager
def telling_apart(client: "Client") -> Iterator[None]:
    """Digits that begin or end several ids are refused with those memories a line each, to choose from."""
    try:
        yield
    except Refused as error:
        if not error.candidates:
            raise
        lines = display.candidate_lines([client.get(each) for each in error.candidates], Look())
        said = error.message.partition(" could be ")[0]
        raise BadUsage("\n".join([f"{said} could be", *lines]), "give one of these, or more digits") from error


def show(invocation: Invocation) -> int:
    client = invocation.client()
    with telling_apart(client):
        memory = client.get(id_of(invocation, invocation.options.id), as_ms(invocation.options.as_of))
    if invocation.wants_json:
        invocation.say_answer()
    else:
        invocation.page(display.memory_lines(memory, invocation.look, invocation.here, invocation.home))
    return EXIT_DONE


def edit(invocation: Invocation) -> int:
    client = invocation.client()
    with telling_apart(client):
        memory = client.get(id_of(invocation, invocation.options.id))
    change = _change(invocation)
    if change is None and memory.note is not None:
        if invocation.has_terminal:
            invocation.tell("this memory is part of a note: what you save there is what is remembered")
        _open_file(invocation, Path(memory.note.path), memory.note.lines[0])
        return EXIT_DONE
    changed = client.patch(memory.id, change) if change is not None else _edit_text(invocation, memory)
    if changed is None:
        invocation.tell("nothing changed")
    elif invocation.wants_json:
        invocation.say_answer()
    else:
        invocation.say(f"{invocation.look.good('changed')}: {display.short_id(changed.id)}, version {changed.version}")
    return EXIT_DONE


def _change(invocation: Invocation) -> protocol.Patch | None:
    """What the options ask for; None where they ask for nothing, which means the editor."""
    options = invocation.options
    if options.pin and options.unpin:
        raise BadUsage("--pin and --unpin contradict each other")
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


def _edit_text(invocation: Invocation, memory: protocol.MemoryView) -> protocol.MemoryView | None:
    from mnemo_client import editor

    otherwise = "give the new text: mnemo edit ID --content TEXT, or --content - from standard input"
    editor.check_terminal(invocation.environ, invocation.has_terminal, otherwise)
    folder = run_folder(invocation.environ)
    launch.make_private_folder(folder)
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


def rm(invocation: Invocation) -> int:
    """Moves all of them to the trash in one change, or none where one id is wrong."""
    ids = [id_of(invocation, text) for text in invocation.options.id]
    client = invocation.client()
    with telling_apart(client):
        answer = client.delete_ids(ids)
    if invocation.wants_json:
        invocation.say_answer()
    elif not answer.ids:
        invocation.tell("already in the trash")
    else:
        invocation.say(f"moved to the trash: {', '.join(map(display.short_id, answer.ids))}")
        invocation.tell(f"take {'it' if len(answer.ids) == 1 else 'them'} back with: mnemo undo")
    return EXIT_DONE


def trash(invocation: Invocation) -> int:
    set_aside = invocation.options.set_aside
    page = invocation.client().trash(set_aside=set_aside, limit=invocation.options.top)
    if invocation.wants_json:
        invocation.say_answer()
    elif not page.memories:
        invocation.tell("nothing is set aside" if set_aside else "the trash is empty")
    else:
        invocation.page(display.trash_lines(page, invocation.look))
        if page.cursor is not None:
            invocation.tell(f"there is more; show it with: mnemo trash{' --set-aside' if set_aside else ''} --top 500")
        stays = "; what is set aside goes after 30 days" if set_aside else ""
        invocation.tell(f"bring one back with: mnemo trash restore ID{stays}")
    return EXIT_DONE


def trash_restore(invocation: Invocation) -> int:
    client = invocation.client()
    bodies = []
    with telling_apart(client):  # all of them are there before the first is restored
        ids = [client.get(id_of(invocation, text)).id for text in invocation.options.id]
    for memory_id in ids:
        memory = client.restore(memory_id)
        bodies.append(json.loads(client.last_body))
        if not invocation.wants_json:
            invocation.say(f"{invocation.look.good('restored')}: {display.short_id(memory.id)}  "
                           f"{display.first_line(memory)}")  # fmt: skip
    if invocation.wants_json:
        invocation.say_value(bodies[0] if len(bodies) == 1 else bodies)
    return EXIT_DONE


def undo(invocation: Invocation) -> int:
    options = invocation.options
    named = [each for each in (options.change, options.seq, options.group) if each is not None]
    if len(named) > 1:
        raise BadUsage("one change is taken back at once, or one group", "see: mnemo undo --help")
    seq = options.change if options.seq is None else options.seq
    undone = invocation.client().undo(seq, options.group, dry_run=options.dry_run)
    if invocation.wants_json:
        invocation.say_answer()
    else:
        invocation.say(*display.undone_lines(undone, invocation.look))
    return EXIT_DONE

"""The commands that list what there is: list, recent, tags, namespaces."""

from collections.abc import Callable
from typing import Any

from mnemo_client import display, protocol, recall_protocol
from mnemo_client.errors import EXIT_DONE, EXIT_NOTHING, BadUsage
from mnemo_client.invocation import Invocation
from mnemo_client.memories import as_ms, keep_numbers

TOP_DEFAULT = 50
PAGE_MAX = 500  # memories in one answer of the daemon

Page = protocol.MemoryPage | recall_protocol.SearchAnswer


def list_memories(invocation: Invocation) -> int:
    """The memories of the namespace, the last stored first."""
    return _list(invocation, invocation.client().list_memories)


def recent(invocation: Invocation) -> int:
    """The memories of the namespace and of `default`, the last that happened first."""
    return _list(invocation, invocation.client().recent)


def _list(invocation: Invocation, read: Callable[..., Page]) -> int:
    top = invocation.options.top
    if top is not None and top < 1:
        raise BadUsage(f"--top takes a whole number from 1, not {top}")
    wanted = top or TOP_DEFAULT
    memories: list[protocol.MemoryView] = []
    cursor: str | None = None
    while len(memories) < wanted:
        page = read(limit=min(wanted - len(memories), PAGE_MAX), cursor=cursor, **_filters(invocation))
        memories += page.memories
        cursor = page.cursor
        if cursor is None:
            break
    keep_numbers(invocation, memories, 1)
    if invocation.wants_json:
        if len(memories) <= PAGE_MAX:
            invocation.say_answer()
        else:
            import msgspec

            invocation.say_value({"memories": msgspec.to_builtins(memories), "cursor": cursor})
    elif memories:
        invocation.page(display.listed_lines(memories, invocation.look, invocation.here, invocation.home))
        if cursor is not None:
            invocation.tell(f"there are more; show them with: --top {10 * wanted}")
    else:
        invocation.tell(f"nothing found in namespace {invocation.namespace.name or 'default'}")
    return EXIT_DONE if memories else EXIT_NOTHING


def _filters(invocation: Invocation) -> dict[str, Any]:
    options = invocation.options
    return {
        "tag": options.tag or None,
        "kind": options.kind or None,
        "category": options.category or None,
        "layer": options.layer or None,
        "state": options.state or None,
        "source": options.source,
        "speaker": options.speaker,
        "since": as_ms(options.since),
        "until": as_ms(options.until),
        "as_of": as_ms(options.as_of),
    }


def tags(invocation: Invocation) -> int:
    """How many memories of the namespace have each tag."""
    answer = invocation.client().tags()
    if invocation.wants_json:
        invocation.say_answer()
    elif answer.tags:
        invocation.page(display.count_lines(answer.tags, invocation.look))
    else:
        invocation.tell(f"nothing in namespace {answer.namespace} has a tag")
    return EXIT_DONE if answer.tags else EXIT_NOTHING


def namespaces(invocation: Invocation) -> int:
    """How many memories each namespace has, and which one is in use here."""
    counts = invocation.client().status().namespaces
    chosen = invocation.namespace.name or "default"
    if invocation.wants_json:
        invocation.say_value({"namespaces": counts, "here": chosen})
    else:
        invocation.page(display.count_lines({chosen: 0, **counts}, invocation.look, chosen))
    return EXIT_DONE


def values(invocation: Invocation) -> int:
    """The words that a shell offers for an option, a line each; none where no daemon runs."""
    from mnemo_client.errors import MnemoError

    client = invocation.connect()
    try:
        match invocation.options.of:
            case "tags":
                names = list(client.tags(namespace="*").tags)
            case "namespaces":
                names = list(client.status().namespaces)
            case _:
                names = [model.name for model in client.models().models]
    except MnemoError:
        names = []
    # A shell splits what it is offered at white space, and would expand what looks like a command.
    invocation.say(*(name for name in names if name.isprintable() and not set(name) & set(" \t'\"`$\\;&|<>()*?!")))
    return EXIT_DONE

"""The commands that list memories, tags, topics and namespaces: list, recent, tags, topics, namespaces."""

from collections.abc import Callable

from mnemo_client.cli.arguments import request_fields, save_hit_numbers
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.records import count_lines, listed_lines, topic_lines
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND, UsageError
from mnemo_client.protocol.memories import ListQuery, MemoryPage, MemoryView
from mnemo_client.protocol.retrieval import SearchAnswer

TOP_DEFAULT = 50
PAGE_MAX = 500  # memories in one answer of the daemon
TOPIC_TOP_DEFAULT = 20
TOPIC_TOP_MAX = 100

Page = MemoryPage | SearchAnswer


def list_memories(context: CommandContext) -> int:
    return _list(context, context.reading_client().list_memories)


def recent(context: CommandContext) -> int:
    return _list(context, context.reading_client().recent)


def _list(context: CommandContext, read: Callable[..., Page]) -> int:
    top = context.options.top
    if top is not None and top < 1:
        raise UsageError(f"--top must be a whole number from 1, not {top}")
    wanted = top or TOP_DEFAULT
    memories: list[MemoryView] = []
    cursor: str | None = None
    asked = request_fields(context.options, ListQuery)
    while len(memories) < wanted:
        page = read(**{**asked, "limit": min(wanted - len(memories), PAGE_MAX), "cursor": cursor})
        memories += page.memories
        cursor = page.cursor
        if cursor is None:
            break
    save_hit_numbers(context, memories, 1)
    if context.wants_json:
        if len(memories) <= PAGE_MAX:
            context.print_answer()
        else:
            import msgspec

            context.print_value({"memories": msgspec.to_builtins(memories), "cursor": cursor})
    elif memories:
        context.page(listed_lines(memories, context.style, context.cwd, context.home))
        if cursor is not None:
            context.message(f"there are more; show them with: --top {10 * wanted}")
    else:
        context.message(f"nothing found in namespace {context.namespace.name or 'default'}")
    return EXIT_DONE if memories else EXIT_NOT_FOUND


def tags(context: CommandContext) -> int:
    answer = context.reading_client().tags()
    if context.wants_json:
        context.print_answer()
    elif answer.tags:
        context.page(count_lines(answer.tags, context.style))
    else:
        context.message(f"no memory in namespace {answer.namespace} has a tag")
    return EXIT_DONE if answer.tags else EXIT_NOT_FOUND


def topics(context: CommandContext) -> int:
    """Show the tree of topics, or the members of those that are named; with `--rebuild`, rebuild it first."""
    client, options = context.client(), context.options
    if options.id:
        return _show_members(context)
    answer = client.rebuild_topics() if options.rebuild else client.topics()
    if context.print_json_if_asked():
        return EXIT_DONE if answer.topics else EXIT_NOT_FOUND
    if answer.topics:
        context.page(topic_lines(answer.topics, context.style))
    else:
        context.message(f"there is no topic in namespace {answer.namespace} yet")
    if not answer.current:
        context.message("the topics are brought up to date in the background; mnemo jobs shows what they wait for")
    return EXIT_DONE if answer.topics else EXIT_NOT_FOUND


def _show_members(context: CommandContext) -> int:
    """Show the members of topics under their names, and for an id that is gone where they are now."""
    options = context.options
    answer = context.client().expand_topics(options.id, limit=min(options.top or TOPIC_TOP_DEFAULT, TOPIC_TOP_MAX))
    found = [memory for each in answer.topics for memory in each.memories]
    save_hit_numbers(context, found, 1)
    if context.print_json_if_asked():
        return EXIT_DONE if answer.topics else EXIT_NOT_FOUND
    lines: list[str] = []
    first = 1
    for each in answer.topics:
        if each.topic is None:
            context.message(f"{each.id} is gone; its memories are in {' '.join(each.moved_to) or 'no topic'}")
            continue
        lines += topic_lines([each.topic], context.style)
        lines += listed_lines(each.memories, context.style, context.cwd, context.home, first)
        first += len(each.memories)
    if lines:
        context.page(lines)
    for topic_id in answer.unknown:
        context.message(f"there is no topic {topic_id} in namespace {answer.namespace}")
    return EXIT_DONE if lines else EXIT_NOT_FOUND


def namespaces(context: CommandContext) -> None:
    counts = context.client().status().namespaces
    chosen = context.namespace.name or "default"
    if not context.print_json_if_asked({"namespaces": counts, "here": chosen}):
        context.page(count_lines({chosen: 0, **counts}, context.style, chosen))


def values(context: CommandContext) -> None:
    """Print the values that a shell offers for an option, a line each; none if no daemon runs."""
    from mnemo_client.errors import MnemoError

    client = context.connect()
    try:
        match context.options.of:
            case "tags":
                names = list(client.tags(namespace="*").tags)
            case "namespaces":
                names = list(client.status().namespaces)
            case _:
                names = [model.name for model in client.models().models]
    except MnemoError:
        names = []
    # A shell would split a value at white space, and expand one that looks like a command.
    offered = [name for name in names if name.isprintable() and not set(name) & set(" \t'\"`$\\;&|<>()*?!")]
    if not context.print_json_if_asked(offered):
        context.print(*offered)

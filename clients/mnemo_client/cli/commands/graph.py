"""The command that shows the topic nodes of conversations and which of them belong together: graph."""

from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.records import graph_lines
from mnemo_client.cli.format.units import plural
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND

NODES_SHOWN = 20


def graph(context: CommandContext) -> int:
    """Show the largest topic nodes and the heaviest edges between them; merge or group nodes first if asked to."""
    options, client = context.options, context.client()
    done = []
    if options.dedupe:
        done.append(f"{plural(client.dedupe_topic_graph().merged, 'node was', 'nodes were')} merged into another one")
    if options.abstract:
        done.append(f"grouped related nodes: {plural(len(client.abstract_topic_graph().groups), 'group')}")
    answer = client.topic_graph(limit=options.top or NODES_SHOWN)
    if context.print_json_if_asked():
        return EXIT_DONE if answer.nodes else EXIT_NOT_FOUND
    for line in done:
        context.message(line)
    if not answer.nodes:
        context.message("there are no topic nodes: they are made in the background of conversations that have ended")
        return EXIT_NOT_FOUND
    context.page(graph_lines(answer, context.style))
    if answer.cursor is not None:
        context.message(f"these are {len(answer.nodes)} of {answer.total} nodes")
    return EXIT_DONE

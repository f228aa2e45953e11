"""The pages of `mnemo help`: the overview, a command with its examples, the exit codes. SPEC 14

An example is a line for a shell, from the words after `mnemo` on; a comment may follow. A test parses each of them."""

from mnemo_client.cli.command_table import GROUPS, find_command
from mnemo_client.cli.command_types import Command
from mnemo_client.cli.option_parser import build_parser
from mnemo_client.cli.terminal import TextStyle, table
from mnemo_client.errors import (
    EXIT_BROKEN_PIPE,
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_NOT_FOUND,
    EXIT_STOPPED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
)

EXIT_CODES = {
    EXIT_DONE: "done",
    EXIT_FAILED: "failed, as the message says; also if `check` or `doctor` finds a fault, or `forget` leaves a trace",
    EXIT_USAGE: "wrong usage: an unknown command, option or value, or a confirmation that was not given",
    EXIT_NOT_FOUND: "nothing found: no match, no memory with this id, no answer to `ask`, nothing close enough",
    EXIT_UNREACHABLE: "the daemon is unreachable: it does not run, does not start, or may not be used",
    EXIT_STOPPED: "stopped by ^C",
    EXIT_BROKEN_PIPE: "the reader of the output closed it, as `head` does",
}
EXIT_CODES_TOPIC = "exit-codes"

EXAMPLES: dict[str, tuple[str, ...]] = {
    "add": (
        'add "The spare key is with Ines, number 14" --tag house',
        'add "We deploy on Thursdays" --key deploy-day   # the same key again replaces the text',
        "add - --tag log < notes.txt",
    ),
    "ingest": ("ingest article.txt --source 'The Economist'", "ingest meeting.txt --explain   # each piece, and why"),
    "turns": ("turns monday.jsonl --session monday",),
    "recall": (
        "recall where is the spare key",
        "recall deploy --tag work --since 'last month' -k 10",
        "recall 'retry limit' --ranker words --json",
    ),
    "why": (
        "why 1 where is the spare key   # the first result of the last answer",
        "why 1a2b3c4d boiler --kind episodic",
    ),
    "search": ("search boiler --since 2026-01-01",),
    "list": ("list --tag house -k 20", "list --state trashed --json"),
    "recent": ("recent -k 10", "recent --kind episodic --since yesterday"),
    "tags": ("tags", "tags -n work"),
    "namespaces": ("namespaces",),
    "open": ("open", "open 3"),
    "show": ("show 1   # the first result of the last answer", "show 1a2b3c4d --as-of 3d"),
    "history": ("history 1a2b3c4d",),
    "diff": ("diff 3d", "diff yesterday --until 2h", "diff seq:120"),
    "edit": ("edit 1   # in your editor", 'edit 1a2b3c4d --content "The spare key is with Otto" --importance 0.8'),
    "rm": ("rm 1a2b3c4d", "rm 1 2 3   # results of the last answer"),
    "trash": ("trash", "trash --set-aside   # what ingestion rejected"),
    "trash restore": ("trash restore 1a2b3c4d",),
    "trash empty": ("trash empty --dry-run", "trash empty --yes"),
    "forget": ("forget 1a2b3c4d --dry-run", "forget --tag draft --yes", "forget --source import --all"),
    "undo": ("undo --dry-run", "undo 120   # one change, by its number", "undo --cycle"),
    "sessions": ("sessions", "sessions monday --end", 'sessions monday --explain "the retry limit"'),
    "ask": ("ask when did we move the backups?", "ask 'and who paid?' --session house"),
    "topics": ("topics", "topics kb3 kb7"),
    "chat": ("chat", "chat --session house < questions.txt"),
    "runs": ("runs migration-7", "runs migration-7 --summarize"),
    "step": (
        'step migration-7 "Moved the tables" --outcome "all 40 tests pass"',
        "step migration-7 - --agent coder < done.txt",
    ),
    "graph": ("graph", "graph --dedupe"),
    "consolidate": ("consolidate --dry-run", "consolidate -n '*'", "consolidate --history"),
    "audit": ("audit", "audit --apply"),
    "review": ("review", "review --ask"),
    "review approve": ("review approve 1a2b3c4d", "review approve --all -n work"),
    "review reject": ("review reject 1a2b3c4d",),
    "review edit": ('review edit 1a2b3c4d "Tom moved to Oslo in March"',),
    "facts": ("facts Tom", "facts Tom --history", "facts --conflicts"),
    "profile": ("profile", "profile --project boat"),
    "profile add": (
        'profile add "prefers short answers" --list preferences',
        'profile add "paint the hull" --project boat',
    ),
    "profile rm": ("profile rm 1a2b3c4d",),
    "compress": ("compress --dry-run", "compress --sessions 5"),
    "context": ("context what we decided about backups --budget 500", "context deploy --max-chars 2000 --ids"),
    "resume": ("resume", "resume -n work --session monday"),
    "setup": ("setup claude-code", "setup claude-code --steps", "setup cursor --project --remove"),
    "hook": ('hook prompt < prompt.json   # {"session_id": "s1", "prompt": "…"}', "hook session-end --session s1"),
    "triggers": ("triggers deploy",),
    "reclassify": ("reclassify --dry-run",),
    "export": (
        "export memories.jsonl",
        "export - -n work | gzip > work.jsonl.gz",
        "export all.jsonl --vectors --force",
    ),
    "import": (
        "import memories.jsonl --dry-run",
        "import --from claude-code --dry-run",
        "import export.zip --from chatgpt -n private",
    ),
    "notes": ("notes", "notes add ~/notes"),
    "notes status": ("notes status",),
    "notes add": ("notes add ~/notes", "notes add ~/docs -n work"),
    "notes rm": ("notes rm ~/notes",),
    "notes rescan": ("notes rescan",),
    "models": ("models", "models pull"),
    "models list": ("models list",),
    "models pull": ("models pull", "models pull Qwen2.5-0.5B-Instruct"),
    "models import": ("models import ~/Downloads/some.gguf --allow-unverified",),
    "models use": ("models use Qwen2.5-0.5B-Instruct",),
    "models calibrate": ("models calibrate", "models calibrate my-model"),
    "models reindex": ("models reindex --stats", "models reindex"),
    "llm": ("llm --since 7d",),
    "llm usage": ("llm usage --since 2026-05-01",),
    "reindex": ("reindex --stats", "reindex --force --batch-size 16", "reindex --wait"),
    "proxy": ("proxy --upstream http://127.0.0.1:11434", "proxy --upstream http://127.0.0.1:8080 --port 9000 --inject"),
    "proxy status": ("proxy status", "proxy status --json"),
    "proxy flush": ("proxy flush",),
    "mcp": ("mcp   # an agent starts it, and speaks with it over standard input", "mcp --tools knowledge-graph"),
    "serve": ("serve mem0", "serve engram --port 3917"),
    "serve mem0": ("serve mem0 --port 7080", "serve mem0 --port 7080 --token-file ~/.mnemo-mem0-token"),
    "serve engram": ("serve engram --port 3917",),
    "ui": ("ui", "ui --no-open --port 7070", "ui --read-only"),
    "sync": ("sync", "sync init ~/Sync/mnemo", "sync join ~/Sync/mnemo"),
    "sync init": ("sync init ~/Sync/mnemo --name laptop",),
    "sync join": ("sync join ~/Sync/mnemo", "sync join ~/Sync/mnemo --code CODE"),
    "sync status": ("sync status", "sync status --json"),
    "sync now": ("sync now",),
    "sync devices": ("sync devices",),
    "sync invite": ("sync invite",),
    "sync remove": ("sync remove old-laptop",),
    "sync rejoin": ("sync rejoin --code CODE",),
    "sync leave": ("sync leave",),
    "backup": ("backup", "backup ~/usb-disk/mnemo-2026-05"),
    "check": ("check", "check --json"),
    "repair": ("repair --dry-run", "repair"),
    "restore": (
        "restore ~/usb-disk/mnemo-2026-05",
        "restore --at 2h",
        "restore ~/usb-disk/mnemo-2026-05 --to ~/copy-of-mnemo",
    ),
    "reset": ("reset --dry-run", "reset"),
    "compact": ("compact --dry-run", "compact"),
    "init": ("init ~/notes",),
    "try": ("try ~/notes",),
    "bench": ("bench speed", "bench quality --data conversations"),
    "bench quality": ("bench quality --data conversations --ranker fused --ranker words",),
    "bench speed": ("bench speed --sizes 1000,10000 --clients 1,8",),
    "up": ("up",),
    "down": ("down",),
    "status": ("status", "status --watch", "status --sizes"),
    "jobs": ("jobs",),
    "events": ("events", "events --type change --since 40 --json"),
    "doctor": ("doctor", "doctor --fix", "doctor --bundle report.tar.gz"),
    "config": ("config", "config recall.top_k"),
    "service": ("service", "service install"),
    "service install": ("service install", "service install --proxy --upstream http://127.0.0.1:11434"),
    "service uninstall": ("service uninstall",),
    "service status": ("service status",),
    "service logs": ("service logs --follow",),
    "completion": ('completion bash   # in ~/.bashrc: eval "$(mnemo completion bash)"',),
    "completion values": ("completion values tags",),
    "api": ("api GET /v1/status", 'api POST /v1/recall \'{"query": "spare key"}\''),
}


def overview(style: TextStyle) -> list[str]:
    """Return the lines of `mnemo help`: every command by its heading."""
    lines = ["One long-term memory for your agents, editors and notes, on your own machine.", ""]
    lines += [f"{style.bold('usage')}: mnemo COMMAND …    mnemo help COMMAND    mnemo help {EXIT_CODES_TOPIC}"]
    for heading, commands in GROUPS.items():
        lines += ["", style.bold(heading), *(f"  {each.name:<12}{each.help}" for each in commands)]
    return lines


def command_lines(command: Command, name: list[str]) -> list[str]:
    """Return the help of a command, with its examples."""
    lines = build_parser(command, name).format_help().rstrip().splitlines()
    if examples := EXAMPLES.get(" ".join(name), ()):
        lines += ["", "examples:", *(f"  mnemo {example}" for example in examples)]
    return lines


def topic_lines(words: list[str], style: TextStyle) -> list[str] | None:
    """Return the page that the words after `mnemo help` name; None if there is none."""
    if not words:
        return overview(style)
    if words == [EXIT_CODES_TOPIC]:
        rows = [[str(code), meaning] for code, meaning in EXIT_CODES.items()]
        return ["Every command ends with one of these codes:", "", *table(rows, "  ", style.width)]
    found = find_command(words)
    return command_lines(*found[:2]) if found is not None and not found[2] else None

"""The table of all commands of `mnemo`: name, help, arguments, and the function that runs it. SPEC 14.

The parser, the help and the shell completions are generated from this table. `run` names a function as
"module:function", with the module relative to this package; the module is imported only when its command is run."""

from collections.abc import Iterator
from typing import Any

from mnemo_client.cli.command_types import Argument, Command, argument, flag, option, wire, with_heading
from mnemo_client.protocol.choices import AGENT_HOOKS, PROFILE_LISTS, RANKERS, SETUP_CLIENTS

# Names under which other tools have a command, for the hint of one that is unknown.
OTHER_NAMES = {
    "answer": "ask", "delete": "rm", "erase": "forget", "find": "recall", "get": "show", "query": "recall",
    "remember": "add", "remove": "rm", "save": "add", "start": "up", "stop": "down", "store": "add", "update": "edit",
}  # fmt: skip

# Fields of a request whose option has another name.
OPTION_FIELDS = {
    "agenda_top_k": "top", "agent_id": "agent", "categories": "category", "event_at": "at", "expires_at": "expires",
    "ids": "id", "key_findings": "findings", "kinds": "kind", "layers": "layer", "limit": "top", "pinned": "pin",
    "query": "words", "question": "words", "run_id": "run", "session_id": "session", "states": "state",
    "step_number": "number", "tags": "tag", "token_budget": "budget", "top_k": "top", "trust_min": "trust",
    "updates": "newer_than", "user_id": "user",
}  # fmt: skip

# Every command takes these.
COMMON = (
    flag("--json", help="print the daemon's answer as JSON"),
    option("-n", "--namespace", help="the namespace to use instead of the folder's own", metavar="NAME",
            values="namespaces"),
)  # fmt: skip

_TEXT = argument("text", help="the text; - reads it from standard input", nargs="*", metavar="TEXT")
_WORDS = argument("words", help="the question or words; - reads them from standard input", nargs="*", metavar="WORDS")
_ID = argument("id", help="an id, at least 8 digits of its end or start, or a number of the last answer", metavar="ID")
_IDS = argument("id", help=_ID.help, metavar="ID", nargs="+")
_TAG = option("-t", "--tag", help="a tag; may be given several times", action="append", default=[], metavar="TAG",
               values="tags")  # fmt: skip
_SPEAKER = wire("memories.NewMemory.speaker", metavar="NAME")
_DRY_RUN = flag("--dry-run", help="only show what would happen")
_YES = flag("-y", "--yes", help="do not ask")
_COUNT = option("-k", "--top", help="number of results", type=int, metavar="N")
_AS_OF = wire("memories.ListQuery.as_of", metavar="TIME")
_SINCE = wire("memories.ListFilter.since", metavar="TIME")
_UNTIL = wire("memories.ListFilter.until", metavar="TIME")
_ONLY_KIND = wire("memories.ListFilter.kinds", "--kind")
_ONLY_CATEGORY = wire("memories.ListFilter.categories", "--category")
_ONLY_LAYER = wire("memories.ListFilter.layers", "--layer")
_ONLY_STATE = wire("memories.ListFilter.states", "--state")
_SOURCE = wire("memories.ListFilter.source", metavar="NAME")
_ONLY_SPEAKER = wire("memories.ListFilter.speaker", metavar="NAME")
_FOLDER = argument("folder", help="a folder of notes", metavar="FOLDER", files=True)

_KIND_AND_CATEGORY = (wire("memories.NewMemory.kind"), wire("memories.NewMemory.category"))
_IMPORTANCE = wire("memories.NewMemory.importance")
_AT = wire("memories.NewMemory.event_at", "--at", metavar="TIME")
_PIN = wire("memories.NewMemory.pinned", "--pin")
_INFER = wire("memories.NewMemory.infer")
_DEDUP = wire("memories.NewMemory.dedup")
_EXPLAIN = wire("memories.NewMemory.explain")
_ADD = (
    _TEXT,
    _TAG,
    wire("memories.NewMemory.key", metavar="KEY"),
    *_KIND_AND_CATEGORY,
    _IMPORTANCE,
    _SPEAKER,
    _AT,
    wire("memories.NewMemory.expires_at", "--expires", metavar="TIME"),
    wire("memories.NewMemory.evidence", metavar="REF"),
    wire("memories.NewMemory.supersedes", metavar="ID"),
    _PIN,
    _INFER,
    _DEDUP,
    _EXPLAIN,
)
_FACTS = (
    argument("entity", help="the name of somebody or something; without one, all facts", nargs="*", metavar="NAME"),
    flag("--graph", help="the chains of facts that lead from it to others"),
    wire("knowledge.FactGraphQuery.hops"),
    flag("--conflicts", help="the facts that contradict each other"),
    flag("--history", help="all its facts from the oldest on, with those that have ended"),
    wire("knowledge.FactsQuery.include_superseded", "--all"),
    wire("knowledge.FactsQuery.as_of", metavar="TIME"),
    _COUNT,
    option("--rm", help="remove the fact with this id, or the 8 digits shown of it; its memory stays", metavar="ID"),
)
_FILES = argument("file", help="text files; without one, or -, standard input", nargs="*", metavar="FILE", files=True)
_INGEST = (
    _FILES,
    _TAG,
    wire("ingestion.IngestRequest.source", metavar="NAME"),
    _SPEAKER,
    wire("ingestion.IngestRequest.session_id", "--session", metavar="ID"),
    _AT,
    _INFER,
    _DEDUP,
    _EXPLAIN,
)
_TURNS = (
    argument("file", help='JSON lines: {"role": "user", "content": "…", "speaker": "…", "at": "…"}; - reads them from '
              "standard input", metavar="FILE", nargs="?", default="-", files=True),
    option("--session", help="the conversation's id", metavar="ID", required=True),
    _TAG,
    _EXPLAIN,
)  # fmt: skip


def _recall(field: str, *names: str, **settings: Any) -> Argument:
    return wire(f"retrieval.RecallRequest.{field}", *names, **settings)


_USER = wire("primitives.ScopedRequest.user_id", "--user", metavar="NAME")
_CUT, _TIME, _DRY = _recall("cut"), _recall("time"), _recall("dry")
_RERANK = (_recall("rerank"), flag("--no-rerank", help="never, whatever recall.rerank says"))
_RECALL_SIZE = (
    _recall("top_k", "-k", "--top"),
    _recall("offset", default=0),
    option("--budget", help="limit of tokens for all results together; 0: no limit", type=int, metavar="N"),
)
_RECALL_SCOPE = (
    *(_TAG, _ONLY_KIND, _ONLY_CATEGORY, _ONLY_LAYER, _SINCE, _UNTIL, _AS_OF, _ONLY_SPEAKER, _SOURCE),
    _recall("trust_min", "--trust"),
    _recall("min_importance"),
    _recall("min_score"),
    _USER,
    _recall("agent_id", "--agent", metavar="NAME"),
    _recall("run_id", "--run", metavar="ID"),
    _recall("include_compressed"),
    _recall("include_superseded"),
    _recall("include_discarded"),
)
_RECALL_ORDER = with_heading(
    "their order",
    *map(_recall, ("sort", "ranker", "mode", "recency_bias", "semantic_weight", "preferences", "group_by")),
    *(_CUT, _TIME, *_RERANK),
    flag("--expand", help="also search for other phrasings of the question, which the language model writes"),
    flag("--no-expand", help="search for the words of the question alone"),
    _recall("exact"),
    _recall("now", metavar="TIME"),
)
_RECALL_OPTIONS = (
    *_RECALL_SIZE,
    *with_heading("which memories", *_RECALL_SCOPE, _recall("session_id", "--session", metavar="ID")),
    *_RECALL_ORDER,
)
_RECALL = (_WORDS, *_RECALL_OPTIONS, _DRY, _recall("explain"))
_CONTEXT = (
    _WORDS,
    *_RECALL_SIZE,
    wire("retrieval.ContextRequest.max_chars"),
    option("--session", help="the session that the prompt belongs to", metavar="ID"),
    *(wire(f"retrieval.ContextRequest.{field}") for field in ("dates", "format", "ids")),
    _DRY,
    *with_heading("which memories", *_RECALL_SCOPE),
    *_RECALL_ORDER,
)
_ASK = (
    _WORDS,
    wire("retrieval.AskRequest.top_k", "-k", "--top"),
    *(_TAG, _SINCE, _UNTIL, _AS_OF, _USER),
    wire("retrieval.AskRequest.session_id", "--session", metavar="ID"),
    *(_CUT, _TIME, _DRY, *_RERANK),
)
_EDIT = (
    _ID,
    option("--content", help="the new text; - reads it from standard input", metavar="TEXT"),
    option(
        "-t", "--tag", help="the new tags; may be given several times", action="append", metavar="TAG", values="tags"
    ),
    _IMPORTANCE,
    *_KIND_AND_CATEGORY,
    _PIN,
    flag("--unpin", help="remove that protection"),
    wire("memories.Patch.updates", "--newer-than", metavar="ID|none"),
)
_REINDEX = (
    _DRY_RUN,
    wire("status.ReindexRequest.force"),
    flag("--stats", help="only show how many memories have a vector"),
    flag("--wait", help="return once the vectors are computed"),
    wire("status.ReindexRequest.batch_size"),
)
_NOTES = (
    Command("status", "the watched folders, their progress, and skipped files", ".admin.daemon:notes_status"),
    Command("add", "watch a folder of notes", ".admin.daemon:notes_add", (_FOLDER,)),
    Command("rm", "stop watching a folder; its files stay as they are", ".admin.daemon:notes_rm", (_FOLDER,)),
    Command("rescan", "scan every watched folder now", ".admin.daemon:notes_rescan"),
)
_MODEL = argument("name", help="the model's name", metavar="NAME", values="models")
_ALLOW_UNVERIFIED = flag("--allow-unverified", help="accept files with an unknown hash")
_UI = (
    option("--port", help="the port of 127.0.0.1; default: a free one", type=int, metavar="N", default=0),
    flag("--no-open", help="print the address only"),
    flag("--read-only", help="nothing can be changed on the page, for a screen that others see"),
    flag("--keep", help="serve until ^C, also after half an hour without an open page"),
)
_SERVED = (
    option("--port", help="the port of 127.0.0.1; default: a free one", type=int, metavar="N", default=0),
    option("--token-file", help="a file that keeps the token; default: a new one for each start", files=True,
            metavar="FILE"),
)  # fmt: skip
_SERVE = (
    Command("mem0", "serve the routes that the client of mem0 calls with `host=`", "..serve.serve_command:serve_mem0",
            _SERVED),
    Command("engram", "serve the routes of engram", "..serve.serve_command:serve_engram", _SERVED),
)  # fmt: skip
_LLM_OPTIONS = (wire("status.LlmUsageQuery.since", metavar="TIME"),)
_LLM = (Command("usage", "the calls of each task, what they came to, and their tokens", ".admin.models:llm_usage",
                _LLM_OPTIONS),)  # fmt: skip
_MODELS = (
    Command(
        "list", "all known models with size, languages and length; which are installed and in use",
        ".admin.models:models_list",
    ),
    Command(
        "pull", "download a model; the only command that uses the network", ".admin.models:models_pull",
        (argument("name", help="the model's name; default: all-MiniLM-L6-v2", metavar="NAME", nargs="?",
                   values="models"), _ALLOW_UNVERIFIED),
    ),
    Command(
        "import", "install a model from a local file or folder", ".admin.models:models_import",
        (argument("path", help="the file or folder", metavar="PATH", files=True),
         option("--name", help="a name for it; known weights keep their own name", metavar="NAME"),
         _ALLOW_UNVERIFIED),
    ),
    Command("use", "switch to a model", ".admin.models:models_use", (_MODEL,)),
    Command(
        "calibrate", "measure the similarity thresholds of your own model", ".admin.models:models_calibrate",
        (argument("name", help="the model's name; default: the one in use", metavar="NAME", nargs="?",
                   values="models"),),
    ),
    Command("reindex", "compute missing vectors", ".admin.models:reindex", _REINDEX),
)  # fmt: skip
_UPSTREAM = (
    option("--upstream", help="the address of the model server, such as http://127.0.0.1:11434", metavar="URL"),
    option("--port", help="the port of this machine that programs use; 0: any (11435)", type=int, metavar="N"),
    flag("--inject", help="also put memories in front of the last message of a request"),
    option("--budget", help="with --inject: the most tokens of these memories (500)", type=int, metavar="N"),
    option("--allow-remote", help="the host of a model server that is not on this machine", metavar="NAME"),
)
_OF_PROXY = flag("--proxy", help="of the proxy, instead of the daemon")
_SERVICE = (
    Command("install", "start the daemon with your session", ".admin.service:install",
            (_OF_PROXY, *with_heading("of the proxy", *_UPSTREAM))),
    Command("uninstall", "no longer start the daemon with your session", ".admin.service:uninstall", (_OF_PROXY,)),
    Command("status", "show whether the service is installed and runs", ".admin.service:status", (_OF_PROXY,)),
    Command("logs", "show the log of the service", ".admin.service:logs",
            (_OF_PROXY, flag("-f", "--follow", help="keep following"))),
)  # fmt: skip
_BENCH = (
    Command(
        "quality", "measure how well each ranker finds the answers", "..bench.quality:quality",
        (option("--data", help="a folder of conversations and questions, in a documented format", required=True,
                 files=True, metavar="FOLDER"),
         option("--ranker", help="a ranker to measure; may be given several times; default: all", choices=RANKERS,
                 action="append", default=[]),
         flag("--pooled", help="all conversations in one namespace instead of one each")),
    ),
    Command(
        "speed", "measure how fast this machine remembers and recalls", "..bench.speed:speed",
        (option("--sizes", help="numbers of memories; default: 1000,10000", metavar="N,N"),
         option("--clients", help="numbers of concurrent clients; default: 1,8", metavar="N,N")),
    ),
)  # fmt: skip
_EXPORT = (
    argument("file", help="the file to write; default, or -: standard output", metavar="FILE", nargs="?", files=True),
    flag("--force", help="replace the file"),
    flag("--no-history", help="without earlier versions"),
    wire("maintenance.ExportQuery.vectors"),
)  # fmt: skip
_IMPORT = (
    argument("file", help="the file of an export, a folder of transcripts, or the zip of ChatGPT; - reads standard "
              "input", metavar="PATH", nargs="?", files=True),
    wire("maintenance.ImportQuery.tool", "--from", dest="source"),
    wire("maintenance.ImportQuery.user_id", "--user", metavar="NAME"),
    wire("maintenance.ImportQuery.allow_forgotten"),
    _DRY_RUN,
)  # fmt: skip
_RESTORE = (
    argument("folder", help="a backup; without one, --at takes the store itself back", metavar="BACKUP", nargs="?",
              files=True),
    option("--at", help="the time to go back to: 2026-05-01, 2026-05-01T18:30, or 2h or 3d before now",
            metavar="TIME"),
    option("--to", help="create this data folder instead of replacing the one in use", files=True, metavar="FOLDER"),
    flag("--allow-forgotten", help="also restore memories that were erased since the backup"),
    _YES,
)  # fmt: skip
_HOOK = (
    argument("event", help="prompt and session-start print what to inject; stop stores the exchange, and tool a "
              "call of a tool as a step, in the background; reply stores an exchange at once; session-end ends the "
              "session; standard input has JSON (session_id, cwd, prompt, reply, tool_name), or text",
              choices=AGENT_HOOKS),
    option("--session", help="the session, unless the JSON names it", metavar="ID"),
    option("--agent", help="the name of the agent", metavar="NAME"),
    flag("--keep", help="with prompt: keep the prompt for the hook stop, which stores it"),
    option("--format", help="print plain text (default), or JSON with hookSpecificOutput.additionalContext",
            choices=("text", "json"), default="text"),
    option("--budget-ms", help="time limit in milliseconds: default 300; session-start 2000; reply 10000", type=int,
            metavar="N"),
)  # fmt: skip
_SETUP = (
    argument("client", help="the agent or editor; without one, all are listed", metavar="CLIENT", nargs="?",
              choices=SETUP_CLIENTS),
    flag("--project", help="only for the project in this folder, instead of for you"),
    flag("--no-hooks", help="the MCP server alone"),
    flag("--steps", help="also the hook that records every call of a tool as a step of the session's run"),
    flag("--print", help="print the entries, and write nothing"),
    _DRY_RUN,
    flag("--remove", help="take the entries out again"),
)  # fmt: skip
_TRASH = (
    Command("restore", "restore memories from the trash", ".commands.remember:trash_restore", (_IDS,)),
    Command("empty", "erase everything in the trash for good", ".commands.erase:trash_empty", (_DRY_RUN, _YES)),
)
_PROPOSALS = (
    argument("id", help="the id of a proposal, as mnemo review shows it", metavar="ID", nargs="*"),
    flag("--all", help="all of the namespace"),
)
_REVIEW = (
    Command("approve", "carry out operations", ".commands.lifecycle:review_approve", _PROPOSALS),
    Command("reject", "reject operations; they are not proposed again with these texts",
            ".commands.lifecycle:review_reject", _PROPOSALS),
    Command("edit", "carry out an operation with another text", ".commands.lifecycle:review_edit",
            (argument("id", help="the id of a proposal", metavar="ID"),
             _TEXT,
             wire("lifecycle.VerdictRequest.force"))),
)  # fmt: skip
_FORGET = (
    argument("id", help=_ID.help, metavar="ID", nargs="*"),
    *(_TAG, _ONLY_KIND, _ONLY_CATEGORY, _ONLY_STATE, _SOURCE, _ONLY_SPEAKER, _SINCE, _UNTIL),
    flag("--all", help="all memories of the namespace"),
    wire("memories.EraseRequest.quoting"),
    wire("memories.EraseRequest.everywhere"),
    flag("--status", help="show which of your devices have carried out what was erased"),
    _DRY_RUN,
    _YES,
)

_PROJECT = option("--project", help="the name of a project, as in the tag project:NAME", metavar="NAME")
_PROFILE = (
    Command(
        "add", "write an entry; without --evidence its text is remembered as the evidence",
        ".commands.knowledge:profile_add",
        (_TEXT, _PROJECT,
         option("--list", choices=PROFILE_LISTS,
                 help="the list; default: preferences for a preference, else stable_facts; of a project next_steps"),
         option("--evidence", help="a memory that it rests on", action="append", default=[], metavar="ID")),
    ),
    Command("rm", "move entries to the trash; their evidence stays", ".commands.knowledge:profile_rm", (_IDS,)),
)  # fmt: skip
_LIST_OPTIONS = (
    *(_COUNT, _TAG, _ONLY_KIND, _ONLY_CATEGORY, _ONLY_LAYER, _ONLY_STATE, _SOURCE, _ONLY_SPEAKER),
    *(_SINCE, _UNTIL, _AS_OF),
)

_DEVICE_NAME = wire("maintenance.SyncRequest.name", metavar="NAME")
_SYNC = (
    Command("init", "share the memory through a folder that your devices have", ".admin.sync:init",
            (_FOLDER, _DEVICE_NAME, _YES)),
    Command("join", "share the memory through a folder that another device shares", ".admin.sync:join",
            (_FOLDER, wire("maintenance.SyncRequest.code", metavar="CODE"), _DEVICE_NAME, _YES)),
    Command("status", "show the devices, and what waits", ".admin.sync:status"),
    Command("now", "exchange changes now", ".admin.sync:now"),
    Command("devices", "list the devices", ".admin.sync:status"),
    Command("invite", "print a pairing code for another device", ".admin.sync:invite"),
    Command("remove", "read a device no more, and replace the key", ".admin.sync:remove",
            (argument("device", help="name or id of the device", metavar="DEVICE"), _YES)),
    Command("rejoin", "take the new key after a device was removed", ".admin.sync:rejoin",
            (wire("maintenance.RenewKeyRequest.code", required=True, metavar="CODE"),)),
    Command("leave", "share the memory no more; everything stays here", ".admin.sync:leave", (_YES,)),
)  # fmt: skip
_PROXY = (
    Command("status", "show what passed, what was captured, and what was left out and why", "..proxy.command:status"),
    Command("flush", "write everything that was captured now", "..proxy.command:flush"),
)

# By their headings in `mnemo --help`.
GROUPS: dict[str, tuple[Command, ...]] = {
    "Memories": (
        Command("add", "remember something", ".commands.remember:add", _ADD),
        Command("ingest", "remember texts in pieces; unimportant ones are rejected", ".commands.ingest:ingest",
                _INGEST),
        Command("turns", "remember a conversation", ".commands.ingest:turns", _TURNS),
        Command("recall", "find memories by meaning and by word", ".commands.recall:recall", _RECALL),
        Command("why", "explain why a memory is, or is not, among the answers to a question", ".commands.recall:why",
                (_ID, _WORDS, wire("retrieval.WhyRequest.against", metavar="ID"), *_RECALL_OPTIONS)),
        Command("search", "find memories by word only", ".commands.recall:search",
                (_WORDS, _COUNT, _TAG, _SINCE, _UNTIL, _AS_OF, _USER)),
        Command("list", "list the memories of the namespace, the last stored first", ".commands.browse:list_memories",
                _LIST_OPTIONS),
        Command("recent", "list what happened last, in the namespace and in default", ".commands.browse:recent",
                _LIST_OPTIONS),
        Command("tags", "list the tags, with the number of memories of each", ".commands.browse:tags"),
        Command("namespaces", "list the namespaces, with the number of memories of each",
                ".commands.browse:namespaces"),
        Command("open", "open a result of the last answer in your editor, at its line", ".commands.recall:open_hit",
                (argument("number", help="its number in the last answer", type=int, nargs="?", default=1,
                           metavar="N"),)),
        Command("show", "show one memory in full", ".commands.remember:show",
                (_ID, _AS_OF, flag("--edges", help="with its edges to other memories"))),
        Command("history", "list the versions of a memory and their changes", ".commands.changes:history",
                (_ID, _COUNT)),
        Command("diff", "list what was added, changed and removed since a time", ".commands.changes:diff",
                (argument("since", help="a time (2026-05-01, 2h, yesterday) or a change (seq:12)", metavar="SINCE"),
                 wire("changes.DiffQuery.until", metavar="TIME"), _COUNT)),
        Command("edit", "change a memory in your editor, or by options", ".commands.remember:edit", _EDIT),
        Command("rm", "move memories to the trash", ".commands.remember:rm", (_IDS,)),
        Command("trash", "list the deleted memories", ".commands.remember:trash",
                (_COUNT, wire("memories.TrashQuery.set_aside")), _TRASH),
        Command("forget", "erase memories and every trace of them, for good", ".commands.erase:forget", _FORGET),
        Command("undo", "undo the last change", ".commands.remember:undo",
                (argument("change", help="the number of an earlier change", type=int, nargs="?", metavar="CHANGE"),
                 option("--seq", help="the same", type=int, metavar="CHANGE"),
                 wire("changes.UndoRequest.group", metavar="GROUP"),
                 option("--cycle", help="undo a cycle of consolidation: its id, or without one the last that changed "
                         "a memory", nargs="?", const="last", metavar="ID"), _DRY_RUN)),
        Command("sessions", "list the conversations, or the turns of one by tier", ".commands.sessions:sessions",
                (argument("session", help="the name of one, or the id in its transcript", nargs="?", metavar="NAME"),
                 _COUNT, flag("--end", help="end it first: all of its turns are filed in pairs"),
                 option("--explain", help="show instead what a message would recall in it, stage by stage",
                         metavar="TEXT"))),
        Command("ask", "answer a question from your memories alone, and cite them", ".commands.recall:ask", _ASK),
        Command("topics", "show the topics as a tree, or the members of some", ".commands.browse:topics",
                (argument("id", help="the id of a topic, such as kb3", nargs="*", metavar="ID"), _COUNT,
                 flag("--rebuild", help="build the tree from the beginning, in the background"))),
        Command("chat", "talk with your memories, a message a line; what you say is remembered",
                ".commands.recall:chat", (option("--session", help="the conversation's id; default: a new one",
                                                metavar="ID"), _SPEAKER)),
        Command("runs", "show the steps of an agent's run, and its summary", ".commands.sessions:runs",
                (argument("run", help="the name that the agent gave the run", metavar="RUN"), _COUNT,
                 flag("--summarize", help="summarize the run first, unless nothing has changed since"))),
        Command("step", "record a step of an agent's run", ".commands.sessions:step",
                (argument("run", help="the name of the run, the same in each of its steps", metavar="RUN"),
                 argument("text", help="the action; - reads it from standard input", nargs="*", metavar="TEXT"),
                 wire("sessions.NewStep.outcome", metavar="TEXT"),
                 wire("sessions.NewStep.key_findings", "--findings", metavar="TEXT"),
                 wire("sessions.NewStep.step_number", "--number"),
                 option("--agent", help="the agent that did it; default: cli", metavar="NAME"))),
        Command("graph", "show the topics of conversations, and which were recalled together",
                ".commands.knowledge:graph",
                (_COUNT, flag("--dedupe", help="merge topics that are one first"),
                 flag("--abstract", help="group related topics under a name first"))),
        Command("consolidate", "run a cycle of consolidation: promote, merge and archive memories",
                ".commands.lifecycle:consolidate",
                (_DRY_RUN, wire("lifecycle.ConsolidateRequest.merge"),
                 flag("--history", help="list the cycles so far instead"),
                 option("-k", "--top", help="with --history: the number of cycles", type=int, metavar="N"))),
        Command("audit", "look through core and working memories, and propose what to merge, demote, delete or tag",
                ".commands.lifecycle:audit", (flag("--apply", help="ask about each proposal, and carry it out"),)),
        Command("review", "list the operations of the lifecycle that wait for your approval",
                ".commands.lifecycle:review",
                (_COUNT, flag("--ask", help="ask about each: approve, reject or later")), _REVIEW),
        Command("facts", "show the facts about somebody or something", ".commands.knowledge:facts", _FACTS),
        Command("profile", "show what is known about you, or about a project", ".commands.knowledge:profile",
                (_PROJECT,), _PROFILE),
        Command("compress", "summarize the oldest conversations, and lift old items to the profile",
                ".commands.knowledge:compress",
                (wire("profiles.CompressRequest.sessions"), wire("profiles.CompressRequest.cutoff_hours"),
                 _DRY_RUN)),
        Command("context", "print the block of memories to put before a prompt", ".commands.recall:context_block",
                _CONTEXT),
        Command("resume", "print what an agent is to know at the start of a session", ".commands.sessions:resume",
                (_TAG, wire("sessions.ResumeQuery.session_id", "--session", metavar="ID"),
                 wire("sessions.ResumeQuery.task", metavar="TEXT"))),
        Command("hook", "run a hook of an agent or editor; it never fails", ".agent_hooks.hook_command:hook", _HOOK),
        Command("triggers", "list the memories to read before an action", ".commands.sessions:triggers",
                (argument("action", help="the action, such as deploy, as in the tag trigger:deploy", metavar="ACTION"),
                 _COUNT)),
        Command("reclassify", "classify and score again the memories that a rule classified",
                ".commands.ingest:reclassify", (_DRY_RUN,)),
        Command("export", "write everything as JSON lines", ".commands.transfer:export", _EXPORT),
        Command("import", "read an export of mnemo or of another tool, or the transcripts of agents",
                ".commands.transfer:import_", _IMPORT),
    ),
    "Notes, models, agents": (
        Command("notes", "manage watched folders of notes", ".admin.daemon:notes_status", (), _NOTES),
        Command("models", "manage embedding and language models", ".admin.models:models_list", (), _MODELS),
        Command("llm", "show what the language model was asked for", ".admin.models:llm_usage", _LLM_OPTIONS, _LLM),
        Command("reindex", "compute missing vectors", ".admin.models:reindex", _REINDEX),
        Command("setup", "connect an agent or editor by its own configuration files",
                ".agent_setup.setup_command:setup", _SETUP),
        Command("proxy", "pass requests to a model server, and remember what is said", "..proxy.command:serve",
                _UPSTREAM, _PROXY),
        Command("mcp", "serve an agent over standard input and output", "..mcp.bridge:run",
                (flag("--all-tools", help="let the agent see every tool, and not only the usual ones"),
                 option("--tools", help="serve the tools of the reference memory server instead",
                         choices=("knowledge-graph",)))),
        Command("serve", "serve other memories' clients on 127.0.0.1, with a token",
                "..serve.serve_command:require_kind", (), _SERVE),
        Command("ui", "open the memory in a browser", "..page.ui_command:ui", _UI),
    ),
    "The daemon": (
        Command("sync", "share one memory between several devices, through a folder", ".admin.sync:status", (), _SYNC),
        Command("backup", "copy the whole store, while it is in use", ".admin.store:backup",
                (argument("folder", help="a new folder for the copy; default: in the data folder", metavar="FOLDER",
                           nargs="?", files=True),)),
        Command("check", "check the integrity of the store and its indexes", ".admin.store:check"),
        Command("repair", "repair what a check finds; nothing is deleted", ".admin.store:repair", (_DRY_RUN,)),
        Command("restore", "replace the store by a backup, or take it back to an earlier time",
                ".admin.store:restore", _RESTORE),
        Command("reset", "empty the store, after a backup; settings and watched folders stay", ".admin.store:reset",
                (_DRY_RUN, _YES)),
        Command("compact", "free space, and remove history beyond `history.keep`", ".admin.store:compact",
                (_DRY_RUN,)),
        Command("init", "set up folders, configuration and notes", ".admin.daemon:init",
                (argument("folder", help="folders of notes to watch", nargs="*", metavar="FOLDER", files=True),)),
        Command("try", "try it on a folder of notes; nothing is installed or stored", ".admin.try_notes:run",
                (_FOLDER,)),
        Command("bench", "measure the rankers or this machine on a temporary store",
                "..bench.quality:require_subcommand", (), _BENCH),
        Command("up", "start the daemon", ".admin.daemon:up"),
        Command("down", "stop the daemon", ".admin.daemon:down"),
        Command("status", "show the state of every part", ".admin.daemon:status",
                (flag("-w", "--watch", help="keep updating it until ^C"),
                 flag("--sizes", help="the bytes of each table of the database and of each file"))),
        Command("jobs", "list the background jobs, and how each stands", ".admin.daemon:jobs"),
        Command("events", "follow what changes in the namespace, jobs, progress and long requests, until ^C",
                ".commands.changes:events",
                (wire("changes.EventsQuery.types", "--type"),
                 wire("changes.EventsQuery.since", metavar="CHANGE"),
                 flag("--no-follow", help="end with the present events"))),
        Command("doctor", "check that everything works, and how to fix what does not", ".doctor.doctor_command:run",
                (flag("--fix", help="repair what can be repaired without a risk, and say what was done"),
                 option("--bundle", help="write a file for a report of a problem, without memories, names or paths",
                         nargs="?", const="", files=True, metavar="FILE"), _YES)),
        Command("config", "show every setting, its value and its origin", ".admin.daemon:config",
                (argument("key", help="show only the value of this setting", metavar="KEY", nargs="?"),)),
        Command("service", "start the daemon with your session", ".admin.service:status", (), _SERVICE),
        Command("completion", "print the completion script for a shell", ".completion:run",
                (argument("shell", help="the shell", choices=("bash", "zsh", "fish")),),
                (Command("values", "list the tags, namespaces or models, for such a script", ".commands.browse:values",
                         (argument("of", help="what to list", choices=("tags", "namespaces", "models")),)),)),
        Command("api", "send a request to the daemon, and print its answer", ".admin.daemon:api",
                (argument("method", help="GET, POST, PATCH or DELETE", metavar="METHOD"),
                 argument("path", help="the route, such as /v1/status", metavar="PATH"),
                 argument("data", help="the body, as JSON; - reads it from standard input", metavar="BODY",
                           nargs="?"))),
    ),
}  # fmt: skip
COMMANDS = tuple(command for group in GROUPS.values() for command in group)


def find_command(words: list[str]) -> tuple[Command, list[str], list[str]] | None:
    """Return the command that `words` begin with, its full name, and the remaining words."""
    if not words:
        return None
    command = next((each for each in COMMANDS if each.name == words[0]), None)
    if command is None:
        return None
    part = next((each for each in command.subcommands if words[1:] and each.name == words[1]), None)
    if part is not None:
        return part, words[:2], words[2:]
    return command, words[:1], words[1:]


def all_commands() -> Iterator[tuple[tuple[str, ...], Command]]:
    """Yield every command with its full name, subcommands after their command."""
    for command in COMMANDS:
        yield (command.name,), command
        for part in command.subcommands:
            yield (command.name, part.name), part

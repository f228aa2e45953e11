"""The values that a field of /v1 may have, each defined once.

Wire types, command-line choices, shell completions and the OpenAPI document take them from here.

The command table imports this module at every start: it must not import msgspec.
"""

from typing import Literal, get_args

Kind = Literal["semantic", "episodic", "procedural", "working"]
Form = Literal["preference", "step", "workflow"]
Category = Literal["fact", "preference", "project", "decision", "crumb", "request", "result"]
Layer = Literal["buffer", "working", "core"]
Trust = Literal["user", "note", "agent", "import", "tool"]
State = Literal["active", "archived", "compressed", "superseded", "discarded", "trashed"]
Outcome = Literal["stored", "duplicate", "repeats", "merged", "updated", "discarded"]
Relation = Literal["repeats", "updates", "related"]
NodeRelation = Literal["co_occurs", "derived_from", "abstracted_from", "related"]
Dedup = Literal["guarded", "off", "source"]
Wait = Literal["stored", "indexed", "extracted"]
DaemonState = Literal["ready", "warming", "degraded"]
TurnRole = Literal["user", "agent", "assistant", "system", "tool"]
HookEvent = Literal["prompt", "reply", "tool", "session-start", "session-end"]
AgentHook = Literal[HookEvent, "stop"]  # of `mnemo hook`
TranscriptTool = Literal["claude-code", "codex", "chatgpt"]
EventType = Literal["change", "job", "progress", "operation"]
ForecastLayer = Literal["buffer", "working", "core", "archive"]
ForecastOutcome = Literal["stay", "promote", "demote", "archive", "supersede", "compress", "delete"]
TimelineTime = Literal["event", "stored", "changed"]
TimelineStep = Literal["hour", "day", "week", "month"]
ImportTool = Literal["mnemo", "mem0", "mcp-memory", "engram", "claude-code", "codex", "chatgpt"]

# The names of the table in mnemo_core/retrieval/ranking/rankers.py, in its order; a test compares the two.
Ranker = Literal["auto", "words", "cosine", "deterministic", "hybrid", "layered", "fused", "rerank"]
Mode = Literal["hybrid", "deterministic", "semantic"]  # of the ranker `hybrid`
Sort = Literal["score", "recent", "accessed"]
Preferences = Literal["first", "inline"]
Cut = Literal["none", "gap"]
GroupBy = Literal["note"]
TimeReading = Literal["auto", "off"]
TimeOrder = Literal["", "last", "first"]
ProfileList = Literal["preferences", "stable_facts", "do_not_assume", "goals", "blockers", "next_steps"]
Verdict = Literal["answered", "filtered", "not_found", "not_ranked", "held_back", "further_down", "earlier_page"]

HOOK_EVENTS: tuple[HookEvent, ...] = get_args(HookEvent)
AGENT_HOOKS: tuple[AgentHook, ...] = get_args(AgentHook)
TRANSCRIPT_TOOLS: tuple[TranscriptTool, ...] = get_args(TranscriptTool)
SETUP_CLIENTS = ("claude-code", "codex", "cursor", "vscode", "zed", "gemini", "opencode", "neovim", "emacs")
EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)
RANKERS: tuple[Ranker, ...] = get_args(Ranker)
CUTS: tuple[Cut, ...] = get_args(Cut)
PROFILE_LISTS: tuple[ProfileList, ...] = get_args(ProfileList)

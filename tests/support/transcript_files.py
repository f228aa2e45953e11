"""Transcripts as Claude Code, Codex and ChatGPT write them, and a generated history."""

import json
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

BEGINNING = datetime(2026, 1, 5, 9, tzinfo=UTC)
_PLACES = ("harbour", "pier", "lighthouse", "ferry", "chandlery", "boatyard", "slipway", "marina", "dock", "lock")
_PARTS = ("scheduler", "parser", "cache", "index", "queue", "router", "adapter", "importer", "exporter", "watcher")
_VERBS = ("fails", "retries", "counts twice", "skips", "truncates", "reorders", "duplicates", "leaks", "rounds")
_CASES = ("an empty list", "a leap day", "two time zones", "a missing header", "a renamed branch", "a locked file")


def iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def jsonl(rows: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def claude(session: str, rows: Sequence[dict[str, Any]], cwd: str = "/srv/ines/pier", minute: int = 0) -> bytes:
    """A transcript of Claude Code; each row lacks only what every line has."""
    whole = []
    for number, row in enumerate(rows):
        common = {
            "parentUuid": None, "isSidechain": False, "userType": "external", "cwd": cwd, "sessionId": session,
            "version": "2.1.12", "uuid": f"{session}-{number}",
            "timestamp": iso(BEGINNING + timedelta(minutes=minute + number)),
        }  # fmt: skip
        whole.append(common | row)
    return jsonl(whole)


def asked(content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": content}, **fields}


def answered(*blocks: dict[str, Any] | str, message_id: str = "msg_1", **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": each} if isinstance(each, str) else each for each in blocks]
    message = {"id": message_id, "role": "assistant", "model": "claude-opus-4", "content": content}
    return {"type": "assistant", "message": message, **fields}


def tool_use(**arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": arguments}


def tool_result(text: str) -> dict[str, Any]:
    return asked([{"type": "tool_result", "tool_use_id": "toolu_1", "content": text}], toolUseResult={"stdout": text})


def codex(session: str, items: Sequence[dict[str, Any]], cwd: str = "/srv/ines/pier") -> bytes:
    """A rollout of Codex with its envelopes."""
    meta = {"id": session, "timestamp": iso(BEGINNING), "cwd": cwd, "originator": "codex_cli_rs"}
    rows = [{"timestamp": iso(BEGINNING), "type": "session_meta", "payload": meta}]
    for number, item in enumerate(items):
        at = iso(BEGINNING + timedelta(minutes=number))
        envelope = {} if "payload" in item else {"type": "response_item", "payload": item}
        rows.append({"timestamp": at, **(envelope or item)})
    return jsonl(rows)


def codex_message(role: str, *texts: str, **fields: Any) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts], **fields}


def chatgpt(name: str, messages: Sequence[tuple[str, str | None, dict[str, Any]]], current: str) -> dict[str, Any]:
    """A conversation of an export: each message has its id, its parent's, and the fields of the message."""
    mapping: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    for number, (message_id, parent, fields) in enumerate(messages):
        message = {
            "id": message_id, "author": {"role": "user", "name": None, "metadata": {}},
            "create_time": BEGINNING.timestamp() + 60 * number, "update_time": None, "status": "finished_successfully",
            "recipient": "all", "metadata": {}, **fields,
        }  # fmt: skip
        above = parent or "root"
        mapping[message_id] = {"id": message_id, "message": message, "parent": above, "children": []}
        mapping[above]["children"].append(message_id)
    return {
        "title": "Talk", "create_time": BEGINNING.timestamp(), "update_time": BEGINNING.timestamp() + 3600,
        "mapping": mapping, "current_node": current, "conversation_id": name, "id": name,
    }  # fmt: skip


def said(role: str, *parts: Any, kind: str = "text", **fields: Any) -> dict[str, Any]:
    return {"author": {"role": role, "name": None, "metadata": {}},
            "content": {"content_type": kind, "parts": list(parts)}, **fields}  # fmt: skip


def history(sessions: int, turns: int, seed: int = 5) -> Iterator[tuple[str, bytes]]:
    """File names and transcripts of sessions with that many turns each, a day apart, with what stands between turns."""
    chance = random.Random(seed)
    for number in range(sessions):
        name = str(UUID(int=chance.getrandbits(128), version=4))
        rows: list[dict[str, Any]] = [{"type": "file-history-snapshot", "snapshot": {}}]
        for turn in range(0, turns, 2):
            part, place, case = chance.choice(_PARTS), chance.choice(_PLACES), chance.choice(_CASES)
            mark = f"{number}-{turn}"
            verb, count, other = chance.choice(_VERBS), chance.randrange(900), chance.choice(_PLACES)
            question = f"Why does the {part} of the {place} project {verb} with {case}? Ticket {mark} of {other}."
            answer = (
                f"In {mark} the {part} keeps {count} entries of the {other}, and {case} makes it forget the last one. "
                f"I changed `{part}_{count}` so that it {verb} no more, and the {place} tests pass."
            )
            rows.append(asked(f"{question}<system-reminder>x</system-reminder>"))
            rows.append(answered("Let me look.", tool_use(file_path=f"/src/{part}.py"), message_id=f"msg_{turn}"))
            rows.append(tool_result("\n".join(f"{line:6}→ line {chance.random()}" for line in range(60))))
            rows.append(answered(answer, message_id=f"msg_{turn}b"))
        yield f"-home-ines-{_PLACES[number % 10]}/{name}.jsonl", claude(name, rows, minute=1440 * number)


def write_history(folder: Path, sessions: int, turns: int, seed: int = 5) -> int:
    """The bytes of the history that was written into the folder."""
    size = 0
    for name, data in history(sessions, turns, seed):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        size += len(data)
    return size

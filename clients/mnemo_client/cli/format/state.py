"""Shows the state of the daemon and its parts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mnemo_client.cli.format.lifecycle import cycle_summary
from mnemo_client.cli.format.units import (
    duration_text,
    local_minute,
    local_time,
    number_text,
    percent,
    plural,
    progress_text,
    short_path,
    size_text,
)
from mnemo_client.cli.terminal import TextStyle, cell_width, pad, sanitize, table, wrap_words
from mnemo_client.protocol.status import (
    ConfigAnswer,
    JobsAnswer,
    JobStatus,
    LifecycleStatus,
    LlmUsage,
    LlmUsageAnswer,
    ModelsAnswer,
    ModelStatus,
    NetworkStatus,
    NotesStatus,
    SiteGrade,
    StatusAnswer,
    ViewStatus,
)

SKIPPED_SHOWN = 20

_MODEL_NAMES = {"embedding": "embedding model", "llm": "language model", "reader": "reader of answers"}
_STATE_STYLES = {
    "ready": TextStyle.good, "watching": TextStyle.good, "loading": TextStyle.warn, "building": TextStyle.warn,
    "warming": TextStyle.warn,
    "catching_up": TextStyle.warn, "scanning": TextStyle.warn, "polling": TextStyle.warn, "paused": TextStyle.warn,
    "stale": TextStyle.warn,
    "absent": TextStyle.warn, "degraded": TextStyle.bad, "failed": TextStyle.bad, "missing": TextStyle.bad,
}  # fmt: skip


def styled_state(state: str, style: TextStyle) -> str:
    return _STATE_STYLES.get(state, TextStyle.dim)(style, state.replace("_", " "))


def status_lines(status: StatusAnswer, style: TextStyle, home: Path) -> list[str]:
    """Return the state of every part, a line each."""
    head = [
        f"{style.bold('mnemod')} {sanitize(status.version)}",
        styled_state(status.state, style),
        f"pid {status.pid}",
        f"up {duration_text(status.uptime_seconds)}",
    ]
    if status.memory_private_bytes:
        head.append(f"{size_text(status.memory_private_bytes)} of memory")
    rows = [
        ["memories", f"{number_text(status.memories)}{_other_states_text(status.by_state)}"],
        [
            "namespaces",
            " · ".join(f"{sanitize(name)} {number_text(count)}" for name, count in status.namespaces.items()),
        ],
        *([name, _index_text(view, style)] for name, view in status.views.items()),
        *([_MODEL_NAMES.get(role, role), _model_text(model, style)] for role, model in status.models.items()),
        ["notes", _notes_text(status.notes, style)],
        ["waiting", " · ".join(_waiting_texts(status.queue))],
        *(_lifecycle_rows(status.lifecycle, style) if status.lifecycle is not None else ()),
        ["trash", f"{number_text(status.trash.get('count', 0))}, {size_text(status.trash.get('bytes', 0))}"],
        ["disk", _disk_text(status.disk)],
        ["data", sanitize(short_path(status.data_dir, None, home))],
        ["socket", sanitize(short_path(status.socket, None, home))],
        ["network", _network_text(status.network, style) if status.network is not None else ""],
    ]
    reasons = [f"  {style.warn('!')} {sanitize(reason)}" for reason in status.reasons]
    return [
        style.dim(" · ").join(head),
        *reasons,
        *table([[style.dim(name), text] for name, text in rows if text], "  ", style.width),
    ]


def _other_states_text(by_state: Mapping[str, int]) -> str:
    others = [f"{number_text(count)} {name}" for name, count in by_state.items() if count and name != "active"]
    return f" ({', '.join(others)})" if others else ""


def _lifecycle_rows(lifecycle: LifecycleStatus, style: TextStyle) -> list[list[str]]:
    proposals = plural(lifecycle.proposals, "operation waits", "operations wait")
    return [
        ["last cycle", cycle_summary(lifecycle.last_cycle, style) if lifecycle.last_cycle is not None else ""],
        ["next cycle", style.warn(sanitize(lifecycle.reason)) if lifecycle.reason else ""],
        ["review", f"{proposals}: mnemo review" if lifecycle.proposals else ""],
    ]


def _network_text(network: NetworkStatus, style: TextStyle) -> str:
    if network.blocked:
        return style.good("blocked by the kernel")
    return f"{style.warn('not blocked')}: {sanitize(network.reason or 'for no known reason')}"


def _waiting_texts(queue: Mapping[str, int]) -> list[str]:
    """Return what waits, and what that means for recall."""
    writes, vectors, comparisons = (queue.get(name, 0) for name in ("writes", "vectors", "comparisons"))
    texts = [plural(writes, "write")] if writes else []
    if vectors:
        texts.append(f"{plural(vectors, 'passage')} without a vector yet, found by words only until then")
    elif comparisons:  # what has no vector cannot be compared
        can = "all can be recalled, by words and by meaning; importance and relations follow"
        texts.append(f"{plural(comparisons, 'change')} not yet compared with earlier memories: {can}")
    return texts


def _index_text(view: ViewStatus, style: TextStyle) -> str:
    parts = [styled_state(view.state, style), number_text(view.items)]
    if view.share < 1:
        parts.append(percent(view.share))
    if view.rate is not None and view.seconds_left is not None:
        parts.append(f"{rate_text(view.rate)}, about {duration_text(view.seconds_left + 1)} left")
    if view.lag:
        parts.append(f"{plural(view.lag, 'change')} behind, {duration_text(view.lag_seconds)}")
    if view.reason:
        parts.append(sanitize(view.reason))
    return " · ".join(parts)


def rate_text(rate: float) -> str:
    """Return a rate in items a second, or a minute if it is slow."""
    return f"{rate:,.0f} a second" if rate >= 2 else f"{rate * 60:,.0f} a minute"


def remaining_work_lines(status: StatusAnswer) -> list[str]:
    """Return lines about the notes that are not read or embedded yet; none if all is done."""
    vectors = status.views.get("vectors")
    lines = []
    if waiting := sum(root.waiting for root in status.notes.roots):
        lines.append(f"{plural(waiting, 'note')} still to be read; each can be recalled as soon as it is read")
    elif any(root.last_scan_at is None and root.state == "scanning" for root in status.notes.roots):
        lines.append("folders are being scanned; each note can be recalled as soon as it is read")
    if vectors is not None and vectors.state != "off":
        left = f", {rate_text(vectors.rate)}" if vectors.rate is not None else ""
        left += f", about {duration_text(vectors.seconds_left + 1)} left" if vectors.seconds_left is not None else ""
        lines += [text + left for text in _waiting_texts({"vectors": status.queue.get("vectors", 0)})]
    return lines


def _model_text(model: ModelStatus, style: TextStyle) -> str:
    parts = [styled_state(model.state, style)]
    if model.name:
        parts.insert(0, sanitize(model.name))
    if model.dimensions:
        parts.append(f"{model.dimensions} dimensions")
    parts += [sanitize(text) for text in (model.reason, model.hint) if text]
    return " · ".join(parts)


def _notes_text(notes: NotesStatus, style: TextStyle) -> str:
    if not notes.roots:
        return "no folder yet (mnemo notes add FOLDER)"
    parts = [
        plural(len(notes.roots), "folder"),
        plural(sum(root.files for root in notes.roots), "file"),
        plural(sum(root.chunks for root in notes.roots), "passage"),
    ]
    if waiting := sum(root.waiting for root in notes.roots):
        parts.append(f"{number_text(waiting)} waiting")
    parts += [
        f"{styled_state(root.state, style)}: {sanitize(root.path)}" for root in notes.roots if root.state != "watching"
    ]
    if notes.skipped_total:
        parts.append(f"{number_text(notes.skipped_total)} skipped (mnemo notes status)")
    return " · ".join(parts)


def _disk_text(disk: Mapping[str, int]) -> str:
    parts = [f"{sanitize(name)} {size_text(count)}" for name, count in disk.items() if count and name != "free"]
    return " · ".join(parts + ([f"{size_text(disk['free'])} free"] if "free" in disk else []))


def size_lines(status: StatusAnswer, style: TextStyle) -> list[str]:
    """Return a table of what takes bytes on the disk, the largest first."""
    sizes = sorted(((size, name) for name, size in status.sizes.items() if size), key=lambda row: (-row[0], row[1]))
    return table([[size_text(size), sanitize(name)] for size, name in sizes], "  ", style.width)


def notes_lines(notes: NotesStatus, style: TextStyle, here: Path, home: Path) -> list[str]:
    """Return the watched folders, then the skipped files with the reasons."""
    lines = []
    for root in notes.roots:
        facts = [
            styled_state(root.state, style),
            plural(root.files, "file"),
            plural(root.chunks, "passage"),
            f"namespace {sanitize(root.namespace)}",
        ]
        if root.waiting:
            facts.append(f"{number_text(root.waiting)} waiting")
        if root.last_scan_at is not None:
            facts.append(f"scanned {local_time(root.last_scan_at)}")
        lines.append(f"{style.location(sanitize(short_path(root.path, here, home)))}  {style.dim(' · ').join(facts)}")
        if root.reason:
            lines.append(f"  {style.warn('!')} {sanitize(root.reason)}")
    if notes.by_words_only:
        left = f" in about {duration_text(notes.seconds_left + 1)}" if notes.seconds_left is not None else ""
        lines.append(f"{plural(notes.by_words_only, 'passage')} found by words alone; by meaning too{left or ' later'}")
    if notes.skipped_total:
        lines.append(f"{plural(notes.skipped_total, 'file')} skipped:")
        counted = [[number_text(count), sanitize(why)] for why, count in notes.skipped_by_reason.items() if count > 1]
        lines += table(counted, "  ", style.width)
        shown = notes.skipped[: min(SKIPPED_SHOWN, notes.skipped_total)]
        lines += table(
            [[sanitize(short_path(file.path, here, home)), style.dim(sanitize(file.reason))] for file in shown],
            "  ",
            style.width,
        )
        if notes.skipped_total > len(shown):
            lines.append(f"  … and {number_text(notes.skipped_total - len(shown))} more")
    if notes.left_out:
        lines.append(f"{number_text(notes.left_out)} excluded by a rule (.mnemoignore, or by default)")
    return lines


def calibration_lines(measured: Mapping[str, Any], style: TextStyle) -> list[str]:
    """Return a table of a model's thresholds with those of their sources, and how well each separates labelled
    texts."""
    rows = [["threshold", "source", "here", "precision", "recall"]]
    for row in measured["thresholds"]:
        source = "" if row["source"] is None else f"{row['source']:.2f}"
        rows.append([
            sanitize(row["name"]), source, f"{row['cosine']:.3f}", percent(row["precision"]), percent(row["recall"]),
        ])  # fmt: skip
    languages = ", ".join(f"{sanitize(name)} {percent(share)}" for name, share in measured["languages"].items())
    return [
        f"{sanitize(measured['name'])}, measured on {plural(measured['pairs'], 'pair')} of texts",
        *table(rows, indent="  "),
        style.dim(f"related texts are closer than unrelated ones: {languages}"),
        style.dim(f"thresholds for: {', '.join(map(sanitize, measured['counted']))}"),
    ]


def job_lines(answer: JobsAnswer, style: TextStyle) -> list[str]:
    """Return the long requests under way, and for each background job its state with its last and next run, its
    purpose, and why it waits or fails."""
    styles = {"failing": TextStyle.warn, "waiting": TextStyle.warn, "running": TextStyle.good}
    heads = table([
        [style.bold(sanitize(job.name)), styles.get(job.state, TextStyle.dim)(style, job.state), _runs_text(job)]
        for job in answer.jobs
    ])  # fmt: skip
    lines = [style.good(sanitize(progress_text(each))) for each in answer.operations]
    for job, head in zip(answer.jobs, heads, strict=True):
        lines += [head, *_indented(sanitize(job.summary), style)]
        if job.name == "consolidation" and answer.last_cycle is not None:
            lines += _indented(f"last cycle: {cycle_summary(answer.last_cycle, style)}", style)
        if job.reason is not None:
            again = "; it is tried again" if job.state == "failing" else ""
            lines += map(style.warn, _indented(f"! {job.state}: {sanitize(job.reason)}{again}", style))
    return lines


def _runs_text(job: JobStatus) -> str:
    if job.state == "running" and job.started_at is not None:
        return f"since {local_minute(job.started_at)}"
    last = "has not run yet" if job.finished_at is None else f"last run {local_minute(job.finished_at)}"
    if job.state != "idle":
        return last
    return f"{last}, next {'when needed' if job.next_at is None else local_minute(job.next_at)}"


def _indented(text: str, style: TextStyle) -> list[str]:
    """Return the text in lines below the head of their job."""
    return ["    " + line for line in (wrap_words(text, style.width - 4) if style.width is not None else [text])]


def model_lines(answer: ModelsAnswer, style: TextStyle) -> list[str]:
    """Return a line for each model of the catalogue: role, state, languages, length, size, licence, and whether its
    thresholds are calibrated. Below them stands for each language model which tasks may ask it: those whose small cases
    it got right."""
    rows = []
    for model in answer.models:
        state = "installed" if model.installed else style.dim("not installed")
        if model.in_use and model.installed:  # a missing model that the settings name is not in use
            state = style.good("in use")
        facts = [f"{model.dimensions} dimensions"] if model.dimensions else []
        facts += [sanitize(model.languages)] if model.languages else []
        facts += [f"{number_text(model.tokens_max)} tokens"] if model.tokens_max else []
        facts += [size_text(model.bytes)] if model.bytes else []
        facts.append(sanitize(model.licence))
        if model.calibrated is not None:
            facts.append("calibrated" if model.calibrated else "not calibrated")
        facts += ["not verified"] if model.verified is False else []
        rows.append([sanitize(model.name), model.role, state, style.dim(" · ".join(facts))])
    lines = table(rows, width=style.width)
    for model in answer.models:
        if model.grades:
            lines += ["", f"tasks of {style.bold(sanitize(model.name))}", *_grade_lines(model.grades, style)]
    return lines


def _grade_lines(grades: Sequence[SiteGrade], style: TextStyle) -> list[str]:
    tried = {
        passed: [f"{each.site} {each.right} of {each.of}" for each in grades if each.passed is passed]
        for passed in (True, False)
    }
    tasks = {
        style.good("passed"): tried[True],
        style.warn("failed"): tried[False],
        style.dim("not tried yet"): [each.site for each in grades if each.passed is None],
    }
    return [
        line
        for verdict, named in tasks.items() if named
        for line in _indented(f"{verdict}: {sanitize(', '.join(named))}", style)
    ]  # fmt: skip


def config_lines(answer: ConfigAnswer, style: TextStyle) -> list[str]:
    """Return each setting with its value and origin; values that are not the default stand out."""
    rows = []
    for value in answer.values:
        text = sanitize(_toml_text(value.value))
        is_default = value.origin == "default"
        origin = style.dim("default") if is_default else sanitize(value.origin)
        rows.append([sanitize(value.key), text if is_default else style.bold(text), origin])
    return table(rows, width=style.width)


def _toml_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_text, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml_text(each)}" for name, each in value.items()) + "}"
    return "none" if value is None else str(value)


def doctor_lines(checks: Sequence[tuple[str, str, str, str, str]], style: TextStyle) -> list[str]:
    """Return the lines for rows of (name, ok | warn | fail, result, the command that fixes it, what --fix did)."""
    paint = {"ok": style.good, "warn": style.warn, "fail": style.bad}
    width = max((cell_width(name) for name, *_ in checks), default=0)
    lines = []
    for name, outcome, found, fix, fixed in checks:
        lines.append(f"{paint[outcome](pad(outcome, 4))}  {pad(name, width)}  {sanitize(found)}".rstrip())
        if fix and outcome != "ok":
            lines.append(f"{' ' * (width + 8)}{style.dim('→')} {sanitize(fix)}")
        if fixed:
            lines.append(f"{' ' * (width + 8)}{style.good('fixed')}: {sanitize(fixed)}")
    return lines


def usage_lines(answer: LlmUsageAnswer, style: TextStyle) -> list[str]:
    """Return for each task and model its calls, the share of answers that were used, and the mean cost of a call."""
    rows = [
        [
            style.bold(sanitize(each.site)), sanitize(each.model), plural(each.calls, "call"),
            f"{each.outcomes.get('answered', 0)} used",
            ", ".join(f"{n} {name}{_kinds_text(each) if name == 'rejected' else ''}"
                      for name, n in sorted(each.outcomes.items()) if name != "answered"),
            style.dim(f"{each.tokens_in // each.calls} + {each.tokens_out // each.calls} tokens, "
                      f"{each.milliseconds / each.calls / 1000:.1f} s a call"),
        ]
        for each in answer.usage if each.calls
    ]  # fmt: skip
    return table(rows)


def _kinds_text(usage: LlmUsage) -> str:
    """The kinds of the rejections in brackets; "" where no kind says more than that."""
    if not usage.rejections.keys() - {"other"}:
        return ""
    kinds = sorted(usage.rejections.items(), key=lambda kind: (-kind[1], kind[0]))
    return f" ({', '.join(f'{n} {sanitize(kind)}' for kind, n in kinds)})"

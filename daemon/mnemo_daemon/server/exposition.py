"""The text format of Prometheus, version 0.0.4: families of samples with their help and type. SPEC 13"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


class Exposition:
    """A page of metrics, written family by family."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def family(
        self, name: str, kind: Literal["gauge", "counter"], help_text: str, samples: Iterable[tuple[Labels, float]]
    ) -> None:
        """Write a family; one without samples is left out."""
        lines = [_line(name, labels, value) for labels, value in samples]
        if lines:
            self._lines += [*_head(name, kind, help_text), *lines]

    def gauge(self, name: str, help_text: str, value: float) -> None:
        """Write a family of one sample."""
        self.family(name, "gauge", help_text, [({}, value)])

    def histogram(
        self, name: str, help_text: str, bounds: Sequence[float],
        series: Iterable[tuple[Labels, Sequence[int], float]],
    ) -> None:  # fmt: skip
        """Write a histogram: of each series its labels, the numbers of each bucket and of those beyond, and the sum."""
        lines: list[str] = []
        for labels, numbers, total in series:
            count = 0
            for bound, number in zip((*map(_number, bounds), "+Inf"), numbers, strict=True):
                count += number
                lines.append(_line(f"{name}_bucket", {**labels, "le": bound}, count))
            lines += [_line(f"{name}_sum", labels, total), _line(f"{name}_count", labels, count)]
        if lines:
            self._lines += [*_head(name, "histogram", help_text), *lines]

    def encode(self) -> bytes:
        """Return the page."""
        return "".join(f"{line}\n" for line in self._lines).encode()


def _head(name: str, kind: str, help_text: str) -> list[str]:
    escaped = help_text.replace("\\", "\\\\").replace("\n", "\\n")
    return [f"# HELP {name} {escaped}", f"# TYPE {name} {kind}"]


def _line(name: str, labels: Labels, value: float) -> str:
    pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))

"""Rules for the colours, scripts and addresses of the page."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "clients" / "mnemo_client" / "page"
TOOLS = PROJECT / "clients" / "vscode" / "node_modules" / ".bin"


def test_the_palette_of_topics_is_told_apart_in_both_themes() -> None:
    """Any two of the nine colours differ by CIE76 for normal, protan, deutan and tritan sight (Machado 2009)."""
    style = (PAGE / "static" / "style.css").read_text(encoding="utf-8")
    found = re.findall(r"--t\d: light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", style)
    assert len(found) == 9
    light, dark = zip(*found, strict=True)
    assert closest(light) >= 16.0
    assert closest(dark) >= 20.0


SIGHTS = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def closest(colours: Sequence[str]) -> float:
    """The least difference of two colours for any sight, in CIE76."""
    least = float("inf")
    for matrix in SIGHTS.values():
        labs = [lab_of([sum(row[i] * linear(code)[i] for i in range(3)) for row in matrix]) for code in colours]
        for index, one in enumerate(labs):
            for other in labs[index + 1 :]:
                least = min(least, sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5)
    return least


def linear(code: str) -> list[float]:
    values = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]


def lab_of(rgb: list[float]) -> tuple[float, float, float]:
    r, g, b = (min(1.0, max(0.0, value)) for value in rgb)
    xyz = (
        (0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047,
        0.2126729 * r + 0.7151522 * g + 0.0721750 * b,
        (0.0193339 * r + 0.1191920 * g + 0.9503041 * b) / 1.08883,
    )
    x, y, z = (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def test_the_scripts_pass_the_type_checker_and_the_formatter() -> None:
    for command in (
        (str(TOOLS / "tsc"), "-p", str(PAGE / "tsconfig.json")),
        (str(TOOLS / "prettier"), "--check", "."),
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PAGE)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_names_no_address_but_its_own() -> None:
    files = [file for file in (PAGE / "static").rglob("*") if file.is_file()]
    assert len(files) > 10
    named = {each for file in files for each in re.findall(r"https?://[^\s\"'`)]+", file.read_text(encoding="utf-8"))}
    assert named <= {"http://www.w3.org/2000/svg"}

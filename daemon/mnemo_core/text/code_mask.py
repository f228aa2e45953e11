"""Mask of the lines of a text that are code, not a statement of a person.

Fences of Markdown; literal blocks of reStructuredText, below a line that ends in `::` or a directive for code; a
session of an interpreter, from its prompt to the next blank line.
"""

from mnemo_core.text.lazy_patterns import lazy_pattern

_MARKS = ("```", "~~~", "::", ">>>")
_FENCE = lazy_pattern(r"```|~~~(?!~)")  # a longer row of tildes underlines a heading
_CODE_DIRECTIVE = lazy_pattern(r"\.\. (?:code-block|code|sourcecode|doctest|testcode|testoutput|parsed-literal)::")


def mask_code(text: str) -> str:
    """The text, blank where it is code: every place stays where it was."""
    if not any(mark in text for mark in _MARKS):
        return text
    kept: list[str] = []
    fence = ""
    margin = -1  # of the line that a literal block is announced by
    is_session = False
    for line in text.split("\n"):
        bare = line.strip()
        indent = len(line) - len(line.lstrip())
        if fence:
            is_code = True
            fence = "" if bare.startswith(fence) else fence
        elif margin >= 0 and (not bare or indent > margin):
            is_code = True
        elif _FENCE.match(bare) is not None:
            is_code, fence, margin = True, bare[:3], -1
        else:
            is_session = bool(bare) and (is_session or bare.startswith(">>>"))
            is_code = is_session
            margin = indent if _announces(bare) else -1
        kept.append(" " * len(line) if is_code else line)
    return "\n".join(kept)


def _announces(line: str) -> bool:
    if line.startswith(".. "):
        return _CODE_DIRECTIVE.match(line) is not None
    return line.endswith("::")

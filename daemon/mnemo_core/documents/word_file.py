"""The text of a Word file (.docx) as Markdown: headings, lists, table rows. SPEC 6

A .docx is a zip file that holds the text as XML. Of it only the part that is read here is unpacked, up to a bound, and
tags are looked for one after the other: nothing is expanded, and nesting costs nothing.
"""

import io
import lzma
import re
import struct
import zipfile
import zlib

from mnemo_core.documents.html_text import unescape
from mnemo_core.text.lazy_patterns import lazy_pattern

PART = "word/document.xml"
UNPACKED_BYTES_MAX = 32 << 20  # of the text with its markup, which is some 10 times as long as the text alone

_BROKEN = (
    zipfile.BadZipFile, KeyError, ValueError, OSError, EOFError, RuntimeError, zlib.error,
    struct.error, lzma.LZMAError,
)  # fmt: skip

_TAG = lazy_pattern(r"<(/?)w:(p|t|tab|br|cr|pStyle|numPr|tc|tr)(?=[\s/>])([^<>]*+)>")
_HEADING = lazy_pattern(r'w:val="[^"]{0,40}?(?:heading|berschrift|titre)[ _]?([1-9])"', re.IGNORECASE)
_TITLE = lazy_pattern(r'w:val="(?:Title|Titel|Titre)"')


class WordFileError(ValueError):
    """Bytes that are no Word file; the message says why."""


def read_word_file(data: bytes) -> str:
    """The text of the file as Markdown lines, a line a paragraph. Raises WordFileError; linear in what is unpacked."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(PART) as part:
            xml = part.read(UNPACKED_BYTES_MAX + 1)
    except _BROKEN as error:
        raise WordFileError(f"not a Word file: {error}") from None
    if len(xml) > UNPACKED_BYTES_MAX:
        raise WordFileError(f"the Word file has more than {UNPACKED_BYTES_MAX >> 20} MiB of text and markup")
    markup = xml.decode("utf-8", errors="replace").replace("\0", "")
    lines: list[str] = []
    parts: list[str] = []
    prefix, text_from, cells = "", -1, 0
    for tag in _TAG.finditer(markup):
        is_end, name, attributes = bool(tag[1]), tag[2], tag[3]
        if name == "t":
            if is_end and text_from >= 0:
                parts.append(unescape(markup[text_from : tag.start()]))
            text_from = -1 if is_end or attributes.endswith("/") else tag.end()
        elif name in ("tab", "br", "cr"):
            parts.append(" ")
        elif name == "pStyle":
            heading = _HEADING.search(attributes)
            titled = "# " if _TITLE.search(attributes) else prefix
            prefix = "#" * (int(heading[1]) % 7 or 6) + " " if heading else titled
        elif name == "numPr" and not is_end:
            prefix = prefix or "- "
        elif name == "tc":
            cells += 1 if not is_end else 0
            if is_end and parts:
                parts.append(" | ")
        elif name == "tr" and not is_end:
            cells = 1
        if (name == "p" and is_end and not cells) or (name == "tr" and is_end):
            text = " ".join("".join(parts).split()).removesuffix("|").rstrip()
            lines += [prefix + text] if prefix == "- " or name == "tr" else [prefix + text, ""]
            parts, prefix, cells = [], "", 0
        elif name == "p" and is_end:
            parts.append(" ")
    return "\n".join(lines)

"""Small PDF files, written by hand, for tests."""

import zlib
from collections.abc import Sequence

_FIXED_OBJECTS = 3  # the catalogue, the page tree and the font


def pdf_file(*pages: Sequence[str]) -> bytes:
    """A PDF file with these lines on its pages."""
    return pdf_of([page_content(lines) for lines in pages])


def page_content(lines: Sequence[str]) -> bytes:
    """The drawing operators that show the lines, one below the other."""
    shown = " ".join(f"({line}) Tj 0 -14 Td" for line in lines)
    return f"BT /F1 12 Tf 72 720 Td {shown} ET".encode("latin-1")


def pdf_of(contents: Sequence[bytes], filter_name: str = "", *, encrypted: bool = False) -> bytes:
    """A PDF file of pages with these content streams, which are packed as filter_name says."""
    packing = f" /Filter /{filter_name}".encode() if filter_name else b""
    numbers = range(_FIXED_OBJECTS + 1, _FIXED_OBJECTS + 1 + 2 * len(contents), 2)
    kids = b" ".join(b"%d 0 R" % number for number in numbers)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(contents)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, content in zip(numbers, contents, strict=True):
        objects += [
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R"
            b" /Resources << /Font << /F1 3 0 R >> >> >>" % (number + 1),
            b"<< /Length %d%s >>\nstream\n%s\nendstream" % (len(content), packing, content),
        ]
    written = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    locked = b""
    if encrypted:
        keys = (b"41" * 32, b"42" * 32)
        locked = b" /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >> /ID [<00><00>]" % keys
    return bytes(written) + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R%s >>\nstartxref\n%d\n%%%%EOF\n"
        % (len(objects) + 1, table, len(objects) + 1, locked, len(written))
    )


def bomb(mebibytes: int) -> bytes:
    """A PDF file whose one page is unpacked to so many zeros."""
    packer = zlib.compressobj(9)
    zeros = bytes(1 << 20)
    packed = b"".join(packer.compress(zeros) for _ in range(mebibytes)) + packer.flush()
    return pdf_of([packed], "FlateDecode")


def endless_page(lines: int) -> bytes:
    """A small PDF file whose one page shows a line so many times."""
    return pdf_of([zlib.compress(page_content(["x"] * lines))], "FlateDecode")

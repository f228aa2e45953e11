"""Cursors of lists: the place of the last row of a page, as text; the next page begins behind it."""

from mnemo_daemon.errors import Refusal, bad_value

Place = tuple[int, str]  # what a list is ordered by, and the id of the row


def cursor_at(place: Place) -> str:
    """The cursor of a place."""
    number, row_id = place
    return f"{number}.{row_id}"


def place_at(cursor: str | None) -> Place | None:
    """The place of a cursor; None where there is none, for the first page. Raises a Refusal."""
    if not cursor:
        return None
    try:
        number, row_id = cursor.split(".")
        return int(number), row_id
    except ValueError:
        raise bad_cursor() from None


def bad_cursor() -> Refusal:
    """The refusal of an invalid cursor."""
    return bad_value("a cursor is what the page before gave as `cursor`", "cursor")

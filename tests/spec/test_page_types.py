"""The types by which the page's scripts are checked."""

from tests.support.packaging_scripts import load_script


def test_the_types_of_the_page_are_those_of_the_operation_table() -> None:
    types = load_script("page_types")
    assert types.TARGET.read_text(encoding="utf-8") == types.written(), "run `make docs`"

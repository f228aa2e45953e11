"""What the files of the views say of where they stand, and when they are not believed. SPEC 3.1, 3.5."""

import shutil
from contextlib import closing
from pathlib import Path

from mnemo_daemon.views import Views
from mnemo_store.columns import Filter
from mnemo_store.disk import Disk
from mnemo_store.store import Store
from tests.samples import remember


def opened(store: Store) -> Views:
    views = Views(store, Disk())
    views.open()
    return views


def found(views: Views, word: str) -> int:
    return len(views.words.search(word, 10, views.columns.allowed(Filter())).numbers)


def a_store_of_one_memory(folder: Path) -> None:
    with closing(Store.open(folder)) as store:
        remember(store, 1, "A rowing boat lies in the harbour.")
        opened(store).save()


def test_views_are_taken_as_they_were_saved(tmp_path: Path) -> None:
    a_store_of_one_memory(tmp_path / "data")
    with closing(Store.open(tmp_path / "data")) as store:
        views = opened(store)
        assert views.rebuilt == []
        assert found(views, "harbour") == 1


def test_a_view_that_has_a_change_which_was_lost_is_built_anew_though_its_number_is_right(tmp_path: Path) -> None:
    """A loss of power takes back a change that nobody was told of, and its number goes to another."""
    a_store_of_one_memory(tmp_path / "data")
    shutil.copytree(tmp_path / "data", tmp_path / "before")
    with closing(Store.open(tmp_path / "data")) as store:
        views = opened(store)
        remember(store, 2, "Lost with the power: a lighthouse.")
        views.save()
    with closing(Store.open(tmp_path / "before")) as store:
        remember(store, 3, "Said afterwards: a windmill.")
    shutil.rmtree(tmp_path / "before" / "views")
    shutil.copytree(tmp_path / "data" / "views", tmp_path / "before" / "views")
    # The store's own name is in the file too, and is the same in both.
    with closing(Store.open(tmp_path / "before")) as store:
        views = opened(store)
        assert [found(views, word) for word in ("harbour", "lighthouse", "windmill")] == [1, 0, 1]
        assert views.rebuilt == ["a view's file has another change 2 than the store"]

"""The time for which an address and a cookie of the page are accepted, by a clock that the test sets. SPEC 18"""

from mnemo_client.page.page_server import Credentials


def test_a_secret_is_taken_once_and_only_in_its_time() -> None:
    now = [100.0]
    known = Credentials(4, 10.0, lambda: now[0])
    known.add("one")
    assert not known.take("other")
    assert known.take("one")
    assert not known.take("one")
    known.add("two")
    now[0] += 10.0
    assert not known.take("two")


def test_each_request_lengthens_the_time_of_a_cookie() -> None:
    now = [100.0]
    known = Credentials(4, 10.0, lambda: now[0])
    known.add("cookie")
    for _ in range(3):
        now[0] += 9.0
        assert known.renew("cookie")
    now[0] += 10.0
    assert not known.renew("cookie")
    now[0] -= 5.0
    assert not known.renew("cookie"), "what has ended does not come back"


def test_the_oldest_give_way_to_new_ones() -> None:
    known = Credentials(2, 10.0, lambda: 100.0)
    for text in ("one", "two"):
        known.add(text)
    assert known.renew("one")
    known.add("three")
    assert not known.renew("two")
    assert known.renew("one")
    assert known.renew("three")

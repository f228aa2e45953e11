"""How long an address and a cookie of the page are accepted, by a clock that the test sets. SPEC 18"""

from mnemo_client.page.page_server import Credentials


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_secret_is_taken_once_and_only_in_its_time() -> None:
    clock = Clock()
    known = Credentials(4, 10.0, clock)
    known.add("one")
    assert not known.take("other")
    assert known.take("one")
    assert not known.take("one")
    known.add("two")
    clock.now += 10.0
    assert not known.take("two")


def test_each_request_lengthens_the_time_of_a_cookie() -> None:
    clock = Clock()
    known = Credentials(4, 10.0, clock)
    known.add("cookie")
    for _ in range(3):
        clock.now += 9.0
        assert known.renew("cookie")
    clock.now += 10.0
    assert not known.renew("cookie")
    clock.now -= 5.0
    assert not known.renew("cookie"), "what has ended does not come back"


def test_the_oldest_give_way_to_new_ones() -> None:
    known = Credentials(2, 10.0, Clock())
    for text in ("one", "two"):
        known.add(text)
    assert known.renew("one")
    known.add("three")
    assert not known.renew("two")
    assert known.renew("one")
    assert known.renew("three")

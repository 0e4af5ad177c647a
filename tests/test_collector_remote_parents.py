from __future__ import annotations

from collector.remote_parents import MAX_SERVICES, MAX_TRACES, PATIENCE, RemoteParents


def learned(service: str = "bot") -> RemoteParents:
    remote = RemoteParents()
    for n in range(PATIENCE):
        assert remote.expected(service)
        remote.closed(b"%d" % n, service, came=False)
    assert not remote.expected(service)
    return remote


def test_a_parent_that_comes_is_expected_again() -> None:
    """One trace with its remote parent is enough."""
    remote = learned()
    assert remote.expected("other")
    remote.closed(b"x", "bot", came=True)
    assert remote.expected("bot")


def test_a_parent_that_comes_too_late_is_expected_the_next_time() -> None:
    """Late spans of a trace that was closed without its parent show that parents do come."""
    remote = learned()
    remote.late(b"unknown")
    assert not remote.expected("bot")
    remote.late(b"3")
    assert remote.expected("bot")


def test_what_is_learned_is_bounded() -> None:
    """Services and traces beyond the bounds take no room; their parents are waited for."""
    remote = RemoteParents()
    for n in range(MAX_SERVICES + 10):
        for _ in range(PATIENCE):
            remote.closed(b"%d" % n, f"s{n}", came=False)
    assert remote.expected(f"s{MAX_SERVICES + 5}")
    assert not remote.expected("s0")
    for n in range(MAX_TRACES + 10):
        remote.closed(b"t%d" % n, "s0", came=False)
    remote.late(b"t0")
    assert not remote.expected("s0")

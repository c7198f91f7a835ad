"""A quota that is full, and one that is full for a moment."""

from __future__ import annotations

from mlcd.clouds.kubernetes.creations import GRACE_SECONDS, Quota, Refused

FULL = 'Error creating: pods "x" is forbidden: exceeded quota: team, requested: pods=1, used: pods=1'


def said(times: int) -> list[Refused]:
    return [Refused("x.failed", times, FULL)]


def test_a_quota_is_full_once_that_is_said_again_after_the_grace() -> None:
    now = [0.0]
    quota = Quota(lambda: now[0])
    assert not quota.lasts(said(1), leaving=False)
    now[0] = GRACE_SECONDS / 2
    assert not quota.lasts(said(2), leaving=False), "it may not have been counted anew"
    now[0] = GRACE_SECONDS
    assert not quota.lasts(said(3), leaving=False), "that may have been said within the grace"
    now[0] = 10 * GRACE_SECONDS
    assert not quota.lasts(said(3), leaving=False), "nothing was said since"
    assert quota.lasts(said(4), leaving=False)
    assert quota.lasts([*said(3), Refused("y.failed", 1, FULL)], leaving=False)


def test_while_pods_of_ours_are_going_no_quota_is_full() -> None:
    now = [0.0]
    quota = Quota(lambda: now[0])
    for times in range(1, 10):
        now[0] += GRACE_SECONDS
        assert not quota.lasts(said(times), leaving=True)
    assert not quota.lasts(said(10), leaving=False), "the grace begins when they are gone"
    now[0] += GRACE_SECONDS
    assert not quota.lasts(said(11), leaving=False)
    assert quota.lasts(said(12), leaving=False)


def test_other_refusals_are_none_of_a_quota() -> None:
    now = [0.0]
    quota = Quota(lambda: now[0])
    for times in range(1, 5):
        now[0] += GRACE_SECONDS
        assert not quota.lasts([Refused("x.failed", times, "Internal error occurred")], leaving=False)

"""Which deployment to profile next, so that the models learn most of those that may still be worth it."""

from __future__ import annotations

import numpy as np

from mlcd.core.machines import Deployment
from mlcd.forecast.design import FIRST_ROUND, choose_profiles
from mlcd.forecast.parallel import Placement
from mlcd.search.arrays import Floats, Mask
from mlcd.search.outlook import Outlook
from mlcd.search.space_models import fitted, place


def next_profile(outlook: Outlook, net: Floats, per_type: int) -> Deployment | None:
    """Of the family with the most to gain: its smallest placement of the design's round, or what gains most by itself.

    None: no family has anything to gain. `net` is what each deployment is expected to save, its probe paid.
    """
    worth = net > 0.0
    while worth.any():
        best = int(np.argmax(np.where(worth, net, -np.inf)))
        family = _family(outlook, best)
        mine = worth & np.array([place(each).family == family for each in outlook.view.study.space])
        round_ = _round(outlook, family, mine, per_type)
        if round_:
            return _deployment(outlook, net, mine, round_[0], best)
        worth &= ~mine  # profiled as often as allowed
    return None


def _round(outlook: Outlook, family: str, mine: Mask, per_type: int) -> list[Placement]:
    """What the design still asks for in this round, from few devices and small batches to many and large ones."""
    profiles = outlook.models.profiles.get(family, ())
    seen = list(dict.fromkeys(profile.placement for profile in profiles))
    open_ = dict.fromkeys(place(outlook.view.study.space[row]) for row in np.flatnonzero(mine))
    if not profiles:
        return sorted(open_, key=_size)[:1]
    model = fitted(tuple(dict.fromkeys((*seen, *open_))), profiles)
    early = len(seen) < FIRST_ROUND
    most = min(FIRST_ROUND, per_type) if early else per_type
    chosen = choose_profiles(model.space, most, seen, None if early else model.x)
    return sorted(chosen[len(seen) :], key=_size)


def _deployment(outlook: Outlook, net: Floats, mine: Mask, placement: Placement, best: int) -> Deployment:
    """The cheapest deployment at that placement, unless its probe costs more than there is to gain."""
    view = outlook.view
    rows = [row for row in np.flatnonzero(mine) if place(view.study.space[row]) == placement]
    row = min(rows, key=lambda each: view.probe_usd[each])
    return view.study.space[row if outlook.probe_cost[row] <= net[best] else best]


def _family(outlook: Outlook, row: int) -> str:
    return place(outlook.view.study.space[row]).family


def _size(placement: Placement) -> tuple[int, int]:
    return placement.devices, placement.batch

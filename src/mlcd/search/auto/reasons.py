"""Why the default search stopped, in plain words."""

from __future__ import annotations

from mlcd.core.goal import Aim
from mlcd.core.machines import Deployment
from mlcd.core.study import Ledger, Study
from mlcd.core.units import show_duration, show_usd
from mlcd.search.limits import (
    PROBE_SURCHARGE,
    best_feasible,
    expected_total,
    limit_names,
    room_for_probes,
    surely_feasible,
)

_SHOWN_SECONDS = 0.1


def not_worth_it(study: Study, next_best: Deployment, hoped: float) -> str:
    """When every probe costs more than it is expected to save; `hoped`: the best one's saving, its price unpaid.

    Both are given in one unit: time, money, or where the goal balances them shares of the total.
    """
    seconds, usd = study.probe_seconds(next_best), study.probe_usd(next_best)
    best = best_feasible(study)
    total = None if best is None else expected_total(study, best)
    price, saving = show_in_goal(study, seconds, usd), show_share(hoped)
    if total is not None and study.goal.aim is Aim.BALANCED:
        share = study.goal.value(seconds, usd) / study.goal.value(total.seconds, total.usd)
        price = f"{show_share(max(share, hoped))} ({price})"
    elif total is not None:
        saved = Ledger(min(seconds, hoped * total.seconds), min(usd, hoped * total.usd))
        saving = f"about {_show_small(study, saved)}"
    return (
        f"{_so_far(study)} to try {next_best} next would cost {price} and is expected to save {saving}, "
        "and no other probe promises more"
    )


def nothing_to_try(study: Study) -> str:
    """When no probe is possible any more."""
    if not study.probes_left:
        return f"{_so_far(study)} that is all that was allowed"
    if len(study.tried) >= len(study.space):
        return f"{_so_far(study)} nothing is left to try"
    return f"{_so_far(study)} another one could break the {_tight_names(study) or _limit_names(study)}"


def nothing_works(study: Study) -> str:
    """When whatever was tried failed, or nothing could be tried."""
    if not study.trials:
        return f"not one deployment can be tried within the {_limit_names(study)}"
    return f"all {len(study.trials)} deployments that were tried failed, so the others most likely would"


def waiting(study: Study) -> str:
    """While probes are under way."""
    return f"{len(study.pending)} of the deployments are still being tried"


def out_of_reach(study: Study, small: float) -> str:
    """When hardly any deployment has a chance to keep the limits."""
    return f"{_so_far(study)} the chance that another one can is below {small:.0%}"


def show_in_goal(study: Study, seconds: float, usd: float) -> str:
    """Time or money, whichever the goal counts."""
    if study.goal.aim is Aim.FASTEST:
        return show_duration(seconds)
    if study.goal.aim is Aim.CHEAPEST:
        return show_usd(usd)
    return f"{show_duration(seconds)} and {show_usd(usd)}"


def show_share(share: float) -> str:
    """'less than 0.1 % of the total' or '1.2 % of the total'."""
    return f"{share:.1%} of the total" if share >= 0.001 else "less than 0.1% of the total"


def _limit_names(study: Study) -> str:
    return " and the ".join(limit_names(study.goal))


def _tight_names(study: Study) -> str:
    """The limits that something not yet tried would break, were it tried now."""
    room = room_for_probes(study, surely_feasible(study))
    untried = [each for each in study.space if each not in study.tried]
    late = any(study.probe_seconds(each) * PROBE_SURCHARGE > room.seconds for each in untried)
    expensive = any(study.probe_usd(each) * PROBE_SURCHARGE > room.usd for each in untried)
    return " and the ".join(name for name, tight in (("deadline", late), ("budget", expensive)) if tight)


def _show_small(study: Study, saved: Ledger) -> str:
    """What may be next to nothing, in the goal's unit."""
    if study.goal.aim is Aim.FASTEST and saved.seconds < _SHOWN_SECONDS:
        return f"less than {show_duration(_SHOWN_SECONDS)}"
    return show_in_goal(study, saved.seconds, saved.usd)


def _so_far(study: Study) -> str:
    count = len(study.trials)
    return f"after {count} probe{'' if count == 1 else 's'}"

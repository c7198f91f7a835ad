"""Why the default search stopped, in plain words."""

from __future__ import annotations

from mlcd.core.goal import Aim
from mlcd.core.machines import Deployment
from mlcd.core.study import Study
from mlcd.core.units import show_duration, show_usd


def not_worth_it(study: Study, next_best: Deployment, hoped: float) -> str:
    """When every probe costs more than it is expected to save; `hoped`: the best one's saving, its price unpaid."""
    price = show_in_goal(study, study.probe_seconds(next_best), study.probe_usd(next_best))
    saving = show_share(hoped)
    return (
        f"{_so_far(study)} to try {next_best} next would cost {price}, which is more than the {saving} "
        "that it is expected to save, and no other probe promises more"
    )


def nothing_to_try(study: Study) -> str:
    """When no probe is possible any more."""
    if not study.probes_left:
        return f"{_so_far(study)} that is all that was allowed"
    if len(study.tried) >= len(study.space):
        return f"{_so_far(study)} nothing is left to try"
    return f"{_so_far(study)} another one could break the {limit_names(study)}"


def nothing_works(study: Study) -> str:
    """When whatever was tried failed, or nothing could be tried."""
    if not study.trials:
        return f"not one deployment can be tried within the {limit_names(study)}"
    return f"all {len(study.trials)} deployments that were tried failed, so the others most likely would"


def waiting(study: Study) -> str:
    """While probes are under way."""
    return f"{len(study.pending)} of the deployments are still being tried"


def out_of_reach(study: Study) -> str:
    """When no deployment has a chance to keep the limits."""
    return f"{_so_far(study)} what was seen leaves no deployment a chance to keep the {limit_names(study)}"


def limit_names(study: Study) -> str:
    """'deadline', 'budget', or both."""
    goal = study.goal
    limits = (("deadline", goal.deadline_seconds), ("budget", goal.budget_usd))
    return " and the ".join(name for name, limit in limits if limit is not None)


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


def _so_far(study: Study) -> str:
    count = len(study.trials)
    return f"after {count} probe{'' if count == 1 else 's'}"

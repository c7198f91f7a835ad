"""`auto`, the default search: probe while a probe is expected to save more than it costs, then stop.

Modules, in the order in which a decision uses them:

    strategy       Auto: the decision itself
    context        a study read once: features, beliefs, costs, and which deployments may be tried
      features       numbers read off an offer
      scaling_laws   what is expected before anything is measured
      beliefs        what the measurements make of it: mean and spread of every throughput
      costs          what a probe or a training takes of the goal's unit and of the limits
      failures       how likely a deployment is to fail
    shortlist      the few of thousands of deployments that are worth a closer look
    outcomes       what each of them is expected to come to, now or after a probe, and which is best now
    value          what each probe is expected to save, its price paid
    feasibility    how likely it is that any deployment keeps the limits
    reasons        why the search stopped, as text

docs/explanation/auto-search.md explains the method.
"""

from __future__ import annotations

from mlcd.search.auto.strategy import Auto

__all__ = ["Auto"]

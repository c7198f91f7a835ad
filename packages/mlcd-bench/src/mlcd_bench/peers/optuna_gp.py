"""Optuna's Gaussian process with constraints: log EI + log P(feasible)."""

from __future__ import annotations

from mlcd.core.machines import Deployment
from mlcd_bench.peers.base import Peer, Question
from mlcd_bench.peers.optuna_study import suggest_with


class OptunaGP(Peer):
    """optuna.samplers.GPSampler; needs torch."""

    def ask(self, question: Question) -> Deployment:
        from optuna.samplers import GPSampler

        return suggest_with(GPSampler(seed=question.seed, n_startup_trials=1), question)

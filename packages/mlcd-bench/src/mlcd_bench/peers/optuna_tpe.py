"""Optuna's tree-structured Parzen estimator with constraints."""

from __future__ import annotations

from mlcd.core.machines import Deployment
from mlcd_bench.peers.base import Peer, Question
from mlcd_bench.peers.optuna_study import suggest_with


class OptunaTPE(Peer):
    """optuna.samplers.TPESampler, multivariate, as Optuna advises for dimensions that depend on each other."""

    machine = "name"

    def ask(self, question: Question) -> Deployment:
        from optuna.samplers import TPESampler

        return suggest_with(TPESampler(seed=question.seed, n_startup_trials=1, multivariate=True), question)

"""BoTorch with expected improvement per unit cost: the cost-aware peer.

    log EI(x) + log P(limit kept | x) − log cost(x)

over all untried deployments, cost being what the probe takes in the goal's unit (Snoek et al. 2012, section 3.2).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from math import log

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import MixedSingleTaskGP, SingleTaskGP
from botorch.models.transforms import Standardize
from gpytorch.mlls import ExactMarginalLogLikelihood

from mlcd.core.machines import Deployment
from mlcd_bench.peers.base import Peer, Point, Question


class BoTorchEIPerCost(Peer):
    """Gaussian processes of the objective and of the limit."""

    def ask(self, question: Question) -> Deployment:
        torch.manual_seed(question.seed)
        probes = question.past_probes
        seen = _features(question, (each.deployment for each in probes))
        candidates = _features(question, question.untried)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            score = _log_improvement(question, seen, [each.value for each in probes], candidates)
            if question.limited:
                score = score + _log_feasible(question, seen, [each.excess for each in probes], candidates)
        score = score - torch.tensor([log(_cost(question, each)) for each in question.untried])
        return question.untried[int(torch.argmax(score))]


def _log_improvement(
    question: Question, seen: torch.Tensor, values: list[float], candidates: torch.Tensor
) -> torch.Tensor:
    model = _fitted(question, seen, values)
    allowed = [each.value for each in question.past_probes if each.excess <= 0.0] or values
    acquisition = LogExpectedImprovement(model, best_f=min(allowed), maximize=False)
    with torch.no_grad():
        score: torch.Tensor = acquisition(candidates.unsqueeze(1))
    return score


def _log_feasible(
    question: Question, seen: torch.Tensor, excess: list[float], candidates: torch.Tensor
) -> torch.Tensor:
    model = _fitted(question, seen, excess)
    with torch.no_grad():
        posterior = model.posterior(candidates.unsqueeze(1))
    z = -posterior.mean.flatten() / posterior.variance.flatten().clamp_min(1e-12).sqrt()
    score: torch.Tensor = torch.special.log_ndtr(z)
    return score


def _fitted(question: Question, seen: torch.Tensor, values: list[float]) -> SingleTaskGP:
    targets = torch.tensor(values, dtype=torch.float64).unsqueeze(-1)
    transform = Standardize(m=1)
    model = (
        MixedSingleTaskGP(seen, targets, cat_dims=[0], outcome_transform=transform)
        if question.by_name
        else SingleTaskGP(seen, targets, outcome_transform=transform)
    )
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def _features(question: Question, deployments: Iterable[Deployment]) -> torch.Tensor:
    """One row for each deployment: number of its machine, if that is a category; place between all ends, in logs."""
    return torch.tensor([_row(question, question.point(each)) for each in deployments], dtype=torch.float64)


def _row(question: Question, point: Point) -> list[float]:
    numbers = [log(point[name] / low) / log(high / low) for name, (low, high) in question.ends().items()]
    return [float(question.names.index(point["name"])), *numbers] if question.by_name else numbers


def _cost(question: Question, deployment: Deployment) -> float:
    study = question.study
    return study.goal.value(study.probe_seconds(deployment), study.probe_usd(deployment))

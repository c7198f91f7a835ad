"""How long one decision takes over thousands of deployments, beside plain Gaussian processes of other libraries.

    python benchmarks/decision_time/decision_time.py [--observations 20] [--repeats 15] [--strategies auto,heterbo]

Ours is a whole decision: `suggest` on a study with that many trials (lessons of failures, limits, fit, score, pick).
A decision that does without a fit, such as one of HeterBO's initial points, would flatter it: the trials begin with
those points, and a strategy that fits nothing on this study is refused. The others fit a Matérn 5/2 process with a
length for each feature and score every deployment by expected improvement, nothing more. Everything runs in this
process, one after the other. Wall time is what a user waits; on a busy machine processor time says more.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
import warnings
from collections.abc import Callable
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from mlcd import registry
from mlcd.core.goal import Aim, Goal
from mlcd.core.machines import Deployment
from mlcd.core.study import Study
from mlcd.search import gp
from mlcd.search.auto import context
from mlcd.search.base import Searcher
from mlcd.search.heterbo import HeterBO
from mlcd.search.table import table_of
from mlcd.testing.searcher_contract import make_study, scaling_truth, small_space, try_it

SPACES = {3_100: (62, 50), 100_000: (1_000, 100)}  # deployments: types × nodes
Floats = NDArray[np.float64]


def main() -> None:
    """Print a table: the first decision of a search, and the median of the following ones."""
    arguments = _arguments()
    print(f"{'':24s}{'deployments':>12s}{'first ms':>11s}{'median ms':>11s}{'median CPU ms':>15s}")
    for count, (types, most_nodes) in SPACES.items():
        study = _study_with_trials(small_space(types, most_nodes), arguments.observations)
        for name, decide in _contestants(study, arguments.strategies.split(",")).items():
            wall, cpu = _times(decide, arguments.repeats)
            medians = statistics.median(wall[1:]), statistics.median(cpu[1:])
            print(f"{name:24s}{count:12,d}{wall[0]:11.1f}{medians[0]:11.1f}{medians[1]:15.1f}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--observations", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--strategies", default="auto,heterbo,convbo,cherrypick")
    return parser.parse_args()


def _study_with_trials(space: tuple[Deployment, ...], count: int) -> Study:
    """A study under a deadline after that many trials: HeterBO's initial points, then random places."""
    study = make_study(Goal(Aim.CHEAPEST, deadline_seconds=72 * 3600.0), space, hours=24.0)
    for _ in range(HeterBO.initial_types):
        point = HeterBO().suggest(study)
        assert isinstance(point, Deployment)
        study = study.with_trial(try_it(study, point, scaling_truth))
    for row in np.random.default_rng(0).choice(len(space), count - len(study.trials), replace=False):
        study = study.with_trial(try_it(study, space[int(row)], scaling_truth))
    return study


def _contestants(study: Study, strategies: list[str]) -> dict[str, Callable[[], object]]:
    contestants: dict[str, Callable[[], object]] = {}
    for name in strategies:
        searcher = registry.load("searchers", name)()
        _refuse_without_fit(name, searcher, study)
        contestants[f"mlcd {name}"] = lambda searcher=searcher: searcher.suggest(study)
    features, seen, values = _as_arrays(study)
    contestants["scikit-learn"] = lambda: _scikit_learn(features, seen, values)
    if importlib.util.find_spec("botorch") is not None:
        contestants["BoTorch"] = lambda: _botorch(features, seen, values)
    return contestants


def _as_arrays(study: Study) -> tuple[Floats, NDArray[np.intp], Floats]:
    table = table_of(study.space)
    seen = table.rows(tuple(trial.deployment for trial in study.trials))
    speeds = [trial.measurement.samples_per_second for trial in study.trials if trial.measurement is not None]
    return table.features, seen, np.log(speeds)


def _refuse_without_fit(name: str, searcher: Searcher, study: Study) -> None:
    """Nothing is measured of a strategy that neither fits a process nor updates its beliefs on this study."""
    with (
        mock.patch.object(gp, "fit", wraps=gp.fit) as fit,
        mock.patch.object(context, "believe", wraps=context.believe) as believe,
    ):
        searcher.suggest(study)
    if not (fit.called or believe.called):
        raise SystemExit(f"{name} decides this study without fitting: its time would say nothing")


def _times(decide: Callable[[], object], repeats: int) -> tuple[list[float], list[float]]:
    """Milliseconds of wall and of processor time: of the first decision of a search, then of each repeat."""
    wall, cpu = [], []
    table_of.cache_clear()  # the first decision of a search makes the space into columns
    for _ in range(1 + repeats):
        before, cpu_before = time.perf_counter(), time.process_time()
        decide()
        wall.append(1e3 * (time.perf_counter() - before))
        cpu.append(1e3 * (time.process_time() - cpu_before))
    return wall, cpu


def _scikit_learn(features: Floats, seen: NDArray[np.intp], values: Floats) -> int:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    lengths = np.ones(features.shape[1])
    kernel = ConstantKernel() * Matern(lengths, (1e-2, 1e3), nu=2.5) + WhiteKernel(1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound: that feature does not matter
        model = GaussianProcessRegressor(kernel, normalize_y=True).fit(features[seen], values)
    mean, sd = model.predict(features, return_std=True)
    return _largest_improvement(mean, sd, values.max())


def _botorch(features: Floats, seen: NDArray[np.intp], values: Floats) -> int:
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    model = SingleTaskGP(torch.tensor(features[seen]), torch.tensor(values)[:, None])
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    with torch.no_grad():
        posterior = model.posterior(torch.tensor(features)[:, None, :])
        mean, sd = posterior.mean.numpy().ravel(), posterior.variance.sqrt().numpy().ravel()
    return _largest_improvement(mean, sd, values.max())


def _largest_improvement(mean: Floats, sd: Floats, best: float) -> int:
    gamma = (mean - best) / np.maximum(sd, 1e-12)
    return int(np.argmax(sd * (gamma * norm.cdf(gamma) + norm.pdf(gamma))))


if __name__ == "__main__":
    main()

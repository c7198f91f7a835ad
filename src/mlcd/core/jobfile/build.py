"""The fields that the keys of a file fill, to the nouns of a Job: what concerns several keys is checked and derived here."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from mlcd.core.goal import default_aim
from mlcd.core.job import BatchSizes, Direction, Job, ProbeSettings, Target, Topology, Work
from mlcd.core.jobfile.context import Context
from mlcd.core.jobfile.keys import Section
from mlcd.core.scripts import likely_platform

Fields = dict[str, Any]
_BETTER_LOW = re.compile(
    r"(loss|error|perplexity|entropy|divergence|distance|regret|deviation)"
    r"|(?:^|[^a-z])(err|ppl|mse|rmse|mae|mape|nll|wer|cer|ter|fid|bpc|bpb|bpd|kl|crps|brier)(?:$|[^a-z])"
)
_BETTER_HIGH = re.compile(
    r"(acc|precision|recall|reward|score|return|bleu|rouge|psnr|ssim|dice)"
    r"|(?:^|[^a-z])(f1|auc|auroc|map|ap|iou|miou|r2|em|top\d*|ndcg|mrr|hit\w*)(?:$|[^a-z])"
)


def build(section: Section, given: Fields, context: Context) -> Any:
    """The noun with these fields, or a tuple of alternatives; ValueError says what does not go together."""
    if section.many:
        return _alternatives(section.noun, given, context)
    derive = next((derive for noun, derive in _DERIVE.items() if issubclass(section.noun, noun)), None)
    return section.noun(**(derive(given, context) if derive else given))


def _alternatives(noun: type, given: Fields, context: Context) -> tuple[Any, ...]:
    """Each alternative, completed by what is said for all of them."""
    common = dict(given)
    any_of, ordered = common.pop("any_of", []), common.pop("ordered", [])
    if ordered:
        context.notices.append("The order in resources.ordered is not used by mlcd: the search decides.")
    return tuple(noun(**{**common, **each}) for each in any_of or ordered or [{}])


def _job(given: Fields, context: Context) -> Fields:
    topology = Topology.ALLREDUCE if given.get("servers") is None else Topology.PS
    if topology is Topology.PS and given.get("topology", topology) is not topology:
        raise ValueError("'servers' are parameter servers, which 'topology: allreduce' has none of; leave one out")
    envs = {name: value for name, value in given.get("envs", {}).items() if name not in context.secrets}
    derived = {
        "topology": topology,
        "platform": likely_platform(given["run"], given.get("workdir", "")),
        "aim": default_aim("deadline_seconds" in given, "budget_usd" in given),
    }
    return {**derived, **given, "envs": envs}


def _work(given: Fields, _context: Context) -> Fields:
    epochs = given.pop("epochs", None)
    if epochs is not None and "dataset_size" not in given:
        raise ValueError("'epochs' needs 'dataset_size', the samples in one epoch")
    if epochs is None and "samples" not in given:
        cap = " as the most to train before the target is reached" if "until" in given else ""
        raise ValueError(f"say 'samples', or 'epochs' and 'dataset_size'{cap}")
    return given if epochs is None else {**given, "samples": epochs * given["dataset_size"]}


def _target(given: Fields, context: Context) -> Fields:
    metric = given["metric"]
    direction = given.get("direction") or _likely_direction(metric)
    if direction is None:
        context.notices.append(
            f"work.until: '{metric}' is taken to be better the higher it is; else say 'direction: down'."
        )
    return {**given, "direction": direction or Direction.UP}


def _probe(given: Fields, _context: Context) -> Fields:
    least, most = (given.get(name, getattr(ProbeSettings, name)) for name in ("min_seconds", "max_seconds"))
    if least > most:
        raise ValueError(f"min_seconds ({least:g}) is above max_seconds ({most:g})")
    return given


def _batch_sizes(given: Fields, _context: Context) -> Fields:
    if "choices" not in given and given.get("accumulate", 1) > 1:
        raise ValueError("it needs 'sizes', such as {sizes: 32..512, accumulate: 8}")
    return given


_DERIVE: dict[type, Callable[[Fields, Context], Fields]] = {
    Job: _job,
    Work: _work,
    Target: _target,
    ProbeSettings: _probe,
    BatchSizes: _batch_sizes,
}


def _likely_direction(metric: str) -> Direction | None:
    """Which way a metric of that name gets better; None: the name does not tell."""
    name = metric.lower()
    if _BETTER_LOW.search(name):
        return Direction.DOWN
    return Direction.UP if _BETTER_HIGH.search(name) else None

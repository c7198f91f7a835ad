"""Which way a metric gets better, by its name."""

from __future__ import annotations

import re

from mlcd.core.job import Direction

_BETTER_LOW = re.compile(
    r"(loss|error|perplexity|entropy|divergence|distance|regret|deviation)"
    r"|(?:^|[^a-z])(err|ppl|mse|rmse|mae|mape|nll|wer|cer|ter|fid|bpc|bpb|bpd|kl|crps|brier)(?:$|[^a-z])"
)
_BETTER_HIGH = re.compile(
    r"(acc|precision|recall|reward|score|return|bleu|rouge|psnr|ssim|dice)"
    r"|(?:^|[^a-z])(f1|auc|auroc|map|ap|iou|miou|r2|em|top\d*|ndcg|mrr|hit\w*)(?:$|[^a-z])"
)


def likely_direction(metric: str) -> Direction | None:
    """Which way a metric of that name gets better; None: the name does not tell."""
    name = metric.lower()
    if _BETTER_LOW.search(name):
        return Direction.DOWN
    return Direction.UP if _BETTER_HIGH.search(name) else None

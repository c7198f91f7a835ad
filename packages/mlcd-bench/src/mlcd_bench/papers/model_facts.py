"""What is known of common models: operations, parameters, and the batch size that they are usually trained with.

Operations are those of one sample, forward and backward: three times the forward pass, a multiplication and an addition
counted as two. Forward passes are those that the papers of the models state (images: 224 × 224, Inception-v3 299 × 299,
CIFAR-10 32 × 32; BERT: 384 tokens, two operations for each parameter and token; NCF: its dense layers alone, and
the embeddings of MovieLens-20M).
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class ModelFacts:
    """What an analytical model needs to know of a training."""

    flops_per_sample: float
    parameters: float
    batch_size: int  # global


def _of(forward_gflops: float, parameters: float, batch_size: int) -> ModelFacts:
    return ModelFacts(3e9 * forward_gflops, parameters, batch_size)


MODELS = {
    "alexnet": _of(1.4, 61e6, 256),
    "vgg-16": _of(31.0, 138e6, 256),
    "inception-v3": _of(11.4, 23.8e6, 256),
    "mobilenet-v2": _of(0.6, 3.5e6, 256),
    "densenet-121": _of(5.7, 8e6, 256),
    "resnet-18": _of(3.6, 11.7e6, 256),
    "resnet-18-cifar": _of(1.1, 11.2e6, 128),
    "resnet-34": _of(7.3, 21.8e6, 256),
    "resnet-50": _of(8.2, 25.6e6, 256),
    "resnet-101": _of(15.6, 44.5e6, 256),
    "resnet-152": _of(23.0, 60.2e6, 256),
    "bert-base": _of(2 * 0.110 * 384, 110e6, 32),
    "bert-large": _of(2 * 0.340 * 384, 340e6, 32),
    "ncf": _of(0.0002, 31.8e6, 1024),
}
# What traces and jobs call them.
_ALIASES = {"bert": "bert-base", "cifar10": "resnet-18-cifar"}
_BATCH = re.compile(r"-b(\d+)$")  # as in ResNet-50-b128


def known_model(workload: str) -> str | None:
    """The model of the table that a workload's name means; None: it names none."""
    name = _BATCH.sub("", workload.lower()).replace("_", "-")
    plain = {key.replace("-", ""): key for key in MODELS} | _ALIASES
    return plain.get(name.replace("-", ""))


def named_batch(workload: str) -> int | None:
    """The batch size that is part of a workload's name; None: it has none."""
    found = _BATCH.search(workload)
    return int(found[1]) if found else None

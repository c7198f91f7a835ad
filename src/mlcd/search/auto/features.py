"""What the default search knows of a deployment before it is tried: numbers read off the offer.

Glossary (N deployments, arrays of shape (N,)):
    nodes        number of nodes
    log_nodes    logarithm of those that train
    servers      those that keep the parameters instead; 0: the nodes exchange with each other
    server_id    their instance type; 0 where it is that of the others, or none serves
    losses       how often the machines are expected to be taken back in an hour
    lifetime     seconds that a node runs in one go; 0: no limit
    log_price    logarithm of the machine's own price, which hints at its speed; disk and address do not. A machine that is free counts as one at a hundredth of a cent
    log_batch    log of the global batch size; 0 where the program decides
    type_id      equal for the same instance type (on demand, spot and in every region)
    family_id    equal for the sizes of one family: c4.large and c4.2xlarge, a100x1 and a100x8
    class_id     equal for families of the same letters: c4 and c5
    kind_id      1 with accelerators, 0 without (or not known)
    study_id     0 for this study, 1, 2 … for earlier ones of similar jobs
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from zlib import crc32

import numpy as np

from mlcd.core.machines import Deployment, Offer
from mlcd.search.arrays import Floats, Ints, Rows, distinct_offers, losses_per_hour, with_other_servers

_SIZE = re.compile(r"(nano|micro|small|medium|\d*x?large|metal|\d+(x|g|xl|gb)?)$")
_COUNT = re.compile(r"x\d+$")  # of the devices in one node: a100x4
_CHEAPEST_USD = 1e-4  # of one node and hour, in the eyes of a logarithm


@dataclass(frozen=True)
class Features:
    """Deployments as numbers, one row each."""

    nodes: Floats
    log_nodes: Floats
    servers: Floats
    server_id: Ints
    losses: Floats
    lifetime: Floats
    log_price: Floats
    log_batch: Floats
    type_id: Ints
    family_id: Ints
    class_id: Ints
    kind_id: Ints
    study_id: Ints

    def __len__(self) -> int:
        return len(self.nodes)

    def take(self, rows: Rows) -> Features:
        """These rows alone."""
        return Features(*(getattr(self, each.name)[rows] for each in fields(self)))


def describe(deployments: Sequence[Deployment], study_id: int = 0) -> Features:
    """The features of all deployments; an offer is read once however often it is used."""
    offers, rows = distinct_offers(deployments)
    nodes = np.array([each.nodes for each in deployments], dtype=float)
    servers = np.array([each.servers for each in deployments], dtype=float)
    batch = np.array([each.batch_size or 1 for each in deployments], dtype=float)
    own_usd = np.array([each.usd_per_hour for each in offers], dtype=float)
    return Features(
        nodes=nodes,
        log_nodes=np.log(nodes - servers),
        servers=servers,
        server_id=_server_ids(deployments),
        losses=losses_per_hour(deployments),
        lifetime=np.array([each.lifetime_seconds for each in offers], dtype=float)[rows],
        log_price=np.log(np.maximum(own_usd, _CHEAPEST_USD))[rows],
        log_batch=np.log(batch),
        type_id=_ids([each.instance.name for each in offers])[rows],
        family_id=_ids([family(each) for each in offers])[rows],
        class_id=_ids([_letters(family(each)) for each in offers])[rows],
        kind_id=np.array([each.instance.gpus > 0 for each in offers], dtype=np.int64)[rows],
        study_id=np.full(len(deployments), study_id, dtype=np.int64),
    )


def _server_ids(deployments: Sequence[Deployment]) -> Ints:
    ids = np.zeros(len(deployments), dtype=np.int64)
    rows, servers = with_other_servers(deployments)
    ids[rows] = _ids([server.instance.name for server in servers])
    return ids


def join(parts: Sequence[Features]) -> Features:
    """All rows, one part after the other."""
    return Features(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Features)))


def family(offer: Offer) -> str:
    """The family of an instance type: its accelerator, or its name without what tells the size.

    c4.2xlarge → c4, a100x4 → a100, n1-standard-8 → n1 standard, Standard_NC24s_v3 → standard nc s v3.
    """
    if offer.instance.gpu_model:
        return offer.instance.gpu_model.lower()
    words = re.split(r"[._\-\s]+", offer.instance.name.lower())
    if words[0] in ("standard", "basic"):  # Azure puts the size inside the word
        words = [words[0], *re.sub(r"\d+", " ", words[1]).split(), *words[2:]] if len(words) > 1 else words
    kept = [_COUNT.sub("", word) for word in words if not _SIZE.match(word)]
    return " ".join(kept) or offer.instance.name.lower()


def _letters(name: str) -> str:
    found = re.match(r"[a-z]+", name)
    return found.group() if found else name


def _ids(names: Sequence[str]) -> Ints:
    return np.array([crc32(name.encode()) for name in names], dtype=np.int64)

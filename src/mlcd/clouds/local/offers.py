"""What this computer sells: 1, 2, 4 … cores, and each kind of GPU, as many nodes as fit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from mlcd.clouds.local.hardware import Hardware
from mlcd.clouds.local.settings import LocalSettings
from mlcd.clouds.tasks.gpus import Gpu
from mlcd.core.machines import InstanceType, Offer


def make_offers(hardware: Hardware, prices: LocalSettings, date: str) -> list[Offer]:
    """All offers, the smallest first."""
    return [*_core_offers(hardware, prices, date), *_gpu_offers(hardware, prices, date)]


def _core_offers(hardware: Hardware, prices: LocalSettings, date: str) -> Iterator[Offer]:
    total = len(hardware.cores)
    for cores in sizes(total):
        instance = InstanceType(f"local-{cores}c", vcpus=cores, memory_gib=_memory(hardware, cores))
        yield _offer(instance, total // cores, prices, date)


def _gpu_offers(hardware: Hardware, prices: LocalSettings, date: str) -> Iterator[Offer]:
    by_model = sorted(hardware.gpus, key=lambda gpu: gpu.model)
    for model, group in groupby(by_model, key=lambda gpu: gpu.model):
        gpus = list(group)
        for count in sizes(len(gpus)):
            instance = _gpu_instance(hardware, model, gpus, count)
            most = min(len(gpus) // count, len(hardware.cores) // int(instance.vcpus))
            if most:
                yield _offer(instance, most, prices, date)


def _gpu_instance(hardware: Hardware, model: str, gpus: list[Gpu], count: int) -> InstanceType:
    """GPUs with their share of the cores and of the memory."""
    cores = max(1, len(hardware.cores) * count // len(hardware.gpus))
    return InstanceType(
        f"local-{count}x{model.lower()}",
        vcpus=cores,
        memory_gib=_memory(hardware, cores),
        gpus=count,
        gpu_model=model,
        gpu_memory_gib=min(gpu.memory_gib for gpu in gpus),
    )


def _offer(instance: InstanceType, max_nodes: int, prices: LocalSettings, date: str) -> Offer:
    usd_per_hour = instance.vcpus * prices.usd_per_core_hour + instance.gpus * prices.usd_per_gpu_hour
    return Offer(
        cloud="local",
        instance=instance,
        usd_per_hour=usd_per_hour,
        max_nodes=max_nodes,
        usd_per_gib_hour=prices.usd_per_gib_hour,
        priced_at=date,
        source="settings: local.usd_per_core_hour, local.usd_per_gpu_hour",
    )


def _memory(hardware: Hardware, cores: int) -> float:
    return hardware.memory_gib * cores / len(hardware.cores)


def sizes(total: int) -> list[int]:
    """1, 2, 4 … and all of them."""
    powers = [2**exponent for exponent in range(total.bit_length()) if 2**exponent <= total]
    return powers if not powers or powers[-1] == total else [*powers, total]

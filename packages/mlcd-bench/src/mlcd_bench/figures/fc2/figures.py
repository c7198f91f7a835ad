"""The FC² paper's experiments (section 8) on a synthetic testbed, beside what the paper says.

Figures of time and of cost show one experiment each: its contests are the same, the claims are not. The paper tells
numbers in its text only, so that many claims are of a kind: similar, more, less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from mlcd_bench.claims import Claim, fact
from mlcd_bench.figures.fc2.claims import (
    COST_OPT,
    SCALA_OPT,
    TIME_OPT,
    Setting,
    as_fast_as,
    by_hand,
    dearer_than,
    recommends,
    recommends_all,
    recommends_fewer,
    saves_over,
    slower_than,
    within_budget,
)
from mlcd_bench.figures.fc2.testbed import SERVERS, WORKERS, throughput
from mlcd_bench.presets.preset import Curve, Preset

_SIZES = range(1, 7)  # of workers, in the paper's figures
_CPUS = ("m4.xlarge", "t2.xlarge", "c4.xlarge")
_LARGE = ("g3.4xlarge", "p2.xlarge", "c4.8xlarge")
_BY_HAND = ("m4.xlarge", "c4.xlarge")
_BUDGETS = (1.0, 2.0, 4.0)  # an hour

CPU_SETTINGS = tuple(Setting(_CPUS, "m4.large", batch, _BY_HAND) for batch in (64, 128))
MIXED_SETTINGS = tuple(Setting((*_CPUS, "p2.xlarge"), "m4.large", batch) for batch in (128, 512, 1280))
LARGE_SETTINGS = tuple(Setting(_LARGE, "m4.2xlarge", batch) for batch in (128, 512))
FAST_SERVER_SETTINGS = tuple(replace(each, server="m4.10xlarge") for each in LARGE_SETTINGS)


def tables() -> Preset:
    """What the paper says of its price lists."""
    step = SERVERS["m4.10xlarge"].usd_per_hour / SERVERS["m4.2xlarge"].usd_per_hour
    large = [WORKERS[name].usd_per_hour for name in _LARGE]
    spread = max(large) / min(large)
    cheaper = WORKERS["t2.xlarge"].usd_per_hour / WORKERS["m4.xlarge"].usd_per_hour
    claims = (
        fact("price of m4.10xlarge ÷ m4.2xlarge", "about 5 ×", f"{step:.1f} ×", step > 1.0),
        fact("dearest ÷ cheapest of g3.4xlarge, p2.xlarge, c4.8xlarge", "similar", f"{spread:.2f} ×", spread < 1.25),
        fact("price of t2.xlarge ÷ m4.xlarge, which is slower", "below 1", f"{cheaper:.2f} ×", cheaper < 1.0),
    )
    return Preset("fc2-tables", "Prices of servers and workers", (), claims)


def fig6() -> Preset:
    """Time on CPUs."""
    small, middle = CPU_SETTINGS
    claims = (
        recommends_fewer(small, "t2.xlarge", "2 × t2.xlarge"),
        recommends_fewer(middle, "t2.xlarge", "3 × t2.xlarge"),
        *(recommends_all(each, TIME_OPT, "m4.xlarge") for each in CPU_SETTINGS),
        *(recommends_all(each, COST_OPT, "c4.xlarge") for each in CPU_SETTINGS),
        *(as_fast_as(each, SCALA_OPT, rival) for each in CPU_SETTINGS for rival in (TIME_OPT, COST_OPT)),
        *(as_fast_as(each, by_hand(worker), TIME_OPT) for each in CPU_SETTINGS for worker in _BY_HAND),
    )
    return _preset("fc2-fig6", "Training time on CPUs, server m4.large", CPU_SETTINGS, claims)


def fig7() -> Preset:
    """Cost on CPUs."""
    small, middle = CPU_SETTINGS
    claims = (
        saves_over(small, SCALA_OPT, TIME_OPT, "65 %"),
        saves_over(middle, SCALA_OPT, TIME_OPT, "40 %"),
        *(saves_over(each, SCALA_OPT, COST_OPT, "above 0") for each in CPU_SETTINGS),
        *(saves_over(each, by_hand(worker), TIME_OPT, "15 %") for each in CPU_SETTINGS for worker in _BY_HAND),
    )
    return _preset("fc2-fig7", "Cost on CPUs, server m4.large", CPU_SETTINGS, claims)


def more_workers() -> Preset:
    """The paper's footnote 10: similar results for larger clusters."""
    settings = tuple(
        replace(each, named=(), most_workers=most, label=f"batch {each.batch}, up to {most} workers")
        for most in (8, 12)
        for each in CPU_SETTINGS
    )
    claims = (
        *(as_fast_as(each, SCALA_OPT, TIME_OPT) for each in settings),
        *(saves_over(each, SCALA_OPT, TIME_OPT, "similar: 40 to 65 %") for each in settings),
        *(saves_over(each, SCALA_OPT, COST_OPT, "above 0") for each in settings),
    )
    return _preset("fc2-footnote10", "CPUs, with up to 8 and 12 workers", settings, claims)


def budgets() -> Preset:
    """Section 5.2: an hourly budget C in place of a number of workers, (C − c_ps) / c_t."""
    settings = {usd: _under(usd) for usd in _BUDGETS}
    players = (COST_OPT, TIME_OPT, SCALA_OPT)
    claims = (
        *(within_budget(each, player, usd) for usd, each in settings.items() for player in players),
        *(recommends_all(each, TIME_OPT, "m4.xlarge", _paid(usd, "m4.xlarge")) for usd, each in settings.items()),
        *(recommends_all(each, COST_OPT, "c4.xlarge", _paid(usd, "c4.xlarge")) for usd, each in settings.items()),
        *(as_fast_as(each, SCALA_OPT, TIME_OPT) for each in settings.values()),
        *(saves_over(each, SCALA_OPT, TIME_OPT, "above 0") for each in settings.values()),
    )
    return _preset("fc2-budgets", "CPUs for $1, $2 and $4 an hour, batch 128", settings.values(), claims)


def _under(usd_per_hour: float) -> Setting:
    label = f"${usd_per_hour:g} an hour"
    return Setting(_CPUS, "m4.large", 128, most_workers=20, label=label, usd_per_hour=usd_per_hour)


def _paid(usd_per_hour: float, worker: str) -> int:
    """n_t = (C − c_ps) / c_t."""
    return int((usd_per_hour - SERVERS["m4.large"].usd_per_hour) / WORKERS[worker].usd_per_hour)


def fig8() -> Preset:
    """CPUs over sizes."""
    return _cpu_curves("fc2-fig8", CPU_SETTINGS[0])


def fig9() -> Preset:
    """CPUs over sizes, larger batch."""
    return _cpu_curves("fc2-fig9", CPU_SETTINGS[1])


def _cpu_curves(name: str, setting: Setting) -> Preset:
    speeds = {worker: _speeds(setting, worker) for worker in _CPUS}
    fastest = max(speeds, key=lambda worker: speeds[worker][0])
    peaks = [each.index(max(each)) + 1 for each in speeds.values()]
    claims = (
        fact("fastest type", "t2.xlarge", fastest, fastest == "t2.xlarge"),
        fact("fastest number of workers, fewer than all", "3 to 4", _listed(peaks), max(peaks) < max(_SIZES)),
    )
    title = f"Speed over workers on CPUs, server {setting.server}, batch {setting.batch}"
    return Preset(name, title, (), claims, _curves(setting, _CPUS))


def fig10() -> Preset:
    """Time on CPUs and GPUs."""
    told = ("2 × p2.xlarge", "3 × p2.xlarge", "5 × p2.xlarge")
    claims = (
        *(recommends_fewer(each, "p2.xlarge", says) for each, says in zip(MIXED_SETTINGS, told, strict=True)),
        *(recommends_all(each, TIME_OPT, "p2.xlarge") for each in MIXED_SETTINGS),
        *(recommends_all(each, COST_OPT, "c4.xlarge") for each in MIXED_SETTINGS),
        *(as_fast_as(each, SCALA_OPT, TIME_OPT) for each in MIXED_SETTINGS),
        *(slower_than(each, COST_OPT, SCALA_OPT) for each in MIXED_SETTINGS),
    )
    return _preset("fc2-fig10", "Training time on CPUs and GPUs, server m4.large", MIXED_SETTINGS, claims)


def fig11() -> Preset:
    """p2.xlarge over sizes and batches."""
    speeds = {each.batch: _speeds(each, "p2.xlarge") for each in MIXED_SETTINGS}
    peaks = [each.index(max(each)) + 1 for each in speeds.values()]
    gain = speeds[128][-1] / speeds[128][1]
    claims = (
        fact("batch 128: speed of 6 workers ÷ 2", "about 1", f"{gain:.2f} ×", gain < 1.5),
        fact(
            "fastest number of workers, batches of 128, 512, 1280",
            "grows with the batch",
            _listed(peaks),
            peaks == sorted(set(peaks)),
        ),
    )
    curves = tuple(_curve(each, "p2.xlarge", f"batch {each.batch}") for each in MIXED_SETTINGS)
    return Preset("fc2-fig11", "Speed over workers of p2.xlarge, server m4.large", (), claims, curves)


def fig12() -> Preset:
    """Cost on CPUs and GPUs."""
    told = ("80 %", "50 %", "above 0")
    claims = (
        *(saves_over(each, SCALA_OPT, TIME_OPT, says) for each, says in zip(MIXED_SETTINGS, told, strict=True)),
        *(slower_than(each, COST_OPT, TIME_OPT, "so long that its cost is not small") for each in MIXED_SETTINGS),
    )
    return _preset("fc2-fig12", "Cost on CPUs and GPUs, server m4.large", MIXED_SETTINGS, claims)


def fig13() -> Preset:
    """Time on large machines."""
    small, middle = LARGE_SETTINGS
    claims = (
        recommends_fewer(small, "g3.4xlarge", "2 × g3.4xlarge"),
        recommends_fewer(middle, "g3.4xlarge", "4 × g3.4xlarge"),
        *(recommends_all(each, COST_OPT, "g3.4xlarge") for each in LARGE_SETTINGS),
        *(recommends_all(each, TIME_OPT, "c4.8xlarge") for each in LARGE_SETTINGS),
        *(as_fast_as(each, SCALA_OPT, COST_OPT) for each in LARGE_SETTINGS),
        slower_than(middle, TIME_OPT, SCALA_OPT, "30 % less speed: 1.4"),
    )
    return _preset("fc2-fig13", "Training time on large machines, server m4.2xlarge", LARGE_SETTINGS, claims)


def fig14() -> Preset:
    """Cost on large machines."""
    claims = (
        *(saves_over(each, SCALA_OPT, TIME_OPT, "up to 65 %") for each in LARGE_SETTINGS),
        *(saves_over(each, SCALA_OPT, COST_OPT, "above 0") for each in LARGE_SETTINGS),
        dearer_than(LARGE_SETTINGS[1], TIME_OPT, SCALA_OPT, "1.65"),
    )
    return _preset("fc2-fig14", "Cost on large machines, server m4.2xlarge", LARGE_SETTINGS, claims)


def fig15() -> Preset:
    """Large machines over sizes."""
    setting = LARGE_SETTINGS[0]
    speeds = _speeds(setting, "g3.4xlarge")
    first, rest = speeds[1] / speeds[0], speeds[-1] / speeds[1]
    fastest = max(_LARGE, key=lambda worker: _speeds(setting, worker)[0])
    claims = (
        fact("fastest type", "g3.4xlarge", fastest, fastest == "g3.4xlarge"),
        fact("speed of 6 g3.4xlarge ÷ 2, beside 2 ÷ 1", "little", f"{rest:.2f} × beside {first:.2f} ×", rest < first),
    )
    title = "Speed over workers of large machines, server m4.2xlarge, batch 128"
    return Preset("fc2-fig15", title, (), claims, _curves(setting, _LARGE))


def fig16() -> Preset:
    """Large machines over sizes, larger batch."""
    small, large = ({name: _speeds(each, name) for name in _LARGE} for each in LARGE_SETTINGS)
    gaps = [each["g3.4xlarge"][0] / each["c4.8xlarge"][0] for each in (small, large)]
    slowest = min(_LARGE, key=lambda name: large[name][-1])
    claims = (
        fact("slowest type, of 6 workers", "c4.8xlarge, the dearest", slowest, slowest == "c4.8xlarge"),
        fact(
            "speed of g3.4xlarge ÷ c4.8xlarge, batch 512 beside 128",
            "larger",
            f"{gaps[1]:.2f} × beside {gaps[0]:.2f} ×",
            gaps[1] > gaps[0],
        ),
    )
    title = "Speed over workers of large machines, server m4.2xlarge, batch 512"
    return Preset("fc2-fig16", title, (), claims, _curves(LARGE_SETTINGS[1], _LARGE))


def fig17() -> Preset:
    """Time with a fast server."""
    claims = (
        *(
            recommends(each, player, "6 workers", lambda _, workers: workers == 6)
            for each in FAST_SERVER_SETTINGS
            for player in (COST_OPT, TIME_OPT, SCALA_OPT)
        ),
        *(as_fast_as(each, SCALA_OPT, COST_OPT) for each in FAST_SERVER_SETTINGS),
        *(slower_than(each, TIME_OPT, COST_OPT) for each in FAST_SERVER_SETTINGS),
        slower_than(FAST_SERVER_SETTINGS[1], TIME_OPT, SCALA_OPT),
    )
    title = "Training time on large machines, server m4.10xlarge"
    return _preset("fc2-fig17", title, FAST_SERVER_SETTINGS, claims)


def fig18() -> Preset:
    """Cost with a fast server."""
    claims = (
        *(saves_over(each, COST_OPT, TIME_OPT, "significant") for each in FAST_SERVER_SETTINGS),
        *(saves_over(each, SCALA_OPT, TIME_OPT, "significant") for each in FAST_SERVER_SETTINGS),
    )
    return _preset("fc2-fig18", "Cost on large machines, server m4.10xlarge", FAST_SERVER_SETTINGS, claims)


def fig19() -> Preset:
    """A fast server over sizes."""
    return _fast_server_curves("fc2-fig19", 0)


def fig20() -> Preset:
    """A fast server over sizes, larger batch."""
    return _fast_server_curves("fc2-fig20", 1)


def _fast_server_curves(name: str, at: int) -> Preset:
    slow, fast = (_speeds(each[at], "g3.4xlarge") for each in (LARGE_SETTINGS, FAST_SERVER_SETTINGS))
    gains = [each[-1] / each[1] for each in (slow, fast)]
    second, sixth = (1 - fast[at - 1] / fast[at] for at in (1, 5))
    claims = (
        fact(
            "speed of 6 g3.4xlarge ÷ 2, beside that with m4.2xlarge",
            "larger",
            f"{gains[1]:.2f} × beside {gains[0]:.2f} ×",
            gains[1] > gains[0],
        ),
        fact(
            "time saved by a sixth worker, beside a second", "less", f"{sixth:.0%} beside {second:.0%}", sixth < second
        ),
    )
    setting = FAST_SERVER_SETTINGS[at]
    title = f"Speed over workers of large machines, server m4.10xlarge, batch {setting.batch}"
    return Preset(name, title, (), claims, _curves(setting, _LARGE))


FC2: dict[str, Callable[[], Preset]] = {
    "fc2-tables": tables, "fc2-fig6": fig6, "fc2-fig7": fig7, "fc2-fig8": fig8, "fc2-fig9": fig9,
    "fc2-footnote10": more_workers, "fc2-budgets": budgets, "fc2-fig10": fig10, "fc2-fig11": fig11, "fc2-fig12": fig12, "fc2-fig13": fig13,
    "fc2-fig14": fig14, "fc2-fig15": fig15, "fc2-fig16": fig16, "fc2-fig17": fig17, "fc2-fig18": fig18,
    "fc2-fig19": fig19, "fc2-fig20": fig20,
}  # fmt: skip


def _preset(name: str, title: str, settings: Iterable[Setting], claims: tuple[Claim, ...]) -> Preset:
    return Preset(name, title, tuple(each.contest for each in settings), claims)


def _speeds(setting: Setting, worker: str) -> list[float]:
    return [throughput(worker, setting.server, setting.batch, workers) for workers in _SIZES]


def _curves(setting: Setting, workers: Iterable[str]) -> tuple[Curve, ...]:
    return tuple(_curve(setting, worker, worker) for worker in workers)


def _curve(setting: Setting, worker: str, name: str) -> Curve:
    return Curve(name, tuple(_SIZES), tuple(_speeds(setting, worker)))


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))

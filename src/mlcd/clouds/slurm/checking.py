"""`mlcd check slurm`: the commands, the partitions, the prices, the folder, each tried by itself; nothing is submitted."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from mlcd.clouds.remote.base import Reach
from mlcd.clouds.slurm.commands import Slurm
from mlcd.clouds.slurm.kinds import Kind
from mlcd.clouds.slurm.login import open_login
from mlcd.clouds.slurm.machines import expanded
from mlcd.clouds.slurm.prices import read_prices
from mlcd.clouds.slurm.settings import SlurmSettings
from mlcd.core.view import Finding
from mlcd.errors import MlcdError, UserError

COMMANDS = ("sinfo", "squeue", "sbatch", "scancel", "srun")


def check(home: Path, settings: SlurmSettings) -> Iterator[Finding]:
    """All findings; what rests on one that failed is not tried."""
    login = open_login(home, settings)
    slurm = Slurm(login)
    try:
        commands = _tried("commands", lambda: _commands(login, settings))
        yield commands
        if not commands.ok:
            return
        yield _tried("version", slurm.version)
        yield _tried("partitions", lambda: _partitions(slurm.kinds(settings.qos)))
        yield _tried("prices", lambda: _prices(settings, slurm))
        yield _tried("folder", lambda: _folder(login, settings))
        yield _tried("jobs", lambda: f"{len(slurm.jobs())} of yours in the queue or ended lately")
    finally:
        login.close()


def _tried(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except MlcdError as error:
        return Finding(what, False, error.message, error.hint)


def _commands(login: Reach, settings: SlurmSettings) -> str:
    where = settings.login or "this computer"
    words = " ".join(COMMANDS)
    ran = login.run(f"for each in {words}; do command -v $each > /dev/null || echo missing=$each; done")
    missing = [line.partition("=")[2] for line in ran.output.splitlines() if line.startswith("missing=")]
    if missing:
        raise UserError(
            f"{where} has no {', '.join(missing)}.",
            "Name the login node: slurm.login (MLCD_SLURM_LOGIN), or install Slurm's client commands.",
        )
    return f"{', '.join(COMMANDS)} on {where}"


def _partitions(kinds: list[Kind]) -> str:
    if not kinds:
        raise UserError("No partition that is up has a node that is.", "`sinfo` on the login node says more.")
    return "; ".join(f"{kind.name}: {kind.max_nodes} nodes of {kind.cpus} cores" for kind in kinds)


def _prices(settings: SlurmSettings, slurm: Slurm) -> str:
    prices = read_prices(settings.prices, settings.usd_per_unit)
    free = sorted({kind.partition for kind in slurm.kinds(settings.qos) if not prices.knows(kind.partition)})
    return f"none for {', '.join(free)}: free of charge" if free else f"all partitions are in {settings.prices}"


def _folder(login: Reach, settings: SlurmSettings) -> str:
    folder = expanded(login, settings.folder)
    where = shlex.quote(folder)
    ran = login.run(f"umask 077 && mkdir -p {where} && [ -w {where} ] && stat -f -c type=%T {where}")
    if ran.code:
        raise UserError(f"{folder} cannot be written: {ran.output.strip()[-300:]}", "Set slurm.folder.")
    kind = ran.output.rpartition("type=")[2].strip()
    return f"{folder} on {kind}; whether the nodes see it shows with the first task"

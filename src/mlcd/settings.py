"""Settings, read once at the door: environment first, then the file, then the defaults.

The file is $XDG_CONFIG_HOME/mlcd/config.toml (or $MLCD_HOME/config.toml):

    store = "postgresql+psycopg://user@host/mlcd"

    [local]
    usd_per_core_hour = 0.04
    usd_per_gpu_hour = 1.2
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from mlcd.errors import UserError, did_you_mean


@dataclass(frozen=True)
class LocalSettings:
    """The computer at hand, as a cloud."""

    usd_per_core_hour: float = 0.05
    usd_per_gpu_hour: float = 1.00
    cores: int = 0  # 0: as many as this computer lets us use
    memory_gib: float = 0.0  # 0: all of it


@dataclass(frozen=True)
class Settings:
    """Everything that is configured outside a job."""

    home: Path  # jobs, logs, checkpoints, models
    store: str = ""  # database URL; empty: SQLite in the home
    cloud: str = "local"
    local: LocalSettings = LocalSettings()

    @property
    def store_url(self) -> str:
        """Where the database is."""
        return self.store or f"sqlite:///{self.home / 'mlcd.db'}"

    @property
    def jobs(self) -> Path:
        """One folder for each job."""
        return self.home / "jobs"


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings in force."""
    env = os.environ if environ is None else environ
    file = _config_file(env)
    table = _read_toml(file)
    local = table.pop("local", {})
    _refuse_unknown(file, table, {"store", "cloud"})
    _refuse_unknown(file, local, {field.name for field in fields(LocalSettings)})
    return Settings(
        home=_home(env),
        store=str(env.get("MLCD_STORE", table.get("store", ""))),
        cloud=str(env.get("MLCD_CLOUD", table.get("cloud", "local"))),
        local=LocalSettings(
            **{field.name: _number(env, field.name, local, field.default) for field in fields(LocalSettings)}
        ),
    )


def _home(env: Mapping[str, str]) -> Path:
    if env.get("MLCD_HOME"):
        return Path(env["MLCD_HOME"]).expanduser().absolute()
    base = env.get("XDG_DATA_HOME") or str(Path(env.get("HOME", "~")).expanduser() / ".local" / "share")
    return Path(base) / "mlcd"


def _config_file(env: Mapping[str, str]) -> Path:
    if env.get("MLCD_HOME"):
        return Path(env["MLCD_HOME"]).expanduser() / "config.toml"
    base = env.get("XDG_CONFIG_HOME") or str(Path(env.get("HOME", "~")).expanduser() / ".config")
    return Path(base) / "mlcd" / "config.toml"


def _read_toml(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        return tomllib.loads(file.read_text())
    except (tomllib.TOMLDecodeError, OSError) as error:
        raise UserError(f"{file} cannot be read: {error}", "Mend or remove the file.") from error


def _refuse_unknown(file: Path, table: Mapping[str, Any], known: set[str]) -> None:
    for key in table:
        if key not in known:
            raise UserError(f"{file}: unknown setting '{key}'.", did_you_mean(key, known))


def _number(env: Mapping[str, str], name: str, table: Mapping[str, Any], default: Any) -> Any:
    variable = f"MLCD_LOCAL_{name.upper()}"
    value = env.get(variable, table.get(name, default))
    try:
        number = type(default)(value)
    except (TypeError, ValueError) as error:
        raise UserError(f"Setting local.{name} ({variable}) is '{value}', not a number.") from error
    if number < 0:
        raise UserError(f"Setting local.{name} ({variable}) is {number}; it must not be negative.")
    return number

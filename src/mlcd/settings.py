"""Settings, read once at the door: environment first, then the file, then the defaults.

The file is $XDG_CONFIG_HOME/mlcd/config.toml (or $MLCD_HOME/config.toml):

    store = "postgresql+psycopg://user@host/mlcd"

    [local]
    usd_per_core_hour = 0.04
    usd_per_gpu_hour = 1.2

    [notify]
    email = "team@example.org"
    smtp_host = "mail.example.org"

    [predict]
    memory_gib = 8.0
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from mlcd.core.losses import SPOT_LOSSES_PER_HOUR
from mlcd.errors import UserError, did_you_mean


@dataclass(frozen=True)
class LocalSettings:
    """The computer at hand, as a cloud."""

    usd_per_core_hour: float = 0.05
    usd_per_gpu_hour: float = 1.00
    cores: int = 0  # 0: as many as this computer lets us use
    memory_gib: float = 0.0  # 0: all of it


@dataclass(frozen=True)
class FunctionsSettings:
    """Serverless functions, on this computer or at AWS."""

    endpoint: str = ""  # of Lambda's API: empty: a service on this computer; 'aws': AWS itself; or a URL
    region: str = "us-east-1"
    role: str = ""  # ARN of the role that functions run with; needed at AWS
    image: str = ""  # URI of a container image with mlcd's handler; empty: a zip
    runtime: str = "python3.13"  # of a zip at AWS, whoever runs mlcd: its libraries are packed for it
    subnets: str = (
        ""  # 'subnet-1, subnet-2': functions run in your VPC, as where the parameter store is; empty: in none
    )
    security_groups: str = ""  # of functions in a VPC
    disk_mb: int = 512  # of a function, for code, data and checkpoints: 512 to 10,240
    objects: str = ""  # s3://bucket/prefix for code, data and checkpoints; empty: a folder of this computer
    parameters: str = field(default="", repr=False)  # redis://… between functions; empty: started on demand
    store_memory_mb: int = 1024  # of a parameter store that is started on demand
    duration_seconds: int = 900  # that one invocation may last
    margin_seconds: float = 30.0  # before that: to save and to bring home what was saved
    lost_seconds: float = 30.0  # a function that gives no sign for so long is lost
    straggler_seconds: float = 120.0  # the others wait so long for one that lags behind
    tick_seconds: float = 0.0  # between reports of a function; 0: half a second here, 5 to 10 s at AWS
    usd_per_gb_second: float = 0.0  # 0: the list price
    usd_per_million_requests: float = 0.0
    usd_per_store_hour: float = (
        0.0256  # of the parameter store between several functions; 0: you have one anyway
    )
    most: int = 200  # functions of one task
    concurrency: int = 1000  # of the service on this computer: functions at the same time
    warm_seconds: float = 300.0  # it keeps an idle environment for so long
    idle_seconds: float = 60.0  # and ends by itself after so long without one
    cpu_scale: float = 1.0  # of the CPU share that comes with a memory size
    isolate: bool = True  # its functions have networks of their own where that is allowed, as at AWS


@dataclass(frozen=True)
class RaySettings:
    """An existing Ray cluster, as a cloud."""

    address: str = "auto"  # of the cluster; auto: the one that runs on this computer
    usd_per_cpu_hour: float = 0.05
    usd_per_gpu_hour: float = 1.00
    wait_seconds: float = 60.0  # for nodes that are busy, before there are none
    lost_seconds: float = 20.0  # a node that gives no sign for so long is lost
    lease_seconds: float = 300.0  # nodes that nobody has asked for so long are given back


@dataclass(frozen=True)
class Ec2Settings:
    """Amazon EC2; who we are there is told by AWS's own files and variables."""

    regions: str = ""  # 'us-east-1, eu-west-1'; empty: the default region of the credentials
    types: str = ""  # 'c5.*, g5.xlarge'; empty: those that are commonly trained on
    image: str = (
        ""  # ami-…, or the name of a public parameter; empty: Ubuntu, with drivers where there are GPUs
    )
    user: str = "ubuntu"  # of the image
    python: str = "python3"  # on the machines; 3.9 or newer
    disk_gib: int = 64
    ssh_from: str = "0.0.0.0/0"  # addresses from which the machines are reached, by key alone
    lease_seconds: float = 1800.0  # a machine that nobody has heard of for that long ends itself
    lost_seconds: float = 20.0  # one that does not answer for that long is lost
    keep_seconds: float = 45.0  # machines wait for so long for the job's next probe; 0: never
    start_seconds: float = 90.0  # from the launch to the first command on a machine, for the first forecasts
    spot_losses_per_hour: float = SPOT_LOSSES_PER_HOUR  # how often machines are expected to be taken back
    prices: str = ""  # a CSV file in the place of AWS's price list
    max_price_age_days: float = 400.0  # of a price in such a file, or in mlcd's own list


@dataclass(frozen=True)
class KubernetesSettings:
    """A Kubernetes cluster, as a cloud."""

    kubectl: str = "kubectl"  # the command
    context: str = ""  # of its configuration; empty: the current one
    namespace: str = "default"
    image: str = "python:3.11"  # with bash, tar and Python
    python: str = "python3"  # in the image
    folder: str = "/mlcd"  # in the pods, for our files
    pool_label: str = ""  # the label that names a node's pool; empty: those of the known providers
    tolerations: str = ""  # of taints, beside that of GPU nodes: 'dedicated=training:NoSchedule, spot'
    prices: str = ""  # a CSV with the columns pool and usd_per_hour
    usd_per_cpu_hour: float = 0.05  # of pools that it does not name
    usd_per_gpu_hour: float = 1.00
    wait_seconds: float = 300.0  # for pods to start; a cluster that scales needs minutes
    lost_seconds: float = 30.0  # a pod that gives no sign for so long is lost
    lease_seconds: float = 600.0  # pods that nobody has heard of for so long end by themselves


@dataclass(frozen=True)
class SkyPilotSettings:
    """SkyPilot, as a cloud."""

    clouds: str = ""  # 'gcp, azure'; empty: all that SkyPilot has access to
    max_nodes: int = 8  # of one deployment: SkyPilot does not say how many there are
    key: str = "~/.ssh/sky-key"  # SkyPilot's private key
    folder: str = ""  # on the machines, for our files; empty: in the login's home
    python: str = "python3"  # on the machines
    lost_seconds: float = 60.0  # a machine that gives no sign for so long is lost
    lease_seconds: float = 1800.0  # a cluster that nobody has heard of for so long is taken down


@dataclass(frozen=True)
class NotifySettings:
    """Who is told of every job, and the means of telling anyone."""

    webhook: str = field(default="", repr=False)  # a URL; it may hold a secret
    slack: str = field(default="", repr=False)
    email: str = ""
    events: str = ""  # 'finished, failed'; empty: all
    webhook_key: str = field(default="", repr=False)  # signs what is sent to the webhook
    link: str = ""  # where people find the pages of a server: https://mlcd.example.org
    allow_private: bool = False  # jobs of accounts may have addresses told that only this network reaches
    timeout_seconds: float = 10.0
    smtp_host: str = ""
    smtp_port: int = 587
    smtp_security: str = "starttls"  # or 'tls' from the first byte, or 'none'
    smtp_user: str = ""
    smtp_password: str = field(default="", repr=False)
    smtp_from: str = "mlcd@localhost"


@dataclass(frozen=True)
class PredictSettings:
    """What a model that is tried may take of this computer."""

    memory_gib: float = 4.0
    request_seconds: float = 30.0
    start_seconds: float = 120.0  # to load the model
    idle_seconds: float = 300.0  # nobody asks for that long: its process ends
    processes: int = 4  # at once
    threads: int = 1  # of each
    answer_mib: float = 16.0


@dataclass(frozen=True)
class Settings:
    """Everything that is configured outside a job."""

    home: Path  # jobs, logs, checkpoints, models
    store: str = ""  # database URL; empty: SQLite in the home
    cloud: str = "local"
    local: LocalSettings = LocalSettings()
    ec2: Ec2Settings = Ec2Settings()
    functions: FunctionsSettings = FunctionsSettings()
    ray: RaySettings = RaySettings()
    kubernetes: KubernetesSettings = KubernetesSettings()
    skypilot: SkyPilotSettings = SkyPilotSettings()
    notify: NotifySettings = NotifySettings()
    predict: PredictSettings = PredictSettings()

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
    sections = {name: _section(file, table, name, kind, env) for name, kind in _SECTIONS.items()}
    _refuse_unknown(file, table, {"store", "cloud", *_SECTIONS})
    return Settings(
        home=_home(env),
        store=str(env.get("MLCD_STORE", table.get("store", ""))),
        cloud=str(env.get("MLCD_CLOUD", table.get("cloud", "local"))),
        **sections,
    )


_SECTIONS: dict[str, Any] = {
    "local": LocalSettings,
    "ec2": Ec2Settings,
    "functions": FunctionsSettings,
    "ray": RaySettings,
    "kubernetes": KubernetesSettings,
    "skypilot": SkyPilotSettings,
    "notify": NotifySettings,
    "predict": PredictSettings,
}


def python_setting(cloud: str) -> str:
    """The setting that names the Python on a cloud's machines; empty: there is none."""
    section = _SECTIONS.get(cloud)
    has_one = section is not None and any(each.name == "python" for each in fields(section))
    return f"{cloud}.python" if has_one else ""


def _section(file: Path, table: Mapping[str, Any], name: str, kind: Any, env: Mapping[str, str]) -> Any:
    """One table of the file, with what the environment says otherwise."""
    given = table.get(name, {})
    if not isinstance(given, dict):
        raise UserError(f"{file}: '{name}' is not a table.", f"Write [{name}] and its settings below.")
    _refuse_unknown(file, given, {each.name for each in fields(kind)})
    return kind(**{each.name: _value(env, name, each, given) for each in fields(kind)})


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


def _value(env: Mapping[str, str], section: str, setting: Field[Any], table: Mapping[str, Any]) -> Any:
    variable = f"MLCD_{section}_{setting.name}".upper()
    value = env.get(variable, table.get(setting.name, setting.default))
    what = f"Setting {section}.{setting.name} ({variable})"
    if isinstance(setting.default, str):
        return str(value)
    if isinstance(setting.default, bool):
        return _yes_or_no(what, value)
    return _number(what, value, type(setting.default))


def _yes_or_no(what: str, value: Any) -> bool:
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}
    if str(value).lower() not in words:
        raise UserError(f"{what} is '{value}', neither true nor false.")
    return words[str(value).lower()]


def _number(what: str, value: Any, kind: type) -> Any:
    try:
        number = kind(value)
    except (TypeError, ValueError) as error:
        raise UserError(f"{what} is '{value}', not a number.") from error
    if not number >= 0:
        raise UserError(f"{what} is {number}; it must not be negative.")
    return number

"""Settings, read once when a command starts: the environment first, then the file, then the defaults.

The file is $XDG_CONFIG_HOME/mlcd/config.toml (or $MLCD_HOME/config.toml):

    store = "postgresql+psycopg://user@host/mlcd"

    [local]
    usd_per_core_hour = 0.04

    [notify]
    email = "team@example.org"

A table of the file is a section: a frozen dataclass whose fields are made by `setting`. Clouds bring their own section
by their entry point (mlcd.clouds.base.CloudPlugin), and `settings.of(Ec2Settings)` gives it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, cast

from mlcd import registry
from mlcd.errors import UserError, did_you_mean

V = TypeVar("V")


class Section(Protocol):
    """One table of the file: a frozen dataclass of strings, numbers and booleans, each with a default."""

    section: ClassVar[str]  # its name in the file and, in capitals, in MLCD_<SECTION>_<NAME>


S = TypeVar("S", bound=Section)


def setting(default: V, meaning: str, *, empty: str = "none", secret: bool = False) -> V:
    """A field of a section; `empty` says in the reference what an empty default means, a secret is not in the repr."""
    documented = {"meaning": meaning, "empty": empty}
    return field(default=default, repr=not secret, metadata=documented)


@dataclass(frozen=True)
class NotifySettings:
    """Who gets the events of every job, and how they are sent."""

    section: ClassVar[str] = "notify"

    webhook: str = setting("", "a URL that gets the events of every job", secret=True)
    slack: str = setting("", "likewise, an incoming webhook of Slack or one that takes the same", secret=True)
    email: str = setting("", "likewise, an e-mail address")
    events: str = setting("", "which events are sent: `finished, failed, paused, budget, deadline`", empty="all")
    webhook_key: str = setting("", "signs what the webhook is sent", secret=True)
    link: str = setting("", "the address of the server's pages, for links in messages")
    allow_private: bool = setting(False, "webhooks of jobs of accounts may be in this network")
    timeout_seconds: float = setting(10.0, "how long a server may take to answer")
    smtp_host: str = setting("", "the mail server")
    smtp_port: int = setting(587, "its port")
    smtp_security: str = setting("starttls", "or `tls` (mostly port 465), or `none`")
    smtp_user: str = setting("", "the login, where one is needed")
    smtp_password: str = setting("", "its password", secret=True)
    smtp_from: str = setting("mlcd@localhost", "the sender")


@dataclass(frozen=True)
class PredictSettings:
    """What a model that is tried may take of this computer."""

    section: ClassVar[str] = "predict"

    memory_gib: float = setting(4.0, "memory of the process of a model that is tried")
    request_seconds: float = setting(30.0, "how long a prediction may take")
    start_seconds: float = setting(120.0, "how long loading a model may take")
    idle_seconds: float = setting(300.0, "a model that nobody asks for so long is unloaded")
    processes: int = setting(4, "models loaded at once; the one not asked for longest makes room")
    threads: int = setting(1, "threads that each may use")
    answer_mib: float = setting(16.0, "the largest answer")


@dataclass(frozen=True)
class Source:
    """Where settings are written: a file and variables of the environment."""

    file: Path
    table: Mapping[str, Any]
    environ: Mapping[str, str]

    def read(self, kind: type[S]) -> S:
        """A section: a table of the file, with what the environment says otherwise."""
        given = self.table.get(kind.section, {})
        if not isinstance(given, dict):
            raise UserError(
                f"{self.file}: '{kind.section}' is not a table.",
                f"Write [{kind.section}] and its settings below.",
            )
        known = fields(cast(Any, kind))
        _refuse_unknown(self.file, given, {each.name for each in known})
        return kind(**{each.name: self._value(kind.section, each, given) for each in known})

    def _value(self, section: str, setting: Field[Any], table: Mapping[str, Any]) -> Any:
        variable = f"MLCD_{section}_{setting.name}".upper()
        value = self.environ.get(variable, table.get(setting.name, setting.default))
        what = f"Setting {section}.{setting.name} ({variable})"
        if isinstance(setting.default, str):
            return str(value)
        if isinstance(setting.default, bool):
            return _boolean(what, value)
        return _number(what, value, type(setting.default))


@dataclass(frozen=True)
class Settings:
    """Everything that is configured outside a job."""

    home: Path  # jobs, logs, checkpoints, models
    store: str = ""  # database URL; empty: SQLite in the home
    cloud: str = "local"
    notify: NotifySettings = NotifySettings()
    predict: PredictSettings = PredictSettings()
    clouds: tuple[Section, ...] = ()  # sections of clouds, in the place of what the source says
    source: Source | None = field(default=None, repr=False)

    def of(self, kind: type[S]) -> S:
        """The settings of a cloud, by their class."""
        for section in self.clouds:
            if isinstance(section, kind):
                return section
        return kind() if self.source is None else self.source.read(kind)

    @property
    def store_url(self) -> str:
        """Where the database is."""
        return self.store or f"sqlite:///{self.home / 'mlcd.db'}"

    @property
    def jobs(self) -> Path:
        """One folder for each job."""
        return self.home / "jobs"

    @property
    def data_sets(self) -> Path:
        """One folder for each built-in data set that a job has asked for."""
        return self.home / "datasets"


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings in force; unknown sections and keys of the file are refused, whichever cloud they are for."""
    env = os.environ if environ is None else environ
    file = _config_file(env)
    table = _read_toml(file)
    ours = {name: value for name, value in env.items() if name.startswith("MLCD_")}
    source = Source(file, table, ours)
    for name in [name for name in table if name not in _TOP]:
        source.read(_known_section(file, name))
    return Settings(
        home=_home(env),
        store=str(env.get("MLCD_STORE", table.get("store", ""))),
        cloud=str(env.get("MLCD_CLOUD", table.get("cloud", "local"))),
        notify=source.read(NotifySettings),
        predict=source.read(PredictSettings),
        source=source,
    )


_TOP = {"store", "cloud", NotifySettings.section, PredictSettings.section}


def cloud_sections() -> dict[str, type[Section]]:
    """The sections of all registered clouds that have settings, by the cloud's name."""
    kinds = {name: getattr(plugin, "settings", None) for name, plugin in registry.loadable("clouds").items()}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def cloud_section(cloud: str) -> type[Section] | None:
    """The section of one cloud; None: it has no settings, or there is no such cloud."""
    known = cloud in registry.names("clouds")
    return getattr(registry.load("clouds", cloud), "settings", None) if known else None


def python_setting(cloud: str) -> str:
    """The setting that names the Python on a cloud's machines; empty: there is none."""
    section = cloud_section(cloud)
    has_one = section is not None and any(each.name == "python" for each in fields(cast(Any, section)))
    return f"{cloud}.python" if has_one else ""


def _known_section(file: Path, name: str) -> type[Section]:
    section = cloud_section(name)
    if section is None:
        registry.refuse_missing("clouds", name)
        raise UserError(f"{file}: unknown setting '{name}'.", did_you_mean(name, _TOP | cloud_sections().keys()))
    return section


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
    import tomllib  # only where there is a file

    try:
        return tomllib.loads(file.read_text())
    except (tomllib.TOMLDecodeError, OSError) as error:
        raise UserError(f"{file} cannot be read: {error}", "Fix or remove the file.") from error


def _refuse_unknown(file: Path, table: Mapping[str, Any], known: set[str]) -> None:
    for key in table:
        if key not in known:
            raise UserError(f"{file}: unknown setting '{key}'.", did_you_mean(key, known))


def _boolean(what: str, value: Any) -> bool:
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

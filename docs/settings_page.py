"""docs/reference/settings.md, from the sections that mlcd and its registered clouds declare; see make_reference.py."""

from __future__ import annotations

from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from mlcd import registry
from mlcd.clouds.accounts import plugin_of
from mlcd.settings import NotifySettings, PredictSettings

PAGE = Path(__file__).parent / "reference" / "settings.md"
HEAD = """\
# Settings

<!-- Made by docs/make_reference.py from the settings themselves; edit their classes, not this page. -->

What is configured outside a job. Read once, when a command starts: the environment first, then the file, then the default.

The file is `~/.config/mlcd/config.toml` (`$XDG_CONFIG_HOME/mlcd/config.toml`), or `$MLCD_HOME/config.toml` where `MLCD_HOME` is
set:

```toml
store = "postgresql+psycopg://me@db.example.org/mlcd"
cloud = "local"

[local]
usd_per_core_hour = 0.04
usd_per_gpu_hour = 1.2
cores = 8
memory_gib = 32

[notify]
email = "team@example.org"
smtp_host = "mail.example.org"
```

Unknown settings and values that are no numbers are errors that name the file or the variable. Clouds bring settings of their own; so
do [clouds of other packages](../how-to/write-a-cloud.md).

| setting | environment | default | meaning |
|---|---|---|---|
| (none) | `MLCD_HOME` | `~/.local/share/mlcd` | one folder for everything: database, jobs, logs, checkpoints, models, and the file itself. Without it files follow XDG (`$XDG_DATA_HOME/mlcd`) |
| `store` | `MLCD_STORE` | SQLite in the home | URL of the database; see [PostgreSQL](../how-to/postgresql.md) |
| `cloud` | `MLCD_CLOUD` | `local` | the cloud of jobs that name none |
"""
FOOT = """\
## Other variables

| environment | meaning |
|---|---|
| `MLCD_DEBUG` | set to anything: errors come with their Python trace |
| `OTEL_EXPORTER_OTLP_ENDPOINT` | where OpenTelemetry traces are sent over HTTP: a span for each job, probe and attempt; the exporter's other variables work too. Needs `pip install 'mlcd[otel]'` |
| `MLFLOW_TRACKING_URI` | where each job is kept as a run of MLflow, with parameters, metrics and its model's place, in the experiment `MLFLOW_EXPERIMENT_NAME` or `mlcd`. Needs `pip install 'mlcd[mlflow]'` |
| `NO_COLOR` | set to anything: no colours |
| `COLUMNS` | width of tables; 80 where the output is not a terminal |
"""


def make_page() -> str:
    """The whole page."""
    plugins = [plugin_of(name) for name in registry.names("clouds")]
    clouds = [
        (plugin.settings, plugin.page)
        for plugin in plugins
        if plugin.settings is not None and (PAGE.parents[1] / plugin.page).is_file()  # else it has docs of its own
    ]
    others = [(NotifySettings, "how-to/notifications.md"), (PredictSettings, "how-to/serve-a-model.md")]
    return "\n".join([HEAD, *(section(kind, page) for kind, page in [*clouds, *others]), FOOT])


def section(kind: Any, page: str) -> str:
    """One table of the file."""
    rows = "".join(row(kind.section, each) for each in fields(kind))
    link = page if "://" in page else f"../{page}"
    more = f" See [its page]({link})." if page else ""
    head = "| setting | environment | default | meaning |\n|---|---|---|---|\n"
    return f"## {kind.section}\n\n{kind.__doc__}{more}\n\n{head}{rows}"


def row(section: str, setting: Field[Any]) -> str:
    """One setting; `default: str = ...` without mlcd.settings.setting has no meaning to show."""
    told = setting.metadata
    default = f"`{setting.default}`" if setting.default != "" else told.get("empty", "none")
    variable = f"MLCD_{section}_{setting.name}".upper()
    return f"| `{section}.{setting.name}` | `{variable}` | {default} | {told.get('meaning', '')} |\n"

"""What `mlcd bench` runs: the comparison of strategies, or with `models` that of forecasts."""

from __future__ import annotations

import typer

app = typer.Typer(add_completion=False)


@app.command(
    "bench",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def bench(context: typer.Context) -> None:
    """Compare search strategies on recorded deployments; `mlcd bench --help` says more.

    `mlcd bench models FOLDER` shows how well training times are forecast.
    """
    if context.args[:1] == ["models"]:
        from mlcd_bench.models.command import app as models_app

        models_app(context.args[1:], prog_name="mlcd bench models")
    from mlcd_bench.command import app as bench_app

    bench_app(context.args, prog_name="mlcd bench")

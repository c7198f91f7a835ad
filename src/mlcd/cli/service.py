"""`serve`, `login` and `model`: a server for a team, the way in, and what a training handed back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mlcd.cli import options as given
from mlcd.cli.screen import note, show, show_json
from mlcd.cli.session import get_client
from mlcd.errors import MissingExtraError, UserError
from mlcd.settings import read_settings

CloudNames = Annotated[
    list[str] | None,
    typer.Option(
        help="Allow jobs on this cloud only; repeat for several. With accounts, users run programs on this computer only if its cloud is named.",
    ),
]
Issuer = Annotated[
    str,
    typer.Option(
        help="Sign people in with this identity provider; its client secret is in MLCD_OIDC_CLIENT_SECRET.",
        envvar="MLCD_OIDC_ISSUER",
    ),
]


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.", envvar="MLCD_HOST")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port.", envvar="MLCD_PORT", min=1, max=65535)] = 8080,
    workers: Annotated[int, typer.Option(help="Server processes.", min=1, max=64)] = 1,
    accounts: Annotated[
        bool | None,
        typer.Option(help="Require people to sign in; by default if other computers can reach the address."),
    ] = None,
    insecure: Annotated[bool, typer.Option(help="Serve other computers without accounts.")] = False,
    public_url: Annotated[
        str, typer.Option(help="The URL that people use, if a proxy stands in front of the server.")
    ] = "",
    proxies: Annotated[str, typer.Option(help="Trust X-Forwarded headers from this address.")] = "127.0.0.1",
    cloud: CloudNames = None,
    upload_mib: Annotated[int, typer.Option(help="The largest upload, in MiB.", min=1)] = 1024,
    upload_quota_gib: Annotated[
        float, typer.Option(help="Disk space for the uploads of one account, in GiB.", min=0)
    ] = 20.0,
    uploads_per_minute: Annotated[int, typer.Option(help="Uploads per minute and account.", min=1)] = 30,
    upload_days: Annotated[float, typer.Option(help="Days to keep an upload that no job uses.", min=1)] = 7.0,
    posts_per_minute: Annotated[int, typer.Option(help="Changes per minute and account.", min=1)] = 120,
    oidc_issuer: Issuer = "",
    oidc_client_id: Annotated[
        str, typer.Option(help="The client id of this server at the provider.", envvar="MLCD_OIDC_CLIENT_ID")
    ] = "mlcd",
    oidc_domain: Annotated[
        list[str] | None, typer.Option(help="Allow e-mail addresses of this domain only; repeat for several.")
    ] = None,
) -> None:
    """Serve mlcd to a team, or to yourself in a browser.

    Trainings continue when the server ends; a new server takes them over.
    The database is the one of MLCD_STORE: SQLite by default, PostgreSQL for several servers.

    Examples:

        mlcd serve
        mlcd serve --host 0.0.0.0 --public-url https://mlcd.example.org
    """
    settings = read_settings()
    try:
        from mlcd.web.server import serve as serve_site
        from mlcd.web.server import serve_settings
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"Serving needs the package {error.name}, which is not installed.", "pip install 'mlcd[serve]'"
        ) from error
    wanted = serve_settings(
        settings,
        said=accounts,
        host=host,
        port=port,
        workers=workers,
        insecure=insecure,
        public_url=public_url,
        proxies=proxies,
        clouds=tuple(cloud or ()),
        upload_bytes=upload_mib * 2**20,
        upload_quota_bytes=int(upload_quota_gib * 2**30),
        uploads_per_minute=uploads_per_minute,
        upload_days=upload_days,
        posts_per_minute=posts_per_minute,
        oidc=(oidc_issuer, oidc_client_id, tuple(oidc_domain or ())),
    )
    serve_site(settings, wanted, note)


def login(
    url: Annotated[str, typer.Argument(metavar="URL", help="The server.", show_default=False)],
    json: given.JsonFlag = False,
) -> None:
    """Save an API token of a server for `mlcd --server URL`.

    Asks for the token, or reads it from standard input. Create one on the server's page *Team*.

    Examples:

        mlcd login https://mlcd.example.org
    """
    from mlcd.remote import RemoteClient, save_token

    asks = sys.stdin.isatty()
    token = (typer.prompt("API token", hide_input=True, err=True) if asks else sys.stdin.readline()).strip()
    if not token:
        raise UserError("The token is empty.")
    account = RemoteClient(url, token).connection.get("/session")
    save_token(read_settings().home, url, token)
    show_json({"server": url, "name": account["name"]}) if json else show(
        f"Signed in as {account['name'] or 'anyone'}."
    )


def model(
    context: typer.Context,
    job: given.JobId,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it.")] = None,
    json: given.JsonFlag = False,
) -> None:
    """Save a trained model as one zip file.

    Examples:

        mlcd model digits-3f2a1c -o model.zip
    """
    client = get_client(context)
    path = output or Path(f"{client.view(job).record.id}.zip")
    fresh = path.with_name(f".{path.name}.part")
    try:
        with fresh.open("wb") as stream:
            for chunk in client.model(job):
                stream.write(chunk)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    show_json({"model": str(path)}) if json else show(str(path))

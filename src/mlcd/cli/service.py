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


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.", envvar="MLCD_HOST")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port.", envvar="MLCD_PORT", min=1, max=65535)] = 8080,
    workers: Annotated[int, typer.Option(help="Server processes.", min=1, max=64)] = 1,
    accounts: Annotated[
        bool | None,
        typer.Option(
            help="Whether people must sign in; by default, as soon as others can reach the address."
        ),
    ] = None,
    insecure: Annotated[bool, typer.Option(help="Serve the world without accounts.")] = False,
    public_url: Annotated[
        str, typer.Option(help="The address that people type, where a proxy stands before the server.")
    ] = "",
    proxies: Annotated[str, typer.Option(help="Whose X-Forwarded headers are believed.")] = "127.0.0.1",
    cloud: Annotated[
        list[str] | None,
        typer.Option(
            help="Let jobs run on this cloud only; may be repeated. With accounts, users run programs on this computer only where it is named."
        ),
    ] = None,
    upload_mib: Annotated[int, typer.Option(help="The largest upload, in MiB.", min=1)] = 1024,
    upload_quota_gib: Annotated[
        float, typer.Option(help="What one account's uploads may take of the disk, in GiB.", min=0)
    ] = 20.0,
    uploads_per_minute: Annotated[int, typer.Option(help="Uploads that an account may send.", min=1)] = 30,
    upload_days: Annotated[
        float, typer.Option(help="How long an upload stays that no job uses, in days.", min=1)
    ] = 7.0,
    posts_per_minute: Annotated[int, typer.Option(help="Changes that an account may ask for.", min=1)] = 120,
    oidc_issuer: Annotated[
        str,
        typer.Option(
            help="Let this identity provider sign people in; its client secret is in MLCD_OIDC_CLIENT_SECRET.",
            envvar="MLCD_OIDC_ISSUER",
        ),
    ] = "",
    oidc_client_id: Annotated[
        str, typer.Option(help="What the provider calls this server.", envvar="MLCD_OIDC_CLIENT_ID")
    ] = "mlcd",
    oidc_domain: Annotated[
        list[str] | None, typer.Option(help="Let in e-mail addresses of this domain only; may be repeated.")
    ] = None,
) -> None:
    """Serve mlcd to a team, or to yourself in a browser.

    Trainings are not children of the server: they go on when it ends, and it takes over what it finds.
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
    """Keep an API token of a server, so that `mlcd --server URL` needs no other.

    The token is asked for, or read from standard input; make one on the server's page *Team*.

    Examples:

        mlcd login https://mlcd.example.org
    """
    from mlcd.remote import RemoteClient, save_token

    asks = sys.stdin.isatty()
    token = (typer.prompt("API token", hide_input=True, err=True) if asks else sys.stdin.readline()).strip()
    if not token:
        raise UserError("That was no token.")
    who = RemoteClient(url, token).connection.get("/session")
    save_token(read_settings().home, url, token)
    show_json({"server": url, "name": who["name"]}) if json else show(
        f"Signed in as {who['name'] or 'anyone'}."
    )


def model(
    context: typer.Context,
    job: given.JobId,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it.")] = None,
    json: given.JsonFlag = False,
) -> None:
    """Write what a training handed back into one zip file.

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

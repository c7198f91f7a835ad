"""Templates, and how values are shown in them. Everything is escaped but what the report made as HTML."""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import cache
from typing import Any
from urllib.parse import quote

from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mlcd import __version__
from mlcd.core.units import show_duration, show_rate, show_usd
from mlcd.errors import MlcdError
from mlcd.reporting.html import Html
from mlcd.web.auth import Actor, find_actor, site_of
from mlcd.web.pages.assets import VERSION

TONES = {"succeeded": "good", "failed": "bad", "paused": "warn", "stopped": "warn"}


def page(request: Request, actor: Actor | None, template: str, status: int = 200, **values: Any) -> Response:
    """A whole page for whoever asks."""
    site = site_of(request)
    around = {
        "actor": actor,
        "csrf": actor.csrf if actor is not None else "",
        "accounts": site.serve.accounts,
        "path": request.url.path,
        "version": __version__,
    }
    return HTMLResponse(part(template, **around, **values), status)


def part(template: str, **values: Any) -> str:
    """A template filled in."""
    return templates().get_template(template).render(**values)


def error_page(request: Request, error: MlcdError, status: int) -> Response:
    """What went wrong as a page; whoever has not signed in is asked to."""
    site = site_of(request)
    if status == 401:
        back = quote(request.url.path, safe="/")
        first = site.accounts.count() == 0
        return RedirectResponse("/setup" if first else f"/login?next={back}", 303)
    actor = find_actor(request, site) if status < 500 else None
    return page(request, actor, "error.html", status, error=error, code=status)


@cache
def templates() -> Environment:
    """All templates; a name that is missing is an error and not an empty text."""
    environment = Environment(
        loader=PackageLoader("mlcd.web.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "usd": show_usd,
        "duration": show_duration,
        "rate": show_rate,
        "moment": moment,
        "size": size,
        "price_age": price_age,
        "html": html,
    }
    environment.globals |= {"static": f"/static/{VERSION}", "tones": TONES}
    return environment


def html(made: Html) -> Markup:
    """What the report's own functions made, which escape every text; anything else is escaped here."""
    return Markup(made) if isinstance(made, Html) else escape(made)  # noqa: S704  # escaped by its maker


def moment(at: float) -> Markup:
    """A moment for everyone: the browser shows it in its own zone."""
    text = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return Markup('<time datetime="{}">{}</time>').format(f"{at:.0f}", text)


def price_age(priced_at: str) -> str:
    """A price's date with its age; a price without a date is asked for at this moment."""
    try:
        days = (datetime.now(UTC).date() - date.fromisoformat(priced_at[:10])).days
    except ValueError:
        return priced_at or "now"
    return f"{priced_at} (today)" if days <= 0 else f"{priced_at} ({days} day{'' if days == 1 else 's'} old)"


def size(count: float) -> str:
    """'1.5 MB'."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count:.0f} bytes"

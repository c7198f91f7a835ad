"""HTML pages, drawn on the server; a little JavaScript keeps them live and sends what people enter to the API.

    rendering.py   templates, and how values are shown in them; everything is escaped
    assets.py      scripts, styles and the icon, under an address that changes with their content
    lists.py       jobs, models, offers, history
    job.py         one job, live
    parts.py       the pieces of a job's page that change, drawn once for all who look at it
    charts.py      its charts as data, reckoned once for all who look at it
    new.py         a new job in FC²'s four steps, and its price; examples.py has programs to begin with
    people.py      signing in, the first account, the team

State-changing requests go to /api/v1 by `fetch` with the CSRF token that the page carries in its head.
"""

from __future__ import annotations

from fastapi import APIRouter

from mlcd.web.pages import assets, job, lists, new, people


def routers() -> list[APIRouter]:
    """The routers of all pages."""
    return [assets.router, lists.router, job.router, new.router, people.router]

"""Single sign-on: away to the identity provider, and back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from mlcd.errors import NotAllowedError
from mlcd.web.api.common import address_of
from mlcd.web.auth import SiteOf
from mlcd.web.oidc import COOKIE, SECONDS, arrive, depart
from mlcd.web.rate_limit import network_of
from mlcd.web.sessions import inside, open_session

router = APIRouter(tags=["accounts"])

Word = Annotated[str, Query(max_length=4000)]


@router.get("/sso", status_code=303, responses={303: {"description": "Away to the identity provider."}})
def leave(site: SiteOf, request: Request, to: Annotated[str, Query(alias="next", max_length=500)] = "") -> Response:
    """Begin to sign in with the identity provider; `next` is the page to come back to."""
    site.logins.take(f"from {network_of(address_of(request))}")
    departure = depart(site, inside(to))
    response = RedirectResponse(departure.url, 303)
    response.set_cookie(
        COOKIE, departure.cookie, max_age=SECONDS, httponly=True, secure=site.serve.secure, samesite="lax"
    )
    return response


@router.get("/sso/callback", status_code=303, responses={303: {"description": "Signed in; on to the pages."}})
def come_back(site: SiteOf, request: Request, state: Word = "", code: Word = "", error: Word = "") -> Response:
    """Come back from the identity provider."""
    site.logins.take(f"from {network_of(address_of(request))}")
    if error:
        raise NotAllowedError("The identity provider did not let you in.", "Try again.")
    account, to = arrive(site, request.cookies.get(COOKIE, ""), state, code)
    response = RedirectResponse(to, 303)
    open_session(site, account, response)
    response.delete_cookie(COOKIE)
    return response

"""Secrets for jobs: written, replaced and forgotten, never read back."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field
from starlette.responses import Response

from mlcd.web.api.common import gives, list_of
from mlcd.web.auth import Editor, SignedIn, SiteOf
from mlcd.web.serialize import answer
from mlcd.web.submission import Body

router = APIRouter(tags=["secrets"])

Name = Annotated[str, Path(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]


class Value(Body):
    """What it is."""

    value: str = Field(min_length=1, max_length=65536)


class SecretName(BaseModel):
    """A secret by its name."""

    name: str
    set_at: float


@router.get("/secrets", responses=gives(list_of(SecretName)))
def names(site: SiteOf, actor: SignedIn) -> Response:
    """The names of your secrets; a job that names one gets its value."""
    kept = site.service.secrets(actor.name)
    return answer({"items": [{"name": name, "set_at": at} for name, at in kept.items()]})


@router.put("/secrets/{name}", status_code=204)
def put(name: Name, sent: Value, site: SiteOf, actor: Editor) -> Response:
    """Set a secret."""
    site.service.put_secret(actor.name, name, site.vault.seal(sent.value), time.time())
    site.note(actor.name, "secret set", name)
    return Response(status_code=204)


@router.delete("/secrets/{name}", status_code=204)
def forget(name: Name, site: SiteOf, actor: Editor) -> Response:
    """Delete a secret."""
    site.service.drop_secret(actor.name, name)
    site.note(actor.name, "secret forgotten", name)
    return Response(status_code=204)

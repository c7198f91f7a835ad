"""What handlers share: parameters of lists, and the job that a path names."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, create_model

from mlcd.web.auth import Editor, SignedIn, SiteOf, owners_of

Limit = Annotated[int, Query(ge=1, le=500, description="Items of a page.")]
Cursor = Annotated[str | None, Query(max_length=64, description="`next` of the previous page.")]
Number = Annotated[int, Query(ge=0, le=2**53)]
Reference = Annotated[str, Path(max_length=200, description="An id, a name, or the beginning of one id.")]


def _seen(job_id: Reference, site: SiteOf, actor: SignedIn) -> str:
    return site.job(owners_of(site, actor), job_id)


def _steered(job_id: Reference, site: SiteOf, actor: Editor) -> str:
    return site.job(owners_of(site, actor), job_id)


VisibleJob = Annotated[str, Depends(_seen)]  # the id of a job that whoever asks may see
EditableJob = Annotated[str, Depends(_steered)]  # and of one that they may steer


@cache
def list_of(item: type) -> type[BaseModel]:
    """The model of an answer with all items."""
    return create_model(f"{item.__name__}List", items=(list[item], ...))  # type: ignore[valid-type]  # made here


@cache
def page_of(item: type) -> type[BaseModel]:
    """The model of an answer with some items; `next` is the `cursor` of the next page."""
    return create_model(f"{item.__name__}Page", __base__=list_of(item), next=(str | None, ...))


def gives(model: Any, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """What a handler answers, for the OpenAPI document; serialize encodes the answer itself."""
    return {status: {"model": model}}


def address_of(request: Request) -> str:
    """Where a request comes from."""
    return request.client.host if request.client else ""

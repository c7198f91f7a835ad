"""Idempotency keys: the same key and body give the same answer and never a second job.

The key and the id of what is about to be made are written down before anything is made. If the server is
killed in between, the next request with that key makes the same thing under the same id, and finds it there
if it had been made already.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Request
from starlette.responses import Response

from mlcd.errors import MlcdError, StoreError, UserError
from mlcd.web.auth import SignedIn, SiteOf
from mlcd.web.faults import answer_of
from mlcd.web.site import Site

REPLAYED = "Idempotency-Replayed"
KEPT_SECONDS = 7 * 86400.0


@dataclass(frozen=True)
class IdempotentRequest:
    """One POST, carried out once."""

    site: Site
    account: str
    key: str  # empty: the caller gave none
    digest: str

    def answer(self, act: Callable[[str], Response], private: bool = False) -> Response:
        """The answer of the act, which gets a random text to make ids of; a private one is stored sealed."""
        if not self.key:
            return act(secrets.token_hex(8))
        service = self.site.service
        kept = service.open_request(self.account, self.key, self.digest, secrets.token_hex(8), time.time())
        if kept.digest != self.digest:
            raise UserError("This idempotency key was used for another request.", "Take a new key.")
        if kept.status is None or kept.answer is None:
            answer = _answer(act, kept.reserved)
            text = bytes(answer.body).decode()
            service.answer_request(
                self.account,
                self.key,
                answer.status_code,
                self.site.vault.seal(text) if private and answer.status_code < 400 else text,
            )
            return answer
        text = self.site.vault.open(kept.answer) if private and kept.status < 400 else kept.answer
        return Response(text, kept.status, {REPLAYED: "true"}, media_type="application/json")


def _answer(act: Callable[[str], Response], reserved: str) -> Response:
    """What the act answers; a refusal is an answer too, but not that the database is away."""
    try:
        return act(reserved)
    except StoreError:
        raise
    except MlcdError as error:
        return answer_of(error)


async def _idempotent_request(
    request: Request,
    actor: SignedIn,
    site: SiteOf,
    idempotency_key: Annotated[str, Header(max_length=200, pattern=r"^[!-~]*$")] = "",
) -> IdempotentRequest:
    body = await request.body()
    head = f"{request.method} {request.url.path}?{request.url.query}\n".encode()
    return IdempotentRequest(site, actor.name, idempotency_key, hashlib.sha256(head + body).hexdigest())


Idempotent = Annotated[IdempotentRequest, Depends(_idempotent_request)]

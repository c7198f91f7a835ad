"""What the API is made to refuse: capacity, too many requests, permissions."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field

from mlcd_emulate.api.request import ApiRequest
from mlcd_emulate.api.response import ApiError

EVERYTHING = "all"


@dataclass
class ApiFaults:
    """The refusals in force; safe to change while requests come in."""

    full: set[str] = field(default_factory=set)  # a type, a zone, or type/zone
    throttled: dict[str, float] = field(default_factory=dict)  # action or 'all' → share of requests
    denied: set[str] = field(default_factory=set)  # actions, or 'all'
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _chance: random.Random = field(default_factory=lambda: random.Random(0), repr=False)  # noqa: S311  not a secret

    def has_capacity(self, instance_type: str, zone: str) -> bool:
        """Whether machines of this type are to be had in this zone."""
        return not self.full & {instance_type, zone, f"{instance_type}/{zone}"}

    def refuse(self, request: ApiRequest) -> None:
        """Raise the refusal that this request meets, if any."""
        if self.denied & {request.action, request.name, EVERYTHING}:
            raise _denial(request)
        share = max(self.throttled.get(name, 0.0) for name in (request.action, request.name, EVERYTHING))
        with self._lock:
            unlucky = self._chance.random() < share
        if unlucky:
            raise _throttling(request)

    def set_throttling(self, action: str, share: float) -> None:
        """Refuse this share of the requests for an action; 0 lifts it."""
        self.throttled = {**self.throttled, action: share}

    def set_full(self, what: str, on: bool) -> None:
        """Let a type, a zone or a type in a zone be sold out, or not."""
        self.full = self.full | {what} if on else self.full - {what}

    def set_denied(self, action: str, on: bool) -> None:
        """Let the account lack a permission, or not."""
        self.denied = self.denied | {action} if on else self.denied - {action}


def _throttling(request: ApiRequest) -> ApiError:
    if request.service == "ec2":
        return ApiError("RequestLimitExceeded", "Request limit exceeded.", 503)
    if request.service == "s3":
        return ApiError("SlowDown", "Please reduce your request rate.", 503)
    return ApiError("ThrottlingException", "Rate exceeded")


def _denial(request: ApiRequest) -> ApiError:
    if request.service == "ec2":
        return ApiError(
            "UnauthorizedOperation", f"You are not authorized to perform this operation: {request.name}.", 403
        )
    code = "AccessDenied" if request.service in ("s3", "sts") else "AccessDeniedException"
    return ApiError(code, f"User is not authorized to perform: {request.name}", 403)

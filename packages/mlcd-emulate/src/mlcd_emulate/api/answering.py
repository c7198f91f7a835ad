"""Answers and errors, in the protocol of the service that was asked."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape

from werkzeug.wrappers import Response

from mlcd.errors import CloudError
from mlcd_emulate.api.asking import Asked

_NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


class Refusal(CloudError):
    """AWS says no, with a code that programs read."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


def ec2_answer(asked: Asked, content: Mapping[str, Any]) -> Response:
    """EC2's XML: lists are items, names as the API's reference writes them on the wire."""
    name = f"{asked.action}Response"
    body = f'<{name} xmlns="{_NAMESPACE}"><requestId>{uuid.uuid4()}</requestId>{_xml(content)}</{name}>'
    return Response(body, mimetype="text/xml")


def json_answer(content: Mapping[str, Any]) -> Response:
    """The JSON protocol's."""
    return Response(json.dumps(content), mimetype="application/x-amz-json-1.1")


def error_answer(asked: Asked, refusal: Refusal) -> Response:
    """A refusal as this service would write it."""
    if asked.document or asked.service in ("pricing", "servicequotas", "ssm"):
        body = json.dumps({"__type": refusal.code, "message": refusal.message})
        return Response(body, refusal.status, mimetype="application/x-amz-json-1.1")
    error = f"<Code>{refusal.code}</Code><Message>{escape(refusal.message)}</Message>"
    return Response(_error_xml(asked.service, error), refusal.status, mimetype="text/xml")


def _error_xml(service: str, error: str) -> str:
    if service == "ec2":
        return f"<Response><Errors><Error>{error}</Error></Errors><RequestID>{uuid.uuid4()}</RequestID></Response>"
    if service == "s3":
        return f"<Error>{error}<RequestId>{uuid.uuid4()}</RequestId></Error>"
    return f"<ErrorResponse><Error><Type>Sender</Type>{error}</Error><RequestId>{uuid.uuid4()}</RequestId></ErrorResponse>"


def _xml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "".join(f"<{key}>{_xml(each)}</{key}>" for key, each in value.items() if each is not None)
    if isinstance(value, list):
        return "".join(f"<item>{_xml(each)}</item>" for each in value)
    return escape(str(value).lower() if isinstance(value, bool) else str(value))

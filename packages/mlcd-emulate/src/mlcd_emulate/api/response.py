"""Responses and errors, in the protocol of the service that was called."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape

from werkzeug.wrappers import Response

from mlcd.errors import CloudError
from mlcd_emulate.api.request import ApiRequest

_NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


class ApiError(CloudError):
    """AWS says no, with a code that programs read."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


def ec2_response(request: ApiRequest, content: Mapping[str, Any]) -> Response:
    """EC2's XML: lists are items, names as the API's reference writes them on the wire."""
    name = f"{request.action}Response"
    body = f'<{name} xmlns="{_NAMESPACE}"><requestId>{uuid.uuid4()}</requestId>{_xml(content)}</{name}>'
    return Response(body, mimetype="text/xml")


def json_response(content: Mapping[str, Any]) -> Response:
    """The JSON protocol's."""
    return Response(json.dumps(content), mimetype="application/x-amz-json-1.1")


def error_response(request: ApiRequest, error: ApiError) -> Response:
    """An error as this service would write it."""
    if request.document or request.service in ("pricing", "servicequotas", "ssm"):
        body = json.dumps({"__type": error.code, "message": error.message})
        return Response(body, error.status, mimetype="application/x-amz-json-1.1")
    content = f"<Code>{error.code}</Code><Message>{escape(error.message)}</Message>"
    return Response(_error_xml(request.service, content), error.status, mimetype="text/xml")


def _error_xml(service: str, content: str) -> str:
    if service == "ec2":
        return f"<Response><Errors><Error>{content}</Error></Errors><RequestID>{uuid.uuid4()}</RequestID></Response>"
    if service == "s3":
        return f"<Error>{content}<RequestId>{uuid.uuid4()}</RequestId></Error>"
    return f"<ErrorResponse><Error><Type>Sender</Type>{content}</Error><RequestId>{uuid.uuid4()}</RequestId></ErrorResponse>"


def _xml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "".join(f"<{key}>{_xml(each)}</{key}>" for key, each in value.items() if each is not None)
    if isinstance(value, list):
        return "".join(f"<item>{_xml(each)}</item>" for each in value)
    return escape(str(value).lower() if isinstance(value, bool) else str(value))

"""What a request to AWS asks for."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

_SCOPE = re.compile(r"Credential=([^/,\s]+)/\d{8}/([^/]+)/([^/]+)/aws4_request")


@dataclass(frozen=True)
class ApiRequest:
    """One request: whose, of which service, and for what."""

    access_key_id: str
    region: str
    service: str  # as in the signature: ec2, s3, sts, pricing, servicequotas, ssm
    action: str
    parameters: Mapping[str, str] = field(default_factory=dict)  # of the query protocols
    document: Mapping[str, Any] = field(default_factory=dict)  # of the JSON protocol

    @property
    def name(self) -> str:
        """As permissions name it: ec2:RunInstances."""
        return f"{self.service}:{self.action}"

    def listed(self, prefix: str) -> list[str]:
        """The values of 'prefix.1', 'prefix.2' …"""
        return [self.parameters[key] for key in _numbered(self.parameters, prefix)]

    def filters(self) -> dict[str, list[str]]:
        """The filters of a Describe call."""
        count = len({key.split(".")[1] for key in self.parameters if key.startswith("Filter.")})
        return {
            self.parameters[f"Filter.{number}.Name"]: self.listed(f"Filter.{number}.Value")
            for number in range(1, count + 1)
        }

    def tags(self, kind: str) -> dict[str, str]:
        """The tags that a thing of this kind is to get."""
        found: dict[str, str] = {}
        for number in range(1, 100):
            if self.parameters.get(f"TagSpecification.{number}.ResourceType") == kind:
                keys = self.parameters_below(f"TagSpecification.{number}.Tag")
                found |= {each["Key"]: each.get("Value", "") for each in keys}
        return found

    def parameters_below(self, prefix: str) -> list[dict[str, str]]:
        """'prefix.1.Key', 'prefix.1.Value', … as one dictionary for each number."""
        found: dict[int, dict[str, str]] = {}
        for key, value in self.parameters.items():
            rest = key.removeprefix(f"{prefix}.").split(".")
            if key.startswith(f"{prefix}.") and len(rest) == 2 and rest[0].isdigit():
                found.setdefault(int(rest[0]), {})[rest[1]] = value
        return [found[number] for number in sorted(found)]


def read_request(environ: dict[str, Any]) -> ApiRequest:
    """What the request asks for; its body can still be read afterwards."""
    found = _SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
    key, region, service = found.groups() if found else ("", "us-east-1", "")
    if service in ("", "s3"):  # an object may be large, and moto reads it
        return ApiRequest(key, region, service or "s3", environ.get("REQUEST_METHOD", "GET"))
    body = _body(environ)
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    if target:
        return ApiRequest(key, region, service, target.rpartition(".")[2], document=_document(body))
    parameters = dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))
    return ApiRequest(key, region, service, parameters.get("Action", ""), parameters)


def _body(environ: dict[str, Any]) -> bytes:
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _document(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _numbered(parameters: Mapping[str, str], prefix: str) -> list[str]:
    matching = [key for key in parameters if re.fullmatch(rf"{re.escape(prefix)}\.\d+", key)]
    return sorted(matching, key=lambda key: int(key.rpartition(".")[2]))

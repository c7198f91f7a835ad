"""Service quotas: how many vCPUs an account may run, by kind of instance and by market."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from werkzeug.wrappers import Response

from mlcd_emulate.api.account import ACCOUNT_ID, facts_of
from mlcd_emulate.api.request import ApiRequest
from mlcd_emulate.api.response import ApiError, json_response
from mlcd_emulate.scale import vcpus_of

_STANDARD = ("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z")
_KINDS = {**dict.fromkeys(_STANDARD, "standard"), "g": "g", "vt": "g", "p": "p"}
_QUOTAS = {  # kind, spot → code, name
    ("standard", False): ("L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"),
    ("g", False): ("L-DB2E81BA", "Running On-Demand G and VT instances"),
    ("p", False): ("L-417A185B", "Running On-Demand P instances"),
    ("standard", True): ("L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"),
    ("g", True): ("L-3819A6DF", "All G and VT Spot Instance Requests"),
    ("p", True): ("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"),
}


@dataclass(frozen=True)
class Quotas:
    """What the account may run; only standard instances boot here, for no host has a GPU."""

    standard_vcpus: int

    def allowed(self, instance_type: str, spot: bool, running: Iterable[Any]) -> int:
        """How many more of this type the account may run in this market."""
        kind = _kind(instance_type)
        same = [each for each in running if _kind(each.instance_type) == kind and _is_spot(each) == spot]
        return max(0, self._limit(kind) - vcpus_in(same)) // vcpus_of(facts_of(instance_type) or {})

    def room(self, instance_type: str, running: Iterable[Any]) -> int:
        """How many more of this type the computer can bear."""
        return max(0, self.standard_vcpus - vcpus_in(running)) // vcpus_of(facts_of(instance_type) or {})

    def limit(self, instance_type: str) -> int:
        """The vCPUs that all instances of this kind may have together."""
        return self._limit(_kind(instance_type))

    def get(self, request: ApiRequest) -> Response:
        """GetServiceQuota."""
        for quota in self._all(request):
            if quota["QuotaCode"] == request.document.get("QuotaCode"):
                return json_response({"Quota": quota})
        raise ApiError("NoSuchResourceException", "The request failed because the specified quota does not exist.")

    def list_all(self, request: ApiRequest) -> Response:
        """ListServiceQuotas and ListAWSDefaultServiceQuotas."""
        return json_response({"Quotas": self._all(request)})

    def _limit(self, kind: str) -> int:
        return self.standard_vcpus if kind == "standard" else 0

    def _all(self, request: ApiRequest) -> list[Mapping[str, Any]]:
        if request.document.get("ServiceCode") != "ec2":
            raise ApiError("NoSuchResourceException", "The emulated EC2 has quotas of the service ec2 only.")
        return [
            {
                "ServiceCode": "ec2",
                "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
                "QuotaArn": f"arn:aws:servicequotas:{request.region}:{ACCOUNT_ID}:ec2/{code}",
                "QuotaCode": code,
                "QuotaName": name,
                "Value": float(self._limit(kind)),
                "Unit": "None",
                "Adjustable": True,
                "GlobalQuota": False,
            }
            for (kind, _), (code, name) in _QUOTAS.items()
        ]


def vcpus_in(instances: Iterable[Any]) -> int:
    """The vCPUs of instances together."""
    return sum(vcpus_of(facts_of(each.instance_type) or {}) for each in instances)


def _kind(instance_type: str) -> str:
    letters = re.match(r"[a-z]+", instance_type)
    return _KINDS.get(letters[0] if letters else "", "other")


def _is_spot(instance: Any) -> bool:
    return bool(instance.lifecycle == "spot")

"""Placement groups, which moto does not know."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from werkzeug.wrappers import Response

from mlcd_emulate.api.account import ACCOUNT_ID, Account
from mlcd_emulate.api.request import ApiRequest
from mlcd_emulate.api.response import ApiError, ec2_response

_STRATEGIES = ("cluster", "partition", "spread")


@dataclass(frozen=True)
class Group:
    """A placement group of one region."""

    name: str
    region: str
    strategy: str
    id: str
    tags: Mapping[str, str] = field(default_factory=dict)

    def matches(self, filters: Mapping[str, list[str]]) -> bool:
        """Whether a Describe call asks for it."""
        known = {
            "group-name": self.name,
            "strategy": self.strategy,
            "state": "available",
            "group-id": self.id,
        }
        known |= {f"tag:{key}": value for key, value in self.tags.items()}
        return all(
            bool(set(wanted) & set(self.tags)) if name == "tag-key" else known.get(name) in wanted
            for name, wanted in filters.items()
        )

    def on_the_wire(self) -> dict[str, Any]:
        """As EC2 tells it."""
        return {
            "groupName": self.name,
            "groupId": self.id,
            "state": "available",
            "strategy": self.strategy,
            "groupArn": f"arn:aws:ec2:{self.region}:{ACCOUNT_ID}:placement-group/{self.name}",
            "tagSet": [{"key": key, "value": value} for key, value in self.tags.items()],
        }


class PlacementGroups:
    """The groups of all regions."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._groups: dict[tuple[str, str], Group] = {}

    def require(self, region: str, name: str) -> Group:
        """The group called so."""
        if (region, name) not in self._groups:
            raise ApiError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
        return self._groups[region, name]

    def create(self, request: ApiRequest) -> Response:
        """CreatePlacementGroup."""
        _refuse_dry_run(request)
        name, strategy = (
            request.parameters.get("GroupName", ""),
            request.parameters.get("Strategy", "cluster"),
        )
        if not name:
            raise ApiError("MissingParameter", "The request must contain the parameter GroupName")
        if strategy not in _STRATEGIES:
            raise ApiError("InvalidParameterValue", f"Value ({strategy}) for parameter strategy is invalid.")
        if (request.region, name) in self._groups:
            raise ApiError("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
        group = Group(name, request.region, strategy, f"pg-{secrets.token_hex(8)}1", request.tags("placement-group"))
        self._groups[request.region, name] = group
        return ec2_response(request, {"return": True, "placementGroup": group.on_the_wire()})

    def describe(self, request: ApiRequest) -> Response:
        """DescribePlacementGroups."""
        named, ids, filters = request.listed("GroupName"), request.listed("GroupId"), request.filters()
        for name in named:
            self.require(request.region, name)
        found = [
            group.on_the_wire()
            for group in self._groups.values()
            if group.region == request.region
            and (not named or group.name in named)
            and (not ids or group.id in ids)
            and group.matches(filters)
        ]
        return ec2_response(request, {"placementGroupSet": found})

    def delete(self, request: ApiRequest) -> Response:
        """DeletePlacementGroup."""
        _refuse_dry_run(request)
        group = self.require(request.region, request.parameters.get("GroupName", ""))
        if any(each.placement.group_name == group.name for each in self._account.alive()):
            raise ApiError(
                "InvalidPlacementGroup.InUse",
                f"The placement group '{group.name}' is in use and may not be deleted.",
            )
        del self._groups[request.region, group.name]
        return ec2_response(request, {"return": True})


def _refuse_dry_run(request: ApiRequest) -> None:
    if request.parameters.get("DryRun") == "true":
        raise ApiError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)

"""Placement groups, which moto does not know."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from werkzeug.wrappers import Response

from mlcd_emulate.api.answering import Refusal, ec2_answer
from mlcd_emulate.api.asking import Asked
from mlcd_emulate.api.world import ACCOUNT, World

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
            "groupArn": f"arn:aws:ec2:{self.region}:{ACCOUNT}:placement-group/{self.name}",
            "tagSet": [{"key": key, "value": value} for key, value in self.tags.items()],
        }


class PlacementGroups:
    """The groups of all regions."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._groups: dict[tuple[str, str], Group] = {}

    def require(self, region: str, name: str) -> Group:
        """The group called so."""
        if (region, name) not in self._groups:
            raise Refusal("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
        return self._groups[region, name]

    def create(self, asked: Asked) -> Response:
        """CreatePlacementGroup."""
        _refuse_dry_run(asked)
        name, strategy = asked.parameters.get("GroupName", ""), asked.parameters.get("Strategy", "cluster")
        if not name:
            raise Refusal("MissingParameter", "The request must contain the parameter GroupName")
        if strategy not in _STRATEGIES:
            raise Refusal("InvalidParameterValue", f"Value ({strategy}) for parameter strategy is invalid.")
        if (asked.region, name) in self._groups:
            raise Refusal("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
        group = Group(
            name, asked.region, strategy, f"pg-{secrets.token_hex(8)}1", asked.tags("placement-group")
        )
        self._groups[asked.region, name] = group
        return ec2_answer(asked, {"return": True, "placementGroup": group.on_the_wire()})

    def describe(self, asked: Asked) -> Response:
        """DescribePlacementGroups."""
        named, ids, filters = asked.listed("GroupName"), asked.listed("GroupId"), asked.filters()
        for name in named:
            self.require(asked.region, name)
        found = [
            group.on_the_wire()
            for group in self._groups.values()
            if group.region == asked.region
            and (not named or group.name in named)
            and (not ids or group.id in ids)
            and group.matches(filters)
        ]
        return ec2_answer(asked, {"placementGroupSet": found})

    def delete(self, asked: Asked) -> Response:
        """DeletePlacementGroup."""
        _refuse_dry_run(asked)
        group = self.require(asked.region, asked.parameters.get("GroupName", ""))
        if any(each.placement.group_name == group.name for each in self._world.alive()):
            raise Refusal(
                "InvalidPlacementGroup.InUse",
                f"The placement group '{group.name}' is in use and may not be deleted.",
            )
        del self._groups[asked.region, group.name]
        return ec2_answer(asked, {"return": True})


def _refuse_dry_run(asked: Asked) -> None:
    if asked.parameters.get("DryRun") == "true":
        raise Refusal("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)

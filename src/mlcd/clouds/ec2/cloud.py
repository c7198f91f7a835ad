"""Amazon EC2: sells what the account may rent, and finds by tag whatever it rented."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from mlcd.clouds.ec2.account import Account
from mlcd.clouds.ec2.billing import charges
from mlcd.clouds.ec2.errors import code_of, translated
from mlcd.clouds.ec2.machines import ALIVE, JOB, LEASE, TASK, Ec2Machines
from mlcd.clouds.ec2.offers import make_offers
from mlcd.clouds.ec2.prices import SpotHistory, known_history, spot_history
from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.clouds.remote.cloud import RemoteCloud
from mlcd.clouds.remote.files import Spec, State
from mlcd.core.machines import Deployment, Offer
from mlcd.core.study import ProbeTime
from mlcd.core.task import Charge, Owned, main_task
from mlcd.errors import MlcdError, NoCapacityError
from mlcd.settings import Settings

PROGRAM_START_SECONDS = 10.0  # importing a framework and reading the data, until a probe has shown it
ASK_AGAIN_SECONDS = 60.0


class Ec2Cloud(RemoteCloud):
    """EC2. See mlcd.clouds.base.Cloud for what it promises."""

    name = "ec2"
    poll_seconds = 0.5
    provider = "mlcd.clouds.ec2.machines:open_machines"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.home)
        self._settings = settings.of(Ec2Settings)
        self._account = Account(self._settings)
        self._ask_again_at = 0.0  # for spot prices, once AWS could not be asked

    def offers(self) -> Sequence[Offer]:
        """On demand and spot, in every region of the settings."""
        return make_offers(self._account, self._settings, self.home / "prices", self.clock.now())

    def expected_probe(self, measuring_seconds: float) -> ProbeTime:
        """Booting, the program's start, and the measuring; more machines take a little longer to gather."""
        first = self._settings.start_seconds + PROGRAM_START_SECONDS + measuring_seconds
        return ProbeTime(first, step_seconds=5.0, nodes_per_step=3)

    def owned(self) -> Iterable[Owned]:
        """Every task that has an instance, in every region that the account uses."""
        regions = self._account.enabled_regions()
        with ThreadPoolExecutor(8) as pool:
            found = [one for ones in pool.map(self._tagged, regions) for one in ones]
        tasks: dict[str, list[dict[str, Any]]] = {}
        for one in found:
            tasks.setdefault(_tag(one, TASK), []).append(one)
        rented = [self._owned(task, ones) for task, ones in sorted(tasks.items())]
        return rented + [owned for owned in self.starting() if owned.handle not in tasks]

    def charges(self, spec: Spec, state: State, now: float) -> tuple[Charge, ...]:
        """Machines, minimum, disk, addresses, data."""
        disk_gib = float(spec.options["settings"]["disk_gib"])
        return charges(spec, state, now, disk_gib, self._spot_history(spec, state, now))

    def _spot_history(self, spec: Spec, state: State, now: float) -> SpotHistory | None:
        """How the price of the task's spot machines went, as far as it is known; None: they have none, or it is not."""
        offer, cache = spec.deployment.offer, self.home / "prices"
        if not offer.spot or not state.machines:
            return None
        since = min(machine.billed_from for machine in state.machines)
        try:
            if self.clock.now() >= self._ask_again_at:
                return spot_history(self._account, offer.region, offer.instance.name, cache, since, now)
        except MlcdError:
            self._ask_again_at = self.clock.now() + ASK_AGAIN_SECONDS
        # AWS cannot be asked: the bill goes on by what was heard last, or at the price that the machines were rented at.
        return known_history(offer.region, offer.instance.name, cache)

    def machines(self) -> Ec2Machines:
        """The provider, in every region that the account uses."""
        return Ec2Machines(self.home, self._settings, self._account.enabled_regions())

    def options(self, deployment: Deployment) -> dict[str, Any]:
        """The settings and the region; the credentials come by AWS's own way."""
        return {"settings": asdict(self._settings), "region": deployment.offer.region}

    def refuse(self, deployment: Deployment) -> None:
        """Do not ask for what the quota was known to forbid."""
        beyond = deployment.too_large
        if beyond is not None:
            raise NoCapacityError(
                f"The account may have {beyond.offer.max_nodes} × {beyond.offer.name}, not {deployment.machines}.",
                "Ask for more in the Service Quotas console.",
            )

    def _owned(self, task: str, ones: list[dict[str, Any]]) -> Owned:
        since = min(one["LaunchTime"].timestamp() for one in ones)
        what = _tag(ones[0], "mlcd:deployment") or f"{len(ones)} × {ones[0]['InstanceType']}"
        leases = [float(lease) for one in ones if (lease := _tag(one, LEASE)).isdigit()]
        return Owned(
            task,
            main_task(task),
            _tag(ones[0], JOB),
            what,
            since,
            leased_until=max(leases, default=None),
            kept_until=self.warm_until(task, {one["InstanceId"] for one in ones}),
        )

    def _tagged(self, region: str) -> list[dict[str, Any]]:
        only = [
            {"Name": "tag-key", "Values": [TASK]},
            {"Name": "instance-state-name", "Values": ALIVE},
        ]
        try:
            with translated(f"list the instances of {region}"):
                client = self._account.client("ec2", region)
                pages = client.get_paginator("describe_instances").paginate(Filters=only)
                return [one for page in pages for group in page["Reservations"] for one in group["Instances"]]
        except MlcdError as error:
            if code_of(error) in ("OptInRequired", "AuthFailure") and region not in self._account.regions:
                return []  # a region that the account has not switched on
            raise


def _tag(one: dict[str, Any], key: str) -> str:
    return next((str(tag["Value"]) for tag in one.get("Tags", ()) if tag["Key"] == key), "")

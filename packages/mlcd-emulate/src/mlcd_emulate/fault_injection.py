"""Faults on demand, of hosts and of the API."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import UnknownServiceError
from botocore.session import get_session

from mlcd.errors import MlcdError, NotFoundError, UserError, did_you_mean
from mlcd_emulate.api.account import facts_of
from mlcd_emulate.api.faults import EVERYTHING, ApiFaults
from mlcd_emulate.machine import Machine
from mlcd_emulate.reconciler import Reconciler

NOTICE_S = 120.0
OFF = "off"
_BOTO_NAMES = {"servicequotas": "service-quotas"}  # signed so, but called so by boto3


@dataclass(frozen=True)
class Fault:
    """What is to fail: a host, a type or zone, or an action of the API."""

    kind: str
    target: str
    value: str = ""  # how much; 'off' lifts it

    @property
    def lifted(self) -> bool:
        """Whether it is to be undone."""
        return self.value == OFF

    def number(self, default: float, least: float, most: float) -> float:
        """How much, within sensible limits."""
        try:
            found = float(self.value or default)
        except ValueError:
            raise UserError(
                f"'{self.value}' is not a number.", f"A {self.kind} is {least:g} to {most:g}, or off."
            ) from None
        if not least <= found <= most:
            raise UserError(f"A {self.kind} of {found:g} makes no sense.", f"It is {least:g} to {most:g}, or off.")
        return found


class FaultInjector:
    """Makes hosts and the API fail."""

    def __init__(self, reconciler: Reconciler, faults: ApiFaults) -> None:
        self._reconciler, self._faults = reconciler, faults
        self._api_kinds: dict[str, Callable[[Fault], str]] = {
            "no-capacity": self._no_capacity,
            "throttle": self._throttle,
            "deny": self._deny,
        }

    @property
    def kinds(self) -> list[str]:
        """All faults, by name."""
        return [*_HOST_KINDS, *self._api_kinds]

    def control(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer the command: inject a fault, or give the status."""
        if "fault" not in request:
            return self.status()
        try:
            return {"done": self.inject(Fault(**request["fault"]))}
        except MlcdError as error:
            return {"error": error.message, "hint": error.hint, "missing": isinstance(error, NotFoundError)}

    def inject(self, fault: Fault) -> str:
        """Inject a fault; gives what was done, in words."""
        if fault.kind in self._api_kinds:
            return self._api_kinds[fault.kind](fault)
        if fault.kind not in _HOST_KINDS:
            raise UserError(f"There is no fault '{fault.kind}'.", did_you_mean(fault.kind, self.kinds))
        machine = self._machine(fault.target)
        done = _HOST_KINDS[fault.kind](machine, fault)
        machine.faults.pop(fault.kind, None)
        if not fault.lifted:
            machine.faults[fault.kind] = fault.value or "on"
        return done

    def status(self) -> dict[str, Any]:
        """The hosts, and the faults in force."""
        return {
            "hosts": [_host_status(each) for each in list(self._reconciler.machines.values())],
            "no_capacity": sorted(self._faults.full),
            "throttled": {name: share for name, share in self._faults.throttled.items() if share},
            "denied": sorted(self._faults.denied),
        }

    def _machine(self, target: str) -> Machine:
        machines = list(self._reconciler.machines.values())
        for machine in machines:
            if target in (machine.id, machine.address):
                return machine
        known = [each.id for each in machines] + [each.address for each in machines]
        raise NotFoundError(f"No host is called '{target}'.", did_you_mean(target, known) or "No host runs.")

    def _no_capacity(self, fault: Fault) -> str:
        for part in fault.target.split("/"):
            if facts_of(part) is None and not part[-2:-1].isdigit():
                raise NotFoundError(
                    f"'{part}' is neither an instance type nor a zone.",
                    "c5.large, us-east-1a, or c5.large/us-east-1a.",
                )
        self._faults.set_full(fault.target, not fault.lifted)
        return f"{fault.target} {'can be had again' if fault.lifted else 'is sold out'}"

    def _throttle(self, fault: Fault) -> str:
        _check_action(fault.target)
        share = 0.0 if fault.lifted else fault.number(1.0, 0.0, 1.0)
        self._faults.set_throttling(fault.target, share)
        return f"{share:.0%} of the requests for {fault.target} are refused"

    def _deny(self, fault: Fault) -> str:
        _check_action(fault.target)
        self._faults.set_denied(fault.target, not fault.lifted)
        return f"{fault.target} is {'allowed' if fault.lifted else 'denied'}"


def _check_action(name: str) -> None:
    """Refuse what AWS has no action for; S3's are its HTTP methods here."""
    service, _, action = name.rpartition(":")
    if name == EVERYTHING or service == "s3":
        return
    try:
        known = get_session().get_service_model(_BOTO_NAMES.get(service, service or "ec2")).operation_names
    except UnknownServiceError:
        raise NotFoundError(f"AWS has no service '{service}'.", "ec2:RunInstances, sts:GetCallerIdentity …") from None
    if action not in known:
        raise NotFoundError(f"AWS has no action '{action}'.", did_you_mean(action, known))


def _kill(machine: Machine, fault: Fault) -> str:
    return "nothing to lift" if fault.lifted else f"{machine.host.kill_sessions()} processes killed"


def _power_off(machine: Machine, fault: Fault) -> str:
    if fault.lifted:
        raise UserError(f"{machine.id} is gone for good.", "Launch another.")
    machine.host.power_off()
    return f"{machine.id} is without power"


def _cut(machine: Machine, fault: Fault) -> str:
    machine.host.link.connect(fault.lifted)
    return f"{machine.id} is {'connected' if fault.lifted else 'cut off'}"


def _slow(machine: Machine, fault: Fault) -> str:
    factor = 1.0 if fault.lifted else fault.number(4.0, 1.0, 1000.0)
    machine.slow_down(factor)
    return f"{machine.id} computes at 1/{factor:g} of its share"


def _loss(machine: Machine, fault: Fault) -> str:
    percent = 0.0 if fault.lifted else fault.number(10.0, 0.0, 100.0)
    machine.host.link.lose(percent)
    return f"{machine.id} loses {percent:g} % of its packets, each way"


def _fill_disk(machine: Machine, fault: Fault) -> str:
    machine.host.free_disk() if fault.lifted else machine.host.fill_disk()
    return f"the disk of {machine.id} is {'as it was' if fault.lifted else 'full'}"


def _spot_notice(machine: Machine, fault: Fault) -> str:
    if machine.instance.lifecycle != "spot":
        raise UserError(f"{machine.id} is no spot instance.", "Launch one with InstanceMarketOptions spot.")
    seconds = fault.number(NOTICE_S, 0.0, 86_400.0) if not fault.lifted else 0.0
    machine.reclaim_at = None if fault.lifted else time.time() + seconds
    return f"{machine.id} {'stays' if fault.lifted else f'is taken away in {seconds:g} s'}"


_HOST_KINDS: dict[str, Callable[[Machine, Fault], str]] = {
    "kill": _kill,
    "poweroff": _power_off,
    "cut": _cut,
    "slow": _slow,
    "loss": _loss,
    "fill-disk": _fill_disk,
    "spot-notice": _spot_notice,
}


def _host_status(machine: Machine) -> dict[str, Any]:
    instance, size = machine.instance, machine.host.spec.size
    return {
        "id": machine.id,
        "address": machine.address,
        "type": instance.instance_type,
        "zone": instance.availability_zone,
        "state": instance.state,
        "spot": instance.lifecycle == "spot",
        "cores": round(size.cores, 4),
        "memory_mib": size.memory_mib,
        "network_mbit": round(size.network_mbit, 2),
        "disk_mib": size.disk_mib,
        **_cpu(machine),
        "faults": dict(machine.faults),
    }


def _cpu(machine: Machine) -> dict[str, Any]:
    try:
        used_s, limited = machine.host.used_cpu_s(), machine.host.is_limited()
    except OSError:  # it is about to start, or to go
        used_s, limited = 0.0, False
    return {"cpu_used_s": round(used_s, 3), "cpu_limited": limited}

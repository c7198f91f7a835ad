"""The main process of an emulation, detached: the endpoint and the reconciler.

Started as `python -m mlcd_emulate.process --folder FOLDER …`; the folder in its command line is the mark by which
it is found. It is ready once the state file is there, and removes everything when it is asked to end.
"""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import signal
import sys
import threading
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlcd.errors import MlcdError
from mlcd_emulate.cgroups import open_cgroups
from mlcd_emulate.cleanup import remove_traces
from mlcd_emulate.emulation import Emulation, State, write_state
from mlcd_emulate.image import python_needs, write_image
from mlcd_emulate.network import gateway_of, make_switch
from mlcd_emulate.shares import Shares

if TYPE_CHECKING:
    from mlcd_emulate.reconciler import Reconciler

_NICENESS = -10  # hosts boot and end by this process: it must get its turn on a busy computer
_MOTO = {  # read by moto when it is imported
    "MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION": "true",
    "MOTO_ENABLE_AMI_VALIDATION": "true",
}


def main() -> int:
    """Run the emulation until SIGTERM or SIGINT; gives the exit code."""
    given = _arguments()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    os.environ.update(_MOTO)
    os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    emulation = Emulation(given.name, Path(given.folder))
    try:
        network = make_switch(emulation, IPv4Network(given.network) if given.network else None)
        write_image(emulation.folder / "image", python_needs())
        reconciler = _serve(emulation, network, given)
    except MlcdError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: reconciler.ending.set())
    reconciler.run()
    remove_traces(emulation)
    return 0


def _serve(emulation: Emulation, network: IPv4Network, given: Any) -> Reconciler:
    """Open the endpoint, and give the reconciler that is to run behind it."""
    from werkzeug.serving import make_server

    from mlcd_emulate.api.account import Account, sell_only
    from mlcd_emulate.api.endpoint import Endpoint, Keys
    from mlcd_emulate.api.faults import ApiFaults
    from mlcd_emulate.api.prices import types_for_sale
    from mlcd_emulate.api.quotas import Quotas
    from mlcd_emulate.fault_injection import FaultInjector
    from mlcd_emulate.metadata import QuietHandler
    from mlcd_emulate.reconciler import Reconciler

    sell_only(set(types_for_sale()))
    account, faults = Account(network), ApiFaults()
    keys = Keys(f"AKIAEMULATED{secrets.token_hex(4).upper()}", secrets.token_urlsafe(32))
    private = [Path(each) for each in given.private]
    reconciler = Reconciler(
        emulation,
        account,
        open_cgroups(emulation.cgroup),
        Shares(emulation.cgroup),
        given.vcpus_per_core,
        private,
        given.owner,
    )
    app = Endpoint(account, faults, Quotas(given.vcpus), keys, reconciler.console)
    app.open_region(given.region)
    app.control = FaultInjector(reconciler, faults).control
    server = make_server(str(gateway_of(network)), given.port, app, threaded=True, request_handler=QuietHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _publish(emulation, f"http://{gateway_of(network)}:{server.server_port}", network, keys, given)
    return reconciler


def _publish(emulation: Emulation, endpoint: str, network: IPv4Network, keys: Any, given: Any) -> None:
    state = State(
        name=emulation.name,
        pid=os.getpid(),
        endpoint=endpoint,
        network=str(network),
        region=given.region,
        access_key_id=keys.access_key_id,
        secret_access_key=secrets.token_urlsafe(30),
        control_key=keys.control_key,
        vcpus_per_core=given.vcpus_per_core,
        vcpu_quota=given.vcpus,
    )
    write_state(emulation, state)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--network", default="")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--region", required=True)
    parser.add_argument("--vcpus", type=int, required=True)
    parser.add_argument("--vcpus-per-core", type=float, required=True)
    parser.add_argument("--private", action="append", default=[])
    parser.add_argument("--owner", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

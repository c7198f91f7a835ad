"""Amazon EC2 as a cloud: on-demand and spot machines of the account's regions.

    cloud      offers, launch, status, stop, owned: on mlcd.clouds.remote
    account    clients of the regions; errors.py says what AWS's errors mean to the user
    offers     instance types × prices × quotas             kinds, prices, quotas
    machines   rents, finds and gives back, for the runner  ground (key, group, image), boot (user data)
    billing    what it all costs, itemised                   pure
    checking   `mlcd check aws`

Credentials, region and endpoint come from AWS's own chain (environment, ~/.aws, instance role); an emulated EC2
differs by its endpoint alone. Every machine carries the tags mlcd:job, mlcd:task and mlcd:lease.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mlcd.clouds.base import CloudPlugin
from mlcd.clouds.ec2.settings import Ec2Settings

if TYPE_CHECKING:
    from mlcd.clouds.base import Cloud
    from mlcd.core.view import Finding
    from mlcd.settings import Settings


def _open(settings: Settings, options: Mapping[str, str]) -> Cloud:
    from mlcd.clouds.ec2.cloud import Ec2Cloud

    return Ec2Cloud(settings)


def _check(settings: Settings) -> Iterable[Finding]:
    from mlcd.clouds.ec2.checking import check_account

    return check_account(settings.of(Ec2Settings), settings.home, time.time())


def _address(settings: Settings) -> str:
    """With AWS, unless AWS's own variables name another place, as those of an emulated EC2 do."""
    return os.environ.get("AWS_ENDPOINT_URL_EC2") or os.environ.get("AWS_ENDPOINT_URL") or "aws"


open_cloud = CloudPlugin(
    "ec2",
    _open,
    settings=Ec2Settings,
    check=_check,
    install="pip install 'mlcd[ec2]'",
    aliases=("aws",),
    address=_address,
    page="how-to/ec2.md",
)

"""Amazon EC2 as a cloud: on-demand and spot machines of the account's regions.

    cloud      offers, launch, status, stop, owned: on mlcd.clouds.remote
    account    clients of the regions; errors.py says what AWS's errors mean to the user
    offers     instance types × prices × quotas             kinds, prices, quotas
    machines   rents, finds and gives back, for the courier  ground (key, group, image), boot (user data)
    billing    what it all costs, itemised                   pure
    checking   `mlcd check aws`

Credentials, region and endpoint come from AWS's own chain (environment, ~/.aws, instance role); an emulated EC2
differs by its endpoint alone. Every machine carries the tags mlcd:job, mlcd:task and mlcd:lease.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlcd.clouds.base import Cloud
    from mlcd.settings import Settings


def open_cloud(settings: Settings, options: Mapping[str, str]) -> Cloud:
    """EC2 in the regions of the settings; it takes no options."""
    from mlcd.clouds.ec2.cloud import Ec2Cloud
    from mlcd.errors import UserError

    if options:
        raise UserError(f"The cloud ec2 has no option '{next(iter(options))}'.", "Leave the option out.")
    return Ec2Cloud(settings)

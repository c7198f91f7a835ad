"""What machines stand on, in a region: a key, a security group, placement groups, images, subnets.

Each is looked for first and made where it is missing; made twice, the second finds the first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlcd.clouds.ec2.account import Account
from mlcd.clouds.ec2.errors import code_of, translated
from mlcd.clouds.remote.ssh import make_key
from mlcd.core.machines import InstanceType
from mlcd.errors import MlcdError, UserError

GROUP = "mlcd"
ANYWHERE = "0.0.0.0/0"
OURS = [{"Key": "mlcd", "Value": "mlcd"}]
_UBUNTU = "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"
_GPU = "/aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.7-ubuntu-22.04/latest/ami-id"


def key_name(account: Account, region: str, private: Path) -> str:
    """The name of our own key in the region, imported where it is missing."""
    public = make_key(private)
    name = f"mlcd-{hashlib.sha256(public.encode()).hexdigest()[:12]}"
    client = account.client("ec2", region)
    known = [{"Name": "key-name", "Values": [name]}]
    with translated("look for its key"):
        if client.describe_key_pairs(Filters=known)["KeyPairs"]:
            return name
    with allowing("InvalidKeyPair.Duplicate"), translated("import its key"):
        client.import_key_pair(KeyName=name, PublicKeyMaterial=public.encode())
    return name


def security_group(account: Account, region: str, vpc: str, ssh_from: str, let_in: str = "") -> str:
    """Our own group: ssh from these addresses alone, everything among its members, TCP from the members of other groups.

    Each range of addresses has a group of its own, and so have other groups that are let in: a narrower range leaves no
    wider one open, and whoever shares the account with another `ssh_from` still reaches his machines.
    """
    client = account.client("ec2", region)
    others = listed(let_in)
    name = " ".join([GROUP, *([ssh_from] if ssh_from != ANYWHERE else []), *others])
    named = [{"Name": "group-name", "Values": [name]}, {"Name": "vpc-id", "Values": [vpc]}]
    with translated("look for its security group"):
        found = client.describe_security_groups(Filters=named)["SecurityGroups"]
    group = str(found[0]["GroupId"]) if found else _new_group(client, vpc, name)
    within = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    ssh = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": ssh_from}]}
    rules = [within, ssh, *(_from_group(other) for other in others)]
    for rule in rules:
        with allowing("InvalidPermission.Duplicate"), translated("open its security group"):
            client.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    return group


def placement_group(account: Account, region: str, zone: str) -> str:
    """A group that keeps the machines of a zone close together."""
    name = f"mlcd-{zone}"
    with allowing("InvalidPlacementGroup.Duplicate"), translated("make a placement group"):
        account.client("ec2", region).create_placement_group(GroupName=name, Strategy="cluster")
    return name


def subnets(account: Account, region: str, named: str = "") -> list[dict[str, Any]]:
    """Those that are named, or else the default one of each zone."""
    default = [{"Name": "default-for-az", "Values": ["true"]}]
    only: dict[str, Any] = {"SubnetIds": listed(named)} if named else {"Filters": default}
    with translated("list its subnets"):
        found = account.client("ec2", region).describe_subnets(**only)["Subnets"]
    if not found:
        raise UserError(
            f"The account has no default subnets in {region}.",
            f"Make them with `aws ec2 create-default-vpc --region {region}`.",
        )
    return sorted(found, key=lambda subnet: str(subnet["AvailabilityZone"]))


def image(account: Account, region: str, wanted: str, instance: InstanceType) -> tuple[str, str]:
    """The image to boot and the name of its root disk."""
    name = wanted or (_GPU if instance.gpus else _UBUNTU)
    if not name.startswith("ami-"):
        with translated(f"look up the image {name}"):
            name = account.client("ssm", region).get_parameter(Name=name)["Parameter"]["Value"]
    with translated(f"describe the image {name}"):
        found = account.client("ec2", region).describe_images(ImageIds=[name])["Images"]
    if not found:
        raise UserError(f"There is no image {name} in {region}.", "Fix ec2.image in the settings.")
    return name, str(found[0].get("RootDeviceName") or "/dev/sda1")


def listed(names: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in names.split(",") if name.strip()]


def _from_group(group: str) -> dict[str, Any]:
    return {"IpProtocol": "tcp", "FromPort": 0, "ToPort": 65535, "UserIdGroupPairs": [{"GroupId": group}]}


class allowing:  # noqa: N801  # used as a context, and read as a word
    """Passes over one error of AWS: somebody else was faster, and that is as good."""

    def __init__(self, *codes: str) -> None:
        self._codes: Sequence[str] = codes

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, MlcdError) and code_of(error) in self._codes


def _new_group(client: Any, vpc: str, name: str) -> str:
    with translated("make its security group"):
        made = client.create_security_group(
            GroupName=name,
            Description="Machines rented by mlcd: ssh by key, and everything among themselves",
            VpcId=vpc,
            TagSpecifications=[{"ResourceType": "security-group", "Tags": OURS}],
        )
    return str(made["GroupId"])

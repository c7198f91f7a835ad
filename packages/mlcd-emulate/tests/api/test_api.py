"""The API of the emulated EC2, as boto3 sees it: what moto lacks, and what EC2 refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from emulated import EmulatedEc2

pytestmark = pytest.mark.slow
ONCE = Config(retries={"total_max_attempts": 1, "mode": "standard"})


def refusal(call: Callable[..., Any], **parameters: Any) -> str:
    """The code with which AWS refuses a call."""
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    return str(caught.value.response["Error"]["Code"])


def run(ec2: EmulatedEc2, **more: Any) -> dict[str, Any]:
    given = {"ImageId": ec2.image, "InstanceType": "c5.large", "MinCount": 1, "MaxCount": 1}
    return dict(ec2.boto("ec2", config=ONCE).run_instances(**{**given, **more}))


def test_the_same_client_token_launches_once(ec2: EmulatedEc2) -> None:
    first = run(ec2, ClientToken="job-1", MaxCount=2)
    again = run(ec2, ClientToken="job-1", MaxCount=2)
    assert len(first["Instances"]) == 2
    ids = [[each["InstanceId"] for each in one["Instances"]] for one in (first, again)]
    assert ids[0] == ids[1]
    assert refusal(run, ec2=ec2, ClientToken="job-1", MaxCount=3) == "IdempotentParameterMismatch"


def test_an_instance_has_what_it_was_launched_with(ec2: EmulatedEc2) -> None:
    client = ec2.boto("ec2")
    client.create_placement_group(GroupName="near", Strategy="cluster")
    group = client.create_security_group(GroupName="mine", Description="test")["GroupId"]
    (made,) = run(
        ec2,
        Placement={"GroupName": "near", "AvailabilityZone": "us-east-1b"},
        SecurityGroupIds=[group],
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "job", "Value": "digits"}]}],
        InstanceMarketOptions={"MarketType": "spot"},
    )["Instances"]
    found = client.describe_instances(Filters=[{"Name": "tag:job", "Values": ["digits"]}])
    (instance,) = found["Reservations"][0]["Instances"]
    assert instance["InstanceId"] == made["InstanceId"]
    assert instance["Placement"]["GroupName"] == "near"
    assert instance["Placement"]["AvailabilityZone"] == "us-east-1b"
    assert instance["SecurityGroups"] == [{"GroupId": group, "GroupName": "mine"}]
    assert instance["InstanceLifecycle"] == "spot"
    assert refusal(client.delete_placement_group, GroupName="near") == "InvalidPlacementGroup.InUse"
    ec2.terminate_all()
    client.delete_placement_group(GroupName="near")


def test_placement_groups_come_and_go(ec2: EmulatedEc2) -> None:
    client = ec2.boto("ec2")
    tags = [{"ResourceType": "placement-group", "Tags": [{"Key": "job", "Value": "a"}]}]
    client.create_placement_group(GroupName="g1", Strategy="cluster", TagSpecifications=tags)
    assert refusal(client.create_placement_group, GroupName="g1") == "InvalidPlacementGroup.Duplicate"
    (group,) = client.describe_placement_groups(Filters=[{"Name": "tag:job", "Values": ["a"]}])["PlacementGroups"]
    assert (group["GroupName"], group["Strategy"], group["State"]) == ("g1", "cluster", "available")
    assert client.describe_placement_groups(Filters=[{"Name": "tag:job", "Values": ["b"]}])["PlacementGroups"] == []
    client.delete_placement_group(GroupName="g1")
    assert refusal(client.delete_placement_group, GroupName="g1") == "InvalidPlacementGroup.Unknown"
    assert refusal(run, ec2=ec2, Placement={"GroupName": "g1"}) == "InvalidPlacementGroup.Unknown"


def test_the_quota_is_kept(ec2: EmulatedEc2) -> None:
    quotas = ec2.boto("service-quotas")
    code = "L-1216C47A"
    quota = quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]
    assert quota["Value"] == ec2.state.vcpu_quota
    assert {each["QuotaCode"] for each in quotas.list_service_quotas(ServiceCode="ec2")["Quotas"]} >= {
        code,
        "L-34B43A08",
        "L-417A185B",
    }
    too_many = int(quota["Value"]) // 2 + 1
    assert refusal(run, ec2=ec2, MinCount=too_many, MaxCount=too_many) == "VcpuLimitExceeded"
    spot = {"MarketType": "spot"}
    count = {"MinCount": too_many, "MaxCount": too_many}
    assert refusal(run, ec2=ec2, InstanceMarketOptions=spot, **count) == "MaxSpotInstanceCountExceeded"
    assert refusal(run, ec2=ec2, InstanceType="g5.xlarge") == "VcpuLimitExceeded", "no host has a GPU"


def test_a_type_or_a_zone_is_sold_out(ec2: EmulatedEc2) -> None:
    ec2.fault("no-capacity", "c5.large/us-east-1a")
    assert refusal(run, ec2=ec2, Placement={"AvailabilityZone": "us-east-1a"}) == "InsufficientInstanceCapacity"
    (made,) = run(ec2)["Instances"]
    assert made["Placement"]["AvailabilityZone"] == "us-east-1b", "EC2 chooses a zone that has some"
    ec2.fault("no-capacity", "c5.large")
    assert refusal(run, ec2=ec2) == "InsufficientInstanceCapacity"
    ec2.fault("no-capacity", "c5.large", "off")
    ec2.fault("no-capacity", "c5.large/us-east-1a", "off")
    assert run(ec2, Placement={"AvailabilityZone": "us-east-1a"})["Instances"]


def test_too_many_requests_are_refused(ec2: EmulatedEc2) -> None:
    ec2.fault("throttle", "DescribeInstances")
    assert refusal(ec2.boto("ec2", config=ONCE).describe_instances) == "RequestLimitExceeded"
    assert ec2.boto("ec2", config=ONCE).describe_availability_zones()["AvailabilityZones"]
    ec2.fault("throttle", "DescribeInstances", "off")
    assert "Reservations" in ec2.boto("ec2", config=ONCE).describe_instances()


def test_a_missing_permission_is_told(ec2: EmulatedEc2) -> None:
    ec2.fault("deny", "ec2:CreatePlacementGroup")
    assert refusal(ec2.boto("ec2").create_placement_group, GroupName="g9") == "UnauthorizedOperation"
    ec2.fault("deny", "ec2:CreatePlacementGroup", "off")
    ec2.boto("ec2").create_placement_group(GroupName="g9")
    ec2.boto("ec2").delete_placement_group(GroupName="g9")


@pytest.mark.parametrize(
    ("service", "call", "code"),
    [
        ("ec2", "describe_instances", "AuthFailure"),
        ("sts", "get_caller_identity", "InvalidClientTokenId"),
        ("s3", "list_buckets", "InvalidAccessKeyId"),
    ],
)
def test_foreign_credentials_are_refused(ec2: EmulatedEc2, service: str, call: str, code: str) -> None:
    stranger = ec2.boto(service, aws_access_key_id="AKIASTRANGER")
    assert refusal(getattr(stranger, call)) == code


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"KeyName": "nobody"}, "InvalidKeyPair.NotFound"),
        ({"InstanceType": "c99.huge"}, "InvalidParameterValue"),
        ({"ImageId": "ami-00000000000000000"}, "InvalidAMIID.NotFound"),
        ({"SubnetId": "subnet-00000000"}, "InvalidSubnetID.NotFound"),
        ({"SecurityGroupIds": ["sg-00000000"]}, "InvalidGroup.NotFound"),
        ({"DryRun": True}, "DryRunOperation"),
    ],
)
def test_what_cannot_be_launched_is_refused(ec2: EmulatedEc2, wrong: dict[str, Any], code: str) -> None:
    assert refusal(run, ec2=ec2, **wrong) == code
    assert ec2.hosts() == []


def test_types_are_told_with_their_real_facts(ec2: EmulatedEc2) -> None:
    (facts,) = ec2.boto("ec2").describe_instance_types(InstanceTypes=["c5n.large"])["InstanceTypes"]
    assert facts["VCpuInfo"]["DefaultVCpus"] == 2
    assert facts["MemoryInfo"]["SizeInMiB"] == 5376
    offered = ec2.boto("ec2").describe_instance_type_offerings(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": ["c5n.large"]}]
    )["InstanceTypeOfferings"]
    assert "us-east-1a" in {each["Location"] for each in offered}


def test_the_price_list_has_the_type(ec2: EmulatedEc2) -> None:
    wanted = {
        "instanceType": "c5.xlarge",
        "regionCode": "us-east-1",
        "operatingSystem": "Linux",
        "tenancy": "Shared",
    }
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    (product,) = ec2.boto("pricing").get_products(ServiceCode="AmazonEC2", Filters=filters)["PriceList"]
    (term,) = json.loads(product)["terms"]["OnDemand"].values()
    (price,) = term["priceDimensions"].values()
    assert (float(price["pricePerUnit"]["USD"]), price["unit"]) == (0.17, "Hrs")


def test_the_price_list_is_read_page_by_page(ec2: EmulatedEc2) -> None:
    pages = ec2.boto("pricing").get_paginator("get_products").paginate(ServiceCode="AmazonEC2", MaxResults=50)
    kinds = [
        json.loads(each)["product"]["attributes"].get("instanceType") for page in pages for each in page["PriceList"]
    ]
    assert len(kinds) == len(set(kinds) - {None}) + 2, "two kinds of disk among the types"


def test_spot_prices_have_a_history(ec2: EmulatedEc2) -> None:
    since = datetime.now(UTC) - timedelta(days=2)
    pages = ec2.boto("ec2").get_paginator("describe_spot_price_history")
    rows = [
        row
        for page in pages.paginate(
            InstanceTypes=["c5.large"], ProductDescriptions=["Linux/UNIX"], StartTime=since, MaxResults=10
        )
        for row in page["SpotPriceHistory"]
    ]
    in_zone = [row for row in rows if row["AvailabilityZone"] == "us-east-1a"]
    assert len(in_zone) >= 8
    assert len({row["SpotPrice"] for row in in_zone}) > 1
    assert all(0.02 < float(row["SpotPrice"]) < 0.04 for row in rows)
    assert min(row["Timestamp"] for row in in_zone) <= since, "the price in force when the period began"


def test_images_are_found_by_name_and_by_parameter(ec2: EmulatedEc2) -> None:
    name = "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-*"
    images = ec2.boto("ec2").describe_images(Owners=["099720109477"], Filters=[{"Name": "name", "Values": [name]}])
    assert [image["ImageId"] for image in images["Images"]] == [ec2.image]
    parameter = "/aws/service/canonical/ubuntu/server/22.04/stable/current/amd64/hvm/ebs-gp2/ami-id"
    assert ec2.boto("ssm").get_parameter(Name=parameter)["Parameter"]["Value"] == ec2.image


def test_the_default_network_is_the_one_that_leads_to_hosts(ec2: EmulatedEc2) -> None:
    client = ec2.boto("ec2")
    (vpc,) = client.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"]
    assert vpc["CidrBlock"] == ec2.state.network
    other = client.create_vpc(CidrBlock="192.168.0.0/16")["Vpc"]["VpcId"]
    subnet = client.create_subnet(VpcId=other, CidrBlock="192.168.1.0/24")["Subnet"]["SubnetId"]
    assert refusal(run, ec2=ec2, SubnetId=subnet) == "InvalidSubnet.Range"


def test_the_account_and_its_objects_are_on_the_same_endpoint(ec2: EmulatedEc2) -> None:
    assert ec2.boto("sts").get_caller_identity()["Account"] == "123456789012"
    s3 = ec2.boto("s3")
    s3.create_bucket(Bucket="code")
    s3.put_object(Bucket="code", Key="a/b", Body=b"x" * 100_000)
    assert s3.get_object(Bucket="code", Key="a/b")["Body"].read() == b"x" * 100_000


def test_another_region_has_addresses_of_its_own(ec2: EmulatedEc2) -> None:
    west = ec2.boto("ec2", region_name="us-west-2")
    here = {each["CidrBlock"] for each in ec2.boto("ec2").describe_subnets()["Subnets"]}
    there = {each["CidrBlock"] for each in west.describe_subnets()["Subnets"]}
    assert there
    assert not here & there

"""List prices and the history of spot prices.

On-demand prices are those of mlcd's own list, of us-east-1 for Linux, with their date. Spot prices are invented: about
a third of the list price, different in each zone and changing every six hours, always the same for the same hour.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from botocore.loaders import Loader
from werkzeug.wrappers import Response

from mlcd.catalog.ec2_types import listed_types
from mlcd.core.machines import Offer
from mlcd_emulate.api.account import facts_of, zones_selling
from mlcd_emulate.api.request import ApiRequest
from mlcd_emulate.api.response import ApiError, ec2_response, json_response
from mlcd_emulate.scale import vcpus_of

LISTED_ON = "2025-06-01T00:00:00Z"  # of disks, addresses and traffic
_SPOT_SHARE = 0.35
_SPOT_SWING = 0.15
_SPOT_STEP = timedelta(hours=6)
_SPOT_MEMORY = timedelta(days=90)
_PAGE = 1000


def on_demand_price(instance_type: str) -> float | None:
    """US dollars an hour; None: not for sale here."""
    offer = _listed().get(instance_type)
    return offer.usd_per_hour if offer is not None else None


def spot_price(instance_type: str, zone: str = "us-east-1a", at: datetime | None = None) -> float:
    """US dollars an hour in this zone, at this time."""
    step = int((at or datetime.now(UTC)).timestamp() // _SPOT_STEP.total_seconds())
    dice = hashlib.sha256(f"{instance_type} {zone} {step}".encode()).digest()[0] / 255
    share = _SPOT_SHARE * (1 + _SPOT_SWING * (2 * dice - 1))
    return round((on_demand_price(instance_type) or 0.0) * share, 4)


def describe_spot_price_history(request: ApiRequest) -> Response:
    """DescribeSpotPriceHistory, newest first."""
    filters = request.filters()
    kinds = request.listed("InstanceType") or filters.get("instance-type") or list(types_for_sale())
    zones = filters.get("availability-zone") or [request.parameters.get("AvailabilityZone", "")]
    since, until = _time(request, "StartTime"), _time(request, "EndTime")
    rows = [
        row
        for kind in kinds
        for zone in zones_selling(request.region, kind)
        if (zones == [""] or zone in zones) and on_demand_price(kind)
        for row in _spot_rows(kind, zone, since, until)
    ]
    first = int(request.parameters.get("NextToken") or 0)
    last = first + int(request.parameters.get("MaxResults") or _PAGE)
    token = str(last) if last < len(rows) else ""
    return ec2_response(request, {"spotPriceHistorySet": rows[first:last], "nextToken": token})


def get_products(request: ApiRequest) -> Response:
    """GetProducts of the price list service."""
    filters = [(each.get("Field", ""), each.get("Value", "")) for each in request.document.get("Filters", ())]
    found = [
        product
        for product in _products(request.document.get("ServiceCode", ""), dict(filters).get("regionCode", ""))
        if all(_attribute(product, field) == value for field, value in filters)
    ]
    first = int(request.document.get("NextToken") or 0)
    last = first + min(100, int(request.document.get("MaxResults") or 100))
    page = [json.dumps(product) for product in found[first:last]]
    more = {"NextToken": str(last)} if last < len(found) else {}
    return json_response({"FormatVersion": "aws_v1", "PriceList": page, **more})


def types_for_sale() -> Iterator[str]:
    """The instance types that have a price."""
    return iter(_listed())


@cache
def _listed() -> dict[str, Offer]:
    """What is on mlcd's list and known to moto, which lacks types that are no longer sold."""
    return {offer.instance.name: offer for offer in listed_types() if facts_of(offer.instance.name)}


def _spot_rows(kind: str, zone: str, since: datetime | None, until: datetime | None) -> Iterator[dict[str, Any]]:
    """One row for each time that the price changed, and the one in force when the period began."""
    now = datetime.now(UTC)
    oldest = max(since or now - _SPOT_MEMORY, now - _SPOT_MEMORY)
    step_s = _SPOT_STEP.total_seconds()
    at = datetime.fromtimestamp(min(until or now, now).timestamp() // step_s * step_s, UTC)
    while at + _SPOT_STEP > oldest:
        yield {
            "instanceType": kind,
            "productDescription": "Linux/UNIX",
            "spotPrice": f"{spot_price(kind, zone, at):.6f}",
            "timestamp": at.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
            "availabilityZone": zone,
        }
        at -= _SPOT_STEP


def _time(request: ApiRequest, name: str) -> datetime | None:
    text = request.parameters.get(name)
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ApiError("InvalidParameterValue", f"Value ({text}) for parameter {name} is invalid.") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _products(service: str, region: str) -> Iterator[dict[str, Any]]:
    """Everything on the price list of a service."""
    for where in [region] if region else ["us-east-1"]:
        location = {"regionCode": where, "location": _location(where), "locationType": "AWS Region"}
        if service == "AmazonEC2":
            for kind, offer in _listed().items():
                listed_on = f"{offer.priced_at}T00:00:00Z"
                attributes = _compute(kind) | location
                yield _product(service, "Compute Instance", offer.usd_per_hour, "Hrs", attributes, listed_on)
            for volume, usd in (("gp3", 0.08), ("gp2", 0.10)):
                usage = {"volumeApiName": volume, "usagetype": f"EBS:VolumeUsage.{volume}"}
                yield _product(service, "Storage", usd, "GB-Mo", usage | location)
        elif service == "AmazonVPC":
            usage = {"group": "VPCPublicIPv4Address", "usagetype": "PublicIPv4:InUseAddress"}
            yield _product(service, "VpcPublicIPv4", 0.005, "Hrs", usage | location)
        elif service == "AWSDataTransfer":
            usage = {
                "transferType": "AWS Outbound",
                "fromRegionCode": where,
                "fromLocation": _location(where),
            }
            out = {"toLocation": "External", "usagetype": "DataTransfer-Out-Bytes"}
            yield _product(service, "Data Transfer", 0.09, "GB", usage | out | location)


def _compute(kind: str) -> dict[str, str]:
    facts = facts_of(kind) or {}
    return {
        "instanceType": kind,
        "vcpu": str(vcpus_of(facts)),
        "memory": f"{facts['MemoryInfo']['SizeInMiB'] / 1024:g} GiB",
        "networkPerformance": facts["NetworkInfo"]["NetworkPerformance"],
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "licenseModel": "No License required",
        "operation": "RunInstances",
        "usagetype": f"BoxUsage:{kind}",
    }


def _product(
    service: str,
    family: str,
    usd: float,
    unit: str,
    attributes: Mapping[str, str],
    listed_on: str = LISTED_ON,
) -> dict[str, Any]:
    sku = hashlib.sha256(json.dumps(attributes, sort_keys=True).encode()).hexdigest()[:16].upper()
    price = {"unit": unit, "pricePerUnit": {"USD": f"{usd:.10f}"}, "beginRange": "0", "endRange": "Inf"}
    term = {
        "sku": sku,
        "effectiveDate": listed_on,
        "priceDimensions": {f"{sku}.JRTCKXETXF.6YS6EN2CT7": price},
    }
    return {
        "product": {
            "productFamily": family,
            "sku": sku,
            "attributes": {"servicecode": service, **attributes},
        },
        "serviceCode": service,
        "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": term}},
        "publicationDate": listed_on,
    }


def _attribute(product: Mapping[str, Any], field: str) -> str | None:
    if field == "productFamily":
        return str(product["product"]["productFamily"])
    found: str | None = product["product"]["attributes"].get(field)
    return found


def _location(region: str) -> str:
    regions = Loader().load_data("endpoints")["partitions"][0]["regions"]
    return str(regions.get(region, {}).get("description", region))

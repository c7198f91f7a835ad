"""Settings of the cloud functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlcd.settings import setting


@dataclass(frozen=True)
class FunctionsSettings:
    """Serverless functions, on this computer or at AWS."""

    section: ClassVar[str] = "functions"

    endpoint: str = setting("", "Lambda's API: empty: a service on this computer; `aws`: AWS itself; or a URL")
    region: str = setting("us-east-1", "where functions run at AWS")
    role: str = setting("", "ARN of the role that functions run with; needed at AWS")
    image: str = setting(
        "",
        "URI of a container image with mlcd's handler, where a zip is too small for the program's framework",
    )
    layers: str = setting(
        "",
        "`arn:…, arn:…`: layers for functions of a zip, as `mlcd package functions` makes them; they bring NumPy, too",
    )
    runtime: str = setting("python3.13", "of a zip at AWS, whatever Python runs mlcd; `python3.12` or newer")
    subnets: str = setting("", "`subnet-…, subnet-…`: functions run in your VPC at AWS")
    security_groups: str = setting("", "of functions in a VPC")
    disk_mb: int = setting(512, "disk of a function at AWS, for code, data and checkpoints; up to 10240")
    objects: str = setting("", "`s3://bucket/prefix` for code, data and checkpoints; empty: a folder of this computer")
    parameters: str = setting(
        "",
        "`rediss://…` of the parameter store between functions; `ec2`: a machine of EC2, rented for each task; empty: in a VPC at AWS such a machine, here started on demand on this computer",
        secret=True,
    )
    store_memory_mb: int = setting(1024, "memory of a parameter store that is rented or started on demand")
    store_type: str = setting("c5n.large", "the machine of a rented one, x86-64: 3 Gbit/s, as much as five functions")
    store_subnets: str = setting(
        "",
        "`subnet-…`: where it is rented, in the functions' VPC, with a way to the internet",
        empty="functions.subnets",
    )
    duration_seconds: int = setting(900, "how long one invocation may last")
    margin_seconds: float = setting(30.0, "before that: time to save a checkpoint and to download it")
    lost_seconds: float = setting(30.0, "a function that does not report for so long is lost")
    straggler_seconds: float = setting(120.0, "how long functions wait for one that lags behind")
    tick_seconds: float = setting(
        0.0,
        "between the reports of a function; 0: half a second here; at AWS 5 s, and for functions below 1.4 GB longer, up to a third of `functions.lost_seconds`, so that their requests stay cheap",
    )
    usd_per_gb_second: float = setting(0.0, "price of memory × time; 0: Lambda's list price")
    usd_per_million_requests: float = setting(0.0, "price of invocations; 0: Lambda's list price")
    usd_per_store_hour: float = setting(
        0.0256,
        "price of a parameter store that is not rented, while several functions train: that of ElastiCache for Valkey, cache.t4g.small. 0 where you have one anyway",
    )
    most: int = setting(200, "functions of one task")
    concurrency: int = setting(1000, "functions that the service on this computer runs at the same time")
    warm_seconds: float = setting(300.0, "how long it keeps an idle environment")
    idle_seconds: float = setting(60.0, "without an environment for so long, it ends by itself")
    cpu_scale: float = setting(
        1.0, "of the CPU share that comes with a memory size: less, to have many functions on few cores"
    )
    isolate: bool = setting(
        True,
        "functions of this computer have networks of their own, where that is allowed, and cannot reach each other, as at AWS",
    )

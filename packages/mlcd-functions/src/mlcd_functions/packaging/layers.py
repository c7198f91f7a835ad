"""Layers: packages for functions of a zip, published once for each content."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mlcd.errors import UserError
from mlcd_functions.lambdas import translated
from mlcd_functions.objects.base import open_object_store
from mlcd_functions.packaging.limits import SENT_BYTES, in_words
from mlcd_functions.settings import FunctionsSettings
from mlcd_functions.stores import objects_url

LAYER = "mlcd-functions"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same content gives the same bytes


def zip_layer(folder: Path, file: Path) -> str:
    """Pack what was unpacked as Lambda wants it, below python/; gives the digest of the zip."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            info = zipfile.ZipInfo(f"python/{path.relative_to(folder).as_posix()}", _LONG_AGO)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (path.stat().st_mode & 0o755 | 0o644) << 16
            archive.writestr(info, path.read_bytes())
    return hashlib.sha256(file.read_bytes()).hexdigest()


def publish(settings: FunctionsSettings, file: Path, digest: str) -> str:
    """The ARN of the layer with this content; it is sent unless the account has it."""
    with translated():
        client = _client(settings)
        known = (
            version
            for page in client.get_paginator("list_layer_versions").paginate(LayerName=LAYER)
            for version in page["LayerVersions"]
        )
        there = next((version for version in known if version.get("Description") == digest), None)
        made = there or client.publish_layer_version(
            LayerName=LAYER,
            Description=digest,
            Content=_content(settings, file, digest),
            CompatibleRuntimes=[settings.runtime],
        )
    return str(made["LayerVersionArn"])


def layer_bytes(settings: FunctionsSettings, arn: str) -> int:
    """How large a layer's zip is."""
    name, _, version = arn.rpartition(":")
    if not version.isdecimal():
        raise UserError(f"'{arn}' is no version of a layer.", "`mlcd package functions` prints its ARN.")
    with translated():
        found = _client(settings).get_layer_version(LayerName=name, VersionNumber=int(version))
    return int(found["Content"]["CodeSize"])


def _content(settings: FunctionsSettings, file: Path, digest: str) -> dict[str, Any]:
    """With the call where it is small enough, else through the bucket of functions.objects."""
    size = file.stat().st_size
    if size <= SENT_BYTES:
        return {"ZipFile": file.read_bytes()}
    place = urlsplit(settings.objects)
    if place.scheme != "s3":
        raise UserError(
            f"The layer's zip has {in_words(size)}; more than {in_words(SENT_BYTES)} go through S3.",
            "Set functions.objects to s3://BUCKET/PREFIX.",
        )
    open_object_store(objects_url(settings, file.parent, "layers")).upload(file, f"{digest}.zip")
    key = "/".join(filter(None, (place.path.strip("/"), "layers", f"{digest}.zip")))
    return {"S3Bucket": place.netloc, "S3Key": key}


def _client(settings: FunctionsSettings) -> Any:
    import boto3

    return boto3.client("lambda", region_name=settings.region)

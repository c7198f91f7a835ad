"""Data in S3: listed and signed here, fetched by each machine itself.

    file_mounts: {data: s3://bucket/images}      before `setup`, on each node: python3 -m mlcd.worker.fetch

So data goes the shortest way, from the store to the machine, and a machine needs neither credentials nor a package for it:
it is given addresses that are good for some days, as a secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from mlcd.core.task import Task
from mlcd.errors import CloudError, MissingExtraError, MlcdError, UnfitDeploymentError, UserError
from mlcd.worker import fetch
from mlcd.worker.fetch import BucketFile
from mlcd.worker.names import is_inner

S3 = "s3://"
GOOD_SECONDS = 7 * 24 * 3600  # the most that S3 allows: functions begin, and fetch, as long as the training lasts
MOST_BYTES = 96 << 10  # of an environment variable; systems take 128 KiB


def with_fetches(task: Task, secrets: Mapping[str, str], workers: int = 1) -> tuple[Task, Mapping[str, str]]:
    """The task that fetches by itself what lies in buckets, and the secrets with the addresses; for so many that train."""
    buckets = {where: source for where, source in task.file_mounts.items() if source.startswith(S3)}
    if not buckets:
        return task, secrets
    found = {where: wanted(where, source) for where, source in buckets.items()}
    for where in task.shard_mounts:
        _refuse_too_few(buckets[where], len(found[where]), workers)
    divided = {where: where if where in task.shard_mounts else "" for where in buckets}
    files = [one._replace(divided=divided[where]) for where, ones in found.items() for one in ones]
    packed = fetch.pack(files)
    if len(packed) > MOST_BYTES:
        raise UserError(
            f"file_mounts: {', '.join(buckets.values())} holds too many files to fetch one by one.",
            "Pack them into fewer, such as tar files or shards of a thousand samples.",
        )
    mounts = {where: source for where, source in task.file_mounts.items() if where not in buckets}
    setup = f"{fetch.COMMAND}\n{task.setup}".strip()
    return replace(task, file_mounts=mounts, setup=setup), {**secrets, fetch.VARIABLE: packed}


def refuse_unfit(task: Task, workers: int) -> None:
    """Raise where a mount that is divided has too few files for so many nodes."""
    for where in task.shard_mounts:
        source = task.file_mounts[where]
        _refuse_too_few(source, len(wanted(where, source)), workers)


def _refuse_too_few(source: str, files: int, workers: int) -> None:
    """Each node that trains needs a part of its own, and that shows before any is rented."""
    if files < workers:
        raise UnfitDeploymentError(
            f"shard_mounts: {source} has {files} {'file' if files == 1 else 'files'}, too few for {workers} nodes.",
            f"Let `num_nodes` end at {files}, or cut the data into more files.",
        )


def wanted(where: str, source: str) -> list[BucketFile]:
    """Every object below the source, or the one that it names, with an address and its place."""
    bucket, _, key = source.removeprefix(S3).partition("/")
    client = _client()
    from botocore.exceptions import BotoCoreError, ClientError  # it is there, or there were no client
    from botocore.parsers import ResponseParserError

    try:
        found = [_wanted(client, bucket, one, where, key.rstrip("/")) for one in _objects(client, bucket, key)]
    except (BotoCoreError, ClientError, ResponseParserError) as error:
        raise _told(source, error) from error
    if not found:
        raise UserError(f"file_mounts: there is nothing at {source}.", f"`aws s3 ls {source}` lists what is there.")
    return found


def _objects(client: Any, bucket: str, key: str) -> Iterator[dict[str, Any]]:
    """The object of this name, or all in the folder of this name."""
    folder = key.rstrip("/")
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=folder):
        for one in page.get("Contents", ()):
            inside = not folder or one["Key"] == folder or one["Key"].startswith(f"{folder}/")
            if inside and not one["Key"].endswith("/"):
                yield one


def _wanted(client: Any, bucket: str, one: dict[str, Any], where: str, folder: str) -> BucketFile:
    below = PurePosixPath(one["Key"].removeprefix(folder).lstrip("/"))
    if below.parts and not is_inner(str(below)):
        raise UserError(f"file_mounts: the object {one['Key'][:200]} would lie outside of {where}.")
    url = client.generate_presigned_url(
        "get_object", Params={"Bucket": bucket, "Key": one["Key"]}, ExpiresIn=GOOD_SECONDS
    )
    return BucketFile(str(PurePosixPath(where) / below), url, int(one["Size"]), str(one["ETag"]).strip('"'))


def _client() -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError as missing:
        raise MissingExtraError("Data in S3 needs boto3.", "pip install 'mlcd[ec2]'") from missing
    signed = Config(signature_version="s3v4", retries={"mode": "standard", "max_attempts": 6})
    return boto3.session.Session().client("s3", config=signed)


def _told(source: str, error: Exception) -> MlcdError:
    """What to do about it."""
    from botocore.exceptions import ClientError, NoCredentialsError

    if isinstance(error, NoCredentialsError):
        return UserError(
            f"file_mounts: {source} needs credentials of AWS.",
            "Set AWS_ACCESS_KEY_ID and …_SECRET_…, or `aws configure`.",
        )
    if isinstance(error, ClientError):
        code = error.response.get("Error", {}).get("Code", "")
        hint = {
            "NoSuchBucket": "Is the bucket's name right?",
            "AccessDenied": "Allow s3:ListBucket on the bucket and s3:GetObject on what is in it.",
        }.get(code, "")
        return UserError(f"file_mounts: {source} cannot be listed: {code or error}.", hint)
    return CloudError(f"file_mounts: S3 cannot be asked for {source}: {error}")

"""The object store in S3, or in what speaks its protocol.

Endpoint and keys come from AWS_* in the environment; without keys there, credentials come from where boto3 finds them: profiles,
SSO, ~/.aws, roles. The region is that of the URL (s3://bucket/prefix?region=eu-west-1), of the environment or of the profile.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mlcd.errors import MissingExtraError
from mlcd_functions.objects import errors

try:
    import obstore
    from obstore import exceptions
    from obstore.store import S3Store
except ImportError as missing:  # pragma: no cover
    raise MissingExtraError("Objects in S3 need obstore.", "pip install 'mlcd[functions]'") from missing

_TIMEOUTS: Any = {
    "timeout": timedelta(minutes=10),
    "connect_timeout": timedelta(seconds=10),
}  # for large objects
_LOG_IN = "Log in with `aws sso login` or `aws configure`, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
_KEYS_HOLD = timedelta(minutes=5)  # then boto3 is asked again, which refreshes what is about to run out
_RETRIES: dict[str, Any] = {
    "max_retries": 6,
    "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2},
    "retry_timeout": timedelta(seconds=60),
}


class S3Objects:
    """Objects of a bucket, below a prefix."""

    retries: Any = _RETRIES

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        options: dict[str, Any] = {**_login(), **({"endpoint": endpoint} if endpoint else {})}
        if region := parse_qs(parts.query).get("region"):
            options["region"] = region[0]
        self.region = str(options.get("region", ""))  # empty: as the environment says
        client: Any = {"allow_http": endpoint.startswith("http://"), **_TIMEOUTS}
        if proxy := os.environ.get("MLCD_PROXY"):
            client["proxy_url"] = proxy  # also where the endpoint is on the computer that runs the function
        self._store = S3Store(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            client_options=client,
            retry_config=self.retries,
            **options,
        )

    def get(self, key: str, most: int | None = None) -> bytes:
        with _translated(key):
            return bytes(self._found(key, most).bytes())

    def get_version(self, key: str) -> tuple[bytes, str]:
        with _translated(key):
            found = self._found(key, None)
            return bytes(found.bytes()), str(found.meta["e_tag"])

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_version: str = "") -> None:
        mode: Any = {"e_tag": if_version} if if_version else "create" if if_absent else "overwrite"
        conditional = if_absent or bool(if_version)
        with _translated(key), _writing(key):
            obstore.put(self._store, key, data, mode=mode, use_multipart=False if conditional else None)

    def keys(self, prefix: str = "") -> list[str]:
        # The service lists by whole path segments: list the folder, then look at the rest of the name.
        folder = prefix.rpartition("/")[0]
        with _translated(prefix):
            pages = obstore.list(self._store, prefix=folder or None)
            return sorted(each["path"] for page in pages for each in page if each["path"].startswith(prefix))

    def exists(self, key: str) -> bool:
        try:
            with _translated(key):
                obstore.head(self._store, key)
        except errors.ObjectNotFound:
            return False
        return True

    def delete(self, key: str) -> None:
        with _translated(key), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._store, key)

    def upload(self, path: Path, key: str) -> None:
        with _translated(key), _writing(key):
            obstore.put(self._store, key, path)

    def download(self, key: str, path: Path, most: int | None = None) -> None:
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.draft")
        try:
            with _translated(key), draft.open("wb") as file:
                for part in self._found(key, most).stream(min_chunk_size=8 << 20):
                    file.write(part)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)

    def _found(self, key: str, most: int | None) -> Any:
        """The object, of which nothing is read yet."""
        found = obstore.get(self._store, key)
        if most is not None and found.meta["size"] > most:
            raise errors.ObjectTooLarge(key, found.meta["size"], most)
        return found


def _login() -> dict[str, Any]:
    """Credentials and region as boto3 knows them, where the environment does not name the keys; nothing without boto3."""
    env = os.environ
    if env.get("AWS_ACCESS_KEY_ID") and env.get("AWS_SECRET_ACCESS_KEY") and not env.get("AWS_PROFILE"):
        return {}
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
    except ImportError:
        return {}
    try:
        session = boto3.Session()
        credentials = session.get_credentials()
    except BotoCoreError as error:  # a profile that is not there, an SSO that is half set up
        raise errors.ObjectRefused(f"There are no AWS credentials: {error}", _LOG_IN) from error
    if credentials is None:
        return {}
    region = {"region": session.region_name} if session.region_name else {}
    return {"credential_provider": _Credentials(credentials), **region}


class _Credentials:
    """Hands boto3's credentials to obstore, refreshed by boto3 when they run out."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials

    def __call__(self) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError

        try:
            keys = self._credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise errors.ObjectRefused(f"The AWS credentials have run out: {error}", _LOG_IN) from error
        return {
            "access_key_id": keys.access_key,
            "secret_access_key": keys.secret_key,
            "token": keys.token,
            "expires_at": datetime.now(UTC) + _KEYS_HOLD,
        }


@contextlib.contextmanager
def _translated(key: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise errors.ObjectNotFound(f"There is no object '{key}'.") from error
    except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as error:
        raise errors.ObjectExists(f"Somebody else has written '{key}' first.") from error
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
        raise errors.ObjectRefused(
            f"The object store refuses '{key}'.",
            "Look at the credentials, at the policy of who uses them, and at the bucket's policy.",
        ) from error
    except exceptions.GenericError as error:
        raise errors.ObjectStoreUnavailable(f"The object store failed with '{key}': {_first_line(error)}") from error
    except exceptions.BaseError as error:
        raise errors.ObjectError(f"The object store refuses '{key}': {_first_line(error)}") from error


@contextlib.contextmanager
def _writing(key: str) -> Iterator[None]:
    """What is not found while writing is the bucket, or the upload itself."""
    try:
        yield
    except FileNotFoundError as error:
        raise errors.ObjectError(f"The object '{key}' cannot be written: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]

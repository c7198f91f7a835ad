"""AWS's errors in our words: capacity is information, and the rest says what to do."""

from __future__ import annotations

import pytest

from mlcd.clouds.ec2.errors import code_of, in_words, translated
from mlcd.clouds.remote.base import BusyError
from mlcd.errors import CloudError, MlcdError, NoCapacityError, UserError

botocore = pytest.importorskip("botocore.exceptions", reason="pip install 'mlcd[ec2]'")


def refusal(code: str, message: str = "no") -> Exception:
    return botocore.ClientError({"Error": {"Code": code, "Message": message}}, "RunInstances")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("InsufficientInstanceCapacity", NoCapacityError),
        ("VcpuLimitExceeded", NoCapacityError),
        ("MaxSpotInstanceCountExceeded", NoCapacityError),
        ("AuthFailure", UserError),
        ("ExpiredToken", UserError),
        ("UnauthorizedOperation", UserError),
        ("RequestLimitExceeded", BusyError),
        ("RequestExpired", UserError),
        ("SomethingNew", CloudError),
    ],
)
def test_each_code_has_its_kind(code: str, kind: type[MlcdError]) -> None:
    with pytest.raises(kind) as caught, translated("run 2 × c5.large"):
        raise refusal(code)
    assert type(caught.value) is kind
    assert code_of(caught.value) == code


def test_a_missing_permission_is_named() -> None:
    message = "User: arn:aws:iam::1:user/ada is not authorized to perform: ec2:RunInstances on resource: *"
    error = in_words("run", "UnauthorizedOperation", message + " Encoded authorization failure message: x9f")
    assert "the permission ec2:RunInstances is missing" in error.message
    assert "x9f" not in error.message
    assert "mlcd check aws" in error.hint


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("RequestExpired", "Request has expired."),
        ("SignatureDoesNotMatch", "Signature expired: 20261116T010000Z is now earlier than 20261116T184500Z"),
        ("InvalidSignatureException", "Signature not yet current: 20261117T010000Z is still later than now"),
    ],
)
def test_a_clock_that_is_wrong_is_not_taken_for_wrong_credentials(code: str, message: str) -> None:
    error = in_words("list its instances", code, message)
    assert isinstance(error, UserError)
    assert "the clock of this computer is wrong" in error.message
    assert "timedatectl" in error.hint


def test_no_credentials_say_how_to_get_some() -> None:
    with pytest.raises(UserError, match="no AWS credentials") as caught, translated("look"):
        raise botocore.NoCredentialsError
    assert "aws configure" in caught.value.hint

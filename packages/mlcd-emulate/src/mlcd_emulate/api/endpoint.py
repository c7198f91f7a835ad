"""Every request comes in here: faults first, then our own answers, then moto."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from moto.core.exceptions import ServiceException
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.wrappers import Request, Response

from mlcd_emulate.api import prices
from mlcd_emulate.api.account import Account, image_for
from mlcd_emulate.api.faults import ApiFaults
from mlcd_emulate.api.groups import PlacementGroups
from mlcd_emulate.api.launch import Launcher
from mlcd_emulate.api.quotas import Quotas
from mlcd_emulate.api.request import ApiRequest, read_request
from mlcd_emulate.api.response import ApiError, ec2_response, error_response, json_response
from mlcd_emulate.emulation import CONTROL_HEADER, CONTROL_PATH

_ONE_AT_A_TIME = {f"ec2:{verb}Instances" for verb in ("Run", "Start", "Stop", "Terminate")}

Answer = Callable[[ApiRequest], Response]
Control = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Keys:
    """Who may use the API, and who may break it."""

    access_key_id: str
    control_key: str


class Endpoint:
    """The one endpoint, as a WSGI application."""

    def __init__(
        self, account: Account, faults: ApiFaults, quotas: Quotas, keys: Keys, console: Callable[[str], str]
    ) -> None:
        self._account, self._faults, self._keys, self._console = account, faults, keys, console
        self._moto = DomainDispatcherApplication(create_backend_app)
        groups = PlacementGroups(account)
        self._launcher = Launcher(account, faults, groups, quotas)
        self._answers: dict[str, Answer] = {
            "ec2:CreatePlacementGroup": groups.create,
            "ec2:DescribePlacementGroups": groups.describe,
            "ec2:DeletePlacementGroup": groups.delete,
            "ec2:DescribeSpotPriceHistory": prices.describe_spot_price_history,
            "ec2:GetConsoleOutput": self._console_output,
            "pricing:GetProducts": prices.get_products,
            "servicequotas:GetServiceQuota": quotas.get,
            "servicequotas:GetAWSDefaultServiceQuota": quotas.get,
            "servicequotas:ListServiceQuotas": quotas.list_all,
            "servicequotas:ListAWSDefaultServiceQuotas": quotas.list_all,
        }
        self.control: Control = lambda request: {}

    def open_region(self, name: str) -> None:
        """Have a region ready before the first request for it."""
        self._account.region(name, self._launcher.prepare)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request."""
        if environ.get("PATH_INFO", "").startswith(CONTROL_PATH):
            return self._controlled(Request(environ))(environ, start_response)
        request = read_request(environ)
        try:
            self._let_in(request)
            answer = self._own_answer(request)
            if answer is None:
                return self._by_moto(request, environ, start_response)
        except ApiError as error:
            answer = error_response(request, error)
        except ServiceException as error:  # moto's own, where we ask it
            answer = error_response(request, ApiError(error.code, error.message))
        return answer(environ, start_response)

    def _let_in(self, request: ApiRequest) -> None:
        if request.access_key_id and request.access_key_id != self._keys.access_key_id:
            raise _unknown_key(request.service)
        self._faults.refuse(request)
        if request.service == "ec2":
            self.open_region(request.region)

    def _own_answer(self, request: ApiRequest) -> Response | None:
        if request.service == "ssm" and request.action == "GetParameter":
            return _image_parameter(request)
        answer = self._answers.get(request.name)
        if answer is None and request.service == "pricing":
            raise ApiError("InvalidParameterException", f"The emulated EC2 does not answer {request.name}.")
        return answer(request) if answer else None

    def _by_moto(self, request: ApiRequest, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if request.name not in _ONE_AT_A_TIME:
            return self._moto(environ, start_response)  # type: ignore[no-any-return]  # moto's is untyped
        with self._account.lock:
            if request.action == "RunInstances":
                self._launcher.admit(request)
            return self._moto(environ, start_response)  # type: ignore[no-any-return]  # as above

    def _console_output(self, request: ApiRequest) -> Response:
        instance_id = request.parameters.get("InstanceId", "")
        if all(each.id != instance_id for each in self._account.instances()):
            raise ApiError("InvalidInstanceID.NotFound", f"The instance ID '{instance_id}' does not exist")
        text = base64.b64encode(self._console(instance_id).encode()).decode()
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        return ec2_response(request, {"instanceId": instance_id, "timestamp": now, "output": text})

    def _controlled(self, request: Request) -> Response:
        if not hmac.compare_digest(request.headers.get(CONTROL_HEADER, ""), self._keys.control_key):
            return Response("Only who started the emulation may.", 403)
        return json_response(self.control(request.get_json()))


def _image_parameter(request: ApiRequest) -> Response | None:
    """The public parameters that name images; moto knows others."""
    name = str(request.document.get("Name", ""))
    image = image_for(name)
    if image is None:
        return None
    arn = f"arn:aws:ssm:{request.region}::parameter{name}"
    return json_response({"Parameter": {"Name": name, "Type": "String", "Value": image, "Version": 1, "ARN": arn}})


def _unknown_key(service: str) -> ApiError:
    if service == "ec2":
        return ApiError("AuthFailure", "AWS was not able to validate the provided access credentials", 401)
    if service == "s3":
        return ApiError("InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.", 403)
    code = "InvalidClientTokenId" if service == "sts" else "UnrecognizedClientException"
    return ApiError(code, "The security token included in the request is invalid.", 403 if service == "sts" else 400)

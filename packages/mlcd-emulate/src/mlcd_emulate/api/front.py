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
from mlcd_emulate.api.answering import Refusal, ec2_answer, error_answer, json_answer
from mlcd_emulate.api.asking import Asked, read_request
from mlcd_emulate.api.faults import ApiFaults
from mlcd_emulate.api.groups import PlacementGroups
from mlcd_emulate.api.launching import Launching
from mlcd_emulate.api.quotas import Quotas
from mlcd_emulate.api.world import World, image_for
from mlcd_emulate.place import CONTROL_HEADER, CONTROL_PATH

_ONE_AT_A_TIME = {f"ec2:{verb}Instances" for verb in ("Run", "Start", "Stop", "Terminate")}

Answer = Callable[[Asked], Response]
Control = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Keys:
    """Who may use the API, and who may break it."""

    access_key_id: str
    control_key: str


class Front:
    """The one endpoint, as a WSGI application."""

    def __init__(
        self, world: World, faults: ApiFaults, quotas: Quotas, keys: Keys, console: Callable[[str], str]
    ) -> None:
        self._world, self._faults, self._keys, self._console = world, faults, keys, console
        self._moto = DomainDispatcherApplication(create_backend_app)
        groups = PlacementGroups(world)
        self._launching = Launching(world, faults, groups, quotas)
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
        self._world.region(name, self._launching.prepare)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request."""
        if environ.get("PATH_INFO", "").startswith(CONTROL_PATH):
            return self._controlled(Request(environ))(environ, start_response)
        asked = read_request(environ)
        try:
            self._let_in(asked)
            answer = self._own_answer(asked)
            if answer is None:
                return self._by_moto(asked, environ, start_response)
        except Refusal as refusal:
            answer = error_answer(asked, refusal)
        except ServiceException as error:  # moto's own, where we ask it
            answer = error_answer(asked, Refusal(error.code, error.message))
        return answer(environ, start_response)

    def _let_in(self, asked: Asked) -> None:
        if asked.access_key_id and asked.access_key_id != self._keys.access_key_id:
            raise _unknown_key(asked.service)
        self._faults.refuse(asked)
        if asked.service == "ec2":
            self.open_region(asked.region)

    def _own_answer(self, asked: Asked) -> Response | None:
        if asked.service == "ssm" and asked.action == "GetParameter":
            return _image_parameter(asked)
        answer = self._answers.get(asked.name)
        if answer is None and asked.service == "pricing":
            raise Refusal("InvalidParameterException", f"The emulated EC2 does not answer {asked.name}.")
        return answer(asked) if answer else None

    def _by_moto(self, asked: Asked, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if asked.name not in _ONE_AT_A_TIME:
            return self._moto(environ, start_response)  # type: ignore[no-any-return]  # moto's is untyped
        with self._world.lock:
            if asked.action == "RunInstances":
                self._launching.admit(asked)
            return self._moto(environ, start_response)  # type: ignore[no-any-return]  # as above

    def _console_output(self, asked: Asked) -> Response:
        instance_id = asked.parameters.get("InstanceId", "")
        if all(each.id != instance_id for each in self._world.instances()):
            raise Refusal("InvalidInstanceID.NotFound", f"The instance ID '{instance_id}' does not exist")
        text = base64.b64encode(self._console(instance_id).encode()).decode()
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        return ec2_answer(asked, {"instanceId": instance_id, "timestamp": now, "output": text})

    def _controlled(self, request: Request) -> Response:
        if not hmac.compare_digest(request.headers.get(CONTROL_HEADER, ""), self._keys.control_key):
            return Response("Only who started the emulation may.", 403)
        return json_answer(self.control(request.get_json()))


def _image_parameter(asked: Asked) -> Response | None:
    """The public parameters that name images; moto knows others."""
    name = str(asked.document.get("Name", ""))
    image = image_for(name)
    if image is None:
        return None
    arn = f"arn:aws:ssm:{asked.region}::parameter{name}"
    return json_answer(
        {"Parameter": {"Name": name, "Type": "String", "Value": image, "Version": 1, "ARN": arn}}
    )


def _unknown_key(service: str) -> Refusal:
    if service == "ec2":
        return Refusal("AuthFailure", "AWS was not able to validate the provided access credentials", 401)
    if service == "s3":
        return Refusal(
            "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.", 403
        )
    code = "InvalidClientTokenId" if service == "sts" else "UnrecognizedClientException"
    return Refusal(
        code, "The security token included in the request is invalid.", 403 if service == "sts" else 400
    )

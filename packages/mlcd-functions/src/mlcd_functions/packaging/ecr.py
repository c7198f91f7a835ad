"""Images in ECR, the registry of one's own account: the only one from which Lambda runs images."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Any

from mlcd.errors import UserError
from mlcd_functions.lambdas import translated

_URI = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/(?P<name>[a-z0-9._/-]+)"
)


@dataclass(frozen=True)
class Stored:
    """An image that is in the registry."""

    digest: str
    bytes: int  # compressed


@dataclass(frozen=True)
class Repository:
    """A repository of an account."""

    uri: str
    account: str
    region: str
    name: str

    @property
    def registry(self) -> str:
        """The host that is logged in to."""
        return self.uri.partition("/")[0]

    def find(self, tag: str = "", digest: str = "") -> Stored | None:
        """The image of this tag or digest; None: it is not there."""
        which = {"imageDigest": digest} if digest else {"imageTag": tag}
        with translated():
            client = self._client()
            try:
                (found,) = client.describe_images(registryId=self.account, repositoryName=self.name, imageIds=[which])[
                    "imageDetails"
                ]
            except client.exceptions.ImageNotFoundException:
                return None
            except client.exceptions.RepositoryNotFoundException as error:
                raise UserError(
                    f"There is no repository {self.uri}.",
                    f"aws ecr create-repository --region {self.region} --repository-name {self.name}",
                ) from error
        return Stored(str(found["imageDigest"]), int(found.get("imageSizeInBytes", 0)))

    def password(self) -> str:
        """For the engine's login; it holds for twelve hours."""
        with translated():
            answer = self._client().get_authorization_token()["authorizationData"]
        return base64.b64decode(answer[0]["authorizationToken"]).decode().partition(":")[2]

    def _client(self) -> Any:
        import boto3

        return boto3.client("ecr", region_name=self.region)


def repository_of(uri: str) -> Repository:
    """The repository of its address, or of an image's."""
    found = _URI.match(uri)
    if found is None:
        raise UserError(
            f"'{uri}' is no repository of ECR, and Lambda runs images from there only.",
            "It looks like 123456789012.dkr.ecr.us-east-1.amazonaws.com/mlcd-functions.",
        )
    return Repository(found[0], found["account"], found["region"], found["name"])


def image_of(uri: str) -> Stored | None:
    """What is in the registry under an image's address; None: nothing."""
    repository = repository_of(uri)
    tag, _, digest = uri.removeprefix(repository.uri).partition("@")
    return repository.find(tag.removeprefix(":") or "latest", digest)

"""As SkyPilot names them."""


class ResourcesUnavailableError(Exception): ...


class NoCloudAccessError(Exception): ...


class ClusterDoesNotExist(ValueError): ...

"""SkyPilot's SDK, loaded when it is needed; its errors in our words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mlcd.errors import CloudError, NoCapacityError, UserError


def load_sky() -> Any:
    """SkyPilot, which is an extra."""
    import sky
    import sky.exceptions

    return sky


@contextmanager
def in_our_words(sky: Any) -> Iterator[None]:
    """Translates what SkyPilot raises."""
    try:
        yield
    except sky.exceptions.ResourcesUnavailableError as error:
        raise NoCapacityError(f"SkyPilot could not get the machines: {_first_line(error)}") from error
    except sky.exceptions.NoCloudAccessError as error:
        raise UserError(
            f"SkyPilot has no access to that cloud: {_first_line(error)}",
            "Run `sky check` and do what it says.",
        ) from error
    except (RuntimeError, ValueError, OSError) as error:
        raise CloudError(f"SkyPilot: {_first_line(error)}", "Run `sky status` to see what it knows.") from error


def _first_line(error: Exception) -> str:
    return (str(error) or repr(error)).splitlines()[0]

"""SkyPilot's SDK, loaded when it is needed: its errors in our words, its records and its key by one way in all versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from mlcd.errors import CloudError, NoCapacityError, UserError


def load_sky() -> Any:
    """SkyPilot, which is an extra."""
    import sky
    import sky.exceptions

    return sky


def said(row: Any, name: str) -> Any:
    """One word of a record: a dict in older versions, an object since."""
    return row[name] if isinstance(row, Mapping) else getattr(row, name)


def key_file() -> Path:
    """The private key that SkyPilot makes its clusters with, by its own word; each of its versions keeps it elsewhere."""
    for module in ("sky.utils.auth_utils", "sky.authentication"):
        with suppress(ImportError, AttributeError):
            return Path(import_module(module).get_or_generate_keys()[0]).expanduser()
    return Path("~/.ssh/sky-key").expanduser()


@contextmanager
def in_our_words(sky: Any) -> Iterator[None]:
    """Translates what SkyPilot raises. Half of its errors derive from nothing but Exception, and those that ended a request on
    its server come here as they are: whatever it is, it is SkyPilot's, for nothing else is done meanwhile."""
    try:
        yield
    except sky.exceptions.ResourcesUnavailableError as error:
        raise NoCapacityError(f"SkyPilot could not get the machines: {_first_line(error)}") from error
    except sky.exceptions.NoCloudAccessError as error:
        raise UserError(
            f"SkyPilot has no access to that cloud: {_first_line(error)}",
            "Run `sky check` and do what it says.",
        ) from error
    except Exception as error:
        raise CloudError(f"SkyPilot: {_first_line(error)}", "Run `sky status` to see what it knows.") from error


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return (text if " " in text else repr(error)).splitlines()[0]  # one word alone says little: KeyError('handle')

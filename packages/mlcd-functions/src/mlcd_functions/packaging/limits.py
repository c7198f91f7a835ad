"""AWS's limits of what a function may hold, and what fits them. Pure.

As Lambda's page of quotas has them: 250 MB unzipped for a function's zip and all its layers, 50 MB for a zip that is sent
with the call itself (a larger one goes through S3), 10 GB for an uncompressed image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlcd.errors import UserError

UNZIPPED_BYTES = 250 << 20
SENT_BYTES = 50 << 20
IMAGE_BYTES = 10 * 10**9
MOST_NAMED = 3


@dataclass(frozen=True)
class Locked:
    """A package in the version that was found for the functions' Python and system."""

    name: str
    version: str
    url: str
    sha256: str
    bytes: int  # of its wheel, compressed; 0: not known


class TooLargeError(UserError):
    """What does not fit a layer may fit an image."""


def packed_bytes(packages: Sequence[Locked]) -> int:
    """Of all their wheels: what they hold is larger still."""
    return sum(package.bytes for package in packages)


def refuse_layer(bytes_needed: int, packages: Sequence[Locked], how: str) -> None:
    """Refuse what is too large for a layer, with what makes it so."""
    if bytes_needed > UNZIPPED_BYTES:
        raise TooLargeError(
            f"{_largest(packages)} have {in_words(bytes_needed)} {how}; a function and its layers may have "
            f"{in_words(UNZIPPED_BYTES)} unzipped.",
            "Make an image: `mlcd package functions --kind image`.",
        )


def refuse_image(bytes_needed: int, packages: Sequence[Locked]) -> None:
    """Refuse what is too large for an image."""
    if bytes_needed > IMAGE_BYTES:
        raise UserError(
            f"The image would have {in_words(bytes_needed)} or more ({_largest(packages)}); Lambda takes {in_words(IMAGE_BYTES)}.",
            "Take packages out. For torch, a line `--extra-index-url https://download.pytorch.org/whl/cpu` leaves out CUDA: "
            "functions have no GPU.",
        )


def in_words(size: int) -> str:
    """As people say it; from a gigabyte on in those of a thousand megabytes, as AWS counts an image's."""
    if size >= 10**9:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 2**20:,.1f} MB" if size < 100 << 20 else f"{size / 2**20:,.0f} MB"


def _largest(packages: Sequence[Locked]) -> str:
    ordered = sorted(packages, key=lambda package: package.bytes, reverse=True)
    names = ", ".join(f"{package.name} {package.version}" for package in ordered[:MOST_NAMED])
    more = len(ordered) - MOST_NAMED
    return f"{names} and {more} more" if more > 0 else names

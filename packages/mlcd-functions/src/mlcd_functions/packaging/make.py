"""Makes a layer or an image: locked, measured against AWS's limits, then built, and sent where that is asked for."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from mlcd.errors import CloudError
from mlcd_functions.package import handler_package
from mlcd_functions.packaging.context import CLIENT, default_base, has_client, refuse_file, refuse_others, write_context
from mlcd_functions.packaging.ecr import Repository
from mlcd_functions.packaging.engines import Engine, run
from mlcd_functions.packaging.layers import publish, zip_layer
from mlcd_functions.packaging.limits import (
    IMAGE_BYTES,
    UNZIPPED_BYTES,
    Locked,
    in_words,
    packed_bytes,
    refuse_image,
    refuse_layer,
)
from mlcd_functions.packaging.lock import lock_text, resolve, unpack
from mlcd_functions.settings import FunctionsSettings

Say = Callable[[str], None]


@dataclass(frozen=True)
class Made:
    """What was made, and what is left to do."""

    kind: str  # image or layer
    packages: tuple[Locked, ...]
    path: str  # the zip, or the folder that an image is built from
    bytes: int | None = None  # unzipped, or uncompressed; None: not known yet
    setting: str = ""  # the line that has functions use it; empty: it is not at AWS yet
    todo: tuple[str, ...] = ()  # commands that do the rest
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layers:
    """A layer, where everything fits one."""

    settings: FunctionsSettings
    say: Say

    def make(self, requirements: Path | None, into: Path, push: bool) -> Made:
        """The layer's zip, published where asked for."""
        refuse_file(into)
        packages = resolve(requirements, self.settings.runtime)
        refuse_layer(packed_bytes(packages), packages, "packed")
        file = into / "layer.zip"
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=into) as folder:
            unzipped = unpack(lock_text(packages, requirements), self.settings.runtime, Path(folder, "python"))
            needed = unzipped + len(handler_package())
            refuse_layer(needed, packages, "unzipped")
            digest = zip_layer(Path(folder, "python"), file)
        self.say(
            f"The layer has {in_words(unzipped)} of {in_words(UNZIPPED_BYTES)}, {in_words(file.stat().st_size)} packed."
        )
        made = Made("layer", packages, str(file), needed)
        return replace(made, setting=f'layers = "{publish(self.settings, file, digest)}"') if push else made


@dataclass(frozen=True)
class Images:
    """A container image."""

    settings: FunctionsSettings
    engine: Engine | None
    repository: Repository | None
    say: Say

    def make(self, requirements: Path | None, into: Path, base: str, push: bool) -> Made:
        """The context, and the image where there is an engine; it is sent where asked for."""
        refuse_others(into)
        base = base or default_base(self.settings.runtime)
        packages = resolve(requirements, self.settings.runtime, () if has_client(base) else (CLIENT,))
        packed = packed_bytes(packages)
        refuse_image(packed, packages)
        self.say(f"The packages have {in_words(packed)} as wheels; Lambda takes images of {in_words(IMAGE_BYTES)}.")
        digest = write_context(into, base, lock_text(packages, requirements))
        image = f"{self.repository.uri if self.repository else 'mlcd-functions'}:{digest[:12]}"
        made = Made("image", packages, str(into))
        if push and self.repository is not None and (stored := self.repository.find(digest[:12])) is not None:
            return replace(made, setting=self._setting(f"@{stored.digest}"), notes=(f"{image} is there already.",))
        if self.engine is None:
            return replace(made, todo=self._by_hand(into, image), setting=self._setting(f":{digest[:12]}"))
        return self._build(made, self.engine, image, push)

    def _build(self, made: Made, engine: Engine, image: str, push: bool) -> Made:
        run(engine.build(Path(made.path), image))
        size = engine.size(image)
        if size is not None:
            self.say(f"The image {image} has {in_words(size)} of {in_words(IMAGE_BYTES)}.")
            refuse_image(size, made.packages)
        made = replace(made, bytes=size, notes=(f"{image} is built.",))
        if not push or self.repository is None:
            return made
        run(engine.login(self.repository.registry), self.repository.password())
        run(engine.push(image))
        stored = self.repository.find(image.rpartition(":")[2])
        if stored is None:
            raise CloudError(f"{image} was pushed, and ECR does not have it.", "Call the command again.")
        return replace(made, setting=self._setting(f"@{stored.digest}"), notes=(f"{image} is in ECR.",))

    def _setting(self, which: str) -> str:
        return f'image = "{self.repository.uri}{which}"' if self.repository is not None else ""

    def _by_hand(self, folder: Path, image: str) -> tuple[str, ...]:
        """The same commands, for a computer that has docker."""
        docker = Engine("docker")
        build = shlex.join(docker.build(folder, image))
        if self.repository is None:
            return (build,)
        password = f"aws ecr get-login-password --region {self.repository.region}"
        login = f"{password} | {shlex.join(docker.login(self.repository.registry))}"
        return (build, login, shlex.join(docker.push(image)))

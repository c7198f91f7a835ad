"""The bundle that a cloud puts beside a program, so that its steps are counted without a change.

<folder>/sitecustomize.py      see startup.py
<folder>/lib/mlcd/             this worker, for `import mlcd` where mlcd is not installed, and mlcd.sync for functions
"""

from __future__ import annotations

import shutil
from pathlib import Path


def write_bundle(folder: Path) -> dict[str, str]:
    """Write the bundle and give the environment to add; its PYTHONPATH goes in front of the program's own."""
    here = Path(__file__).resolve().parent
    library = folder / "lib" / "mlcd"
    for package in ("worker", "sync"):
        for source in sorted((here.parent / package).rglob("*.py")):
            target = library / source.relative_to(here.parent)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    for module in ("__init__.py", "errors.py"):
        shutil.copyfile(here.parent / module, library / module)
    shutil.copyfile(here / "startup.py", folder / "sitecustomize.py")
    return {"PYTHONPATH": str(folder)}

"""What the site has beyond the pages of docs/: API pages made from docstrings, and the project's other pages.

Links are written for a code host, where `../../examples/digits/train.py` leads out of docs/. In the site such files lie
below project/, and the links to them and from them are changed accordingly.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PROJECT = ("*.md", "LICENSE", "benchmarks/*/*.*", "examples/*/*.*", "packages/*/README.md")
LINK = re.compile(r"(?P<open>\]\()(?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")

API = {
    "client": ("The client", "mlcd.api.Client", "mlcd.remote.RemoteClient"),
    "worker": ("Inside the training program", "mlcd.worker"),
    "clouds": ("Clouds", "mlcd.clouds.base", "mlcd.testing.CloudContract"),
    "platforms": ("Platforms", "mlcd.platforms.base"),
    "searchers": ("Search strategies", "mlcd.search.base", "mlcd.testing.SearcherContract"),
    "errors": ("Errors", "mlcd.errors"),
}


def on_files(files: Files, config: Any) -> Files:
    """Add the API pages and the project's files."""
    for name, (title, *objects) in API.items():
        text = f"# {title}\n\n" + "\n\n".join(f"::: {each}" for each in objects) + "\n"
        files.append(File.generated(config, f"reference/api/{name}.md", content=text))
    for pattern in PROJECT:
        for file in sorted(ROOT.glob(pattern)):
            files.append(File.generated(config, _address(file), abs_src_path=str(file)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Have the links lead where the files are in the site."""
    source = page.file.abs_src_path
    if source is None:
        return markdown
    here, folder = Path(page.file.src_uri).parent, Path(source).parent

    def link(match: re.Match[str]) -> str:
        file = Path(os.path.normpath(folder / match["path"]))
        if not file.is_relative_to(ROOT) or not file.exists():
            return match[0]
        file = file / "README.md" if file.is_dir() else file
        return f"{match['open']}{os.path.relpath(_address(file), here)}{match['anchor'] or ''})"

    return LINK.sub(link, markdown)


def _address(file: Path) -> str:
    """Where a file lies in the site."""
    if file.is_relative_to(DOCS):
        return str(file.relative_to(DOCS))
    return f"project/{file.relative_to(ROOT)}"

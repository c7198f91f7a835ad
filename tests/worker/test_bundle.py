import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import mlcd.worker
from mlcd.worker import write_bundle
from mlcd_functions.package import handler_package
from older_python import too_young
from worker.programs import finish, start

SOURCES = sorted(Path(mlcd.worker.__file__).parent.rglob("*.py"))
BARE = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")  # has no mlcd


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_the_worker_is_written_in_the_python_of_older_environments(source: Path) -> None:
    assert too_young(source) == []


def test_what_is_younger_than_the_oldest_python_is_found(tmp_path: Path) -> None:
    source = tmp_path / "young.py"
    source.write_text("import enum\nfrom itertools import pairwise\nenum.StrEnum\nzip([], [], strict=True)\n")
    assert [each.partition(": ")[2] for each in too_young(source)] == [
        "itertools.pairwise",
        "enum.StrEnum",
        "zip(strict=…)",
    ]
    source.write_text("match 1:\n    case 1: pass\n")
    with pytest.raises(SyntaxError):
        too_young(source)


def test_every_module_is_in_the_package_of_functions() -> None:
    source = Path(mlcd.__file__).parent
    modules = [path for folder in ("worker", "sync") for path in (source / folder).rglob("*.py")]
    with zipfile.ZipFile(io.BytesIO(handler_package())) as package:
        packed = set(package.namelist())
    assert {f"mlcd/{path.relative_to(source)}" for path in modules} <= packed


@pytest.mark.parametrize("package", ["worker", "sync"])
def test_every_module_of_the_package_is_in_the_bundle(package: str, tmp_path: Path) -> None:
    write_bundle(tmp_path)
    source = Path(mlcd.__file__).parent
    bundled = {path.relative_to(tmp_path / "lib/mlcd") for path in (tmp_path / "lib/mlcd" / package).rglob("*.py")}
    assert bundled == {path.relative_to(source) for path in (source / package).rglob("*.py")}


def test_the_worker_needs_the_standard_library_only(tmp_path: Path) -> None:
    write_bundle(tmp_path)
    program = f"""
import sys; sys.path.insert(0, {str(tmp_path / "lib")!r})
import mlcd
print(sum(len(batch) for batch in mlcd.steps([[1, 2], [3]])), mlcd.last_checkpoint(), mlcd.stopping())
"""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "3 None False\n"


@pytest.mark.skipif(not Path(BARE).exists(), reason="no Python without mlcd at hand")
def test_importing_mlcd_works_where_it_is_not_installed(tmp_path: Path) -> None:
    program = """
    import mlcd
    print(mlcd.__file__)
    for batch in mlcd.steps([[1, 2], [3, 4]]):
        pass
    """
    output = finish(start(program, tmp_path, python=BARE))
    assert str(tmp_path / "bundle" / "lib") in output
    assert '"samples": 4' in (tmp_path / "progress" / "rank-0.jsonl").read_text()


def test_an_installed_mlcd_goes_before_the_bundles(tmp_path: Path) -> None:
    output = finish(start("import mlcd; print(mlcd.__file__)", tmp_path))
    assert output.strip() == mlcd.__file__


def test_a_sitecustomize_that_is_hidden_still_runs(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("SAID = 'hello'")
    path = f"{tmp_path / 'bundle'}:{hidden}"
    program = "import sitecustomize, sys; print(sitecustomize.SAID, sys.meta_path[0].__name__)"
    assert finish(start(program, tmp_path, PYTHONPATH=path)) == "hello _Watcher\n"


def test_outside_mlcd_the_bundle_does_nothing(tmp_path: Path) -> None:
    program = "import sys; print('mlcd' in sys.modules, any('bundle' in place for place in sys.path[2:]))"
    assert finish(start(program, tmp_path, MLCD_PROGRESS_DIR="")) == "False False\n"


def test_a_program_without_torch_loads_no_part_of_mlcd(tmp_path: Path) -> None:
    program = "import json, sys; print(any(name.startswith('mlcd') for name in sys.modules))"
    assert finish(start(program, tmp_path)) == "False\n"


def test_what_is_imported_from_a_zip_file_is_hooked_alone(tmp_path: Path) -> None:
    """As `spark-submit` hands PySpark to a driver."""
    modules = {
        "pyspark/__init__.py": "",
        "pyspark/ml/__init__.py": "",
        "pyspark/ml/base.py": "class Estimator:\n    def fit(self): return 'fitted'",
        "pyspark/ml/other.py": "",
    }
    with zipfile.ZipFile(tmp_path / "pyspark.zip", "w") as packed:
        for name, text in modules.items():
            packed.writestr(name, text)
    program = f"""
    import sys
    sys.path.insert(0, {str(tmp_path / "pyspark.zip")!r})
    import pyspark.ml.base, pyspark.ml.other
    print(hasattr(pyspark.ml.base.Estimator.fit, "__wrapped__"))
    """
    assert finish(start(program, tmp_path)) == "True\n"

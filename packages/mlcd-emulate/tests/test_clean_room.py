"""The command line from end to end, as a clean run of CI has it: no terminal, no environment, nested namespaces."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mlcd_emulate.needs import why_not
from mlcd_emulate.system import SYSTEM_PATH

pytestmark = pytest.mark.slow
STORY = """
set -eu
mlcd() { "$PYTHON" -m mlcd.cli.main emulate "$@" --name room; }
trap 'mlcd down >/dev/null' EXIT
mlcd up > exports
. ./exports
"$PYTHON" - <<'PYTHON'
import boto3
ec2 = boto3.client("ec2")
pair = ec2.create_key_pair(KeyName="k", KeyType="ed25519")
open("key", "w").write(pair["KeyMaterial"])
ec2.run_instances(ImageId="ami-0e301ab0e301ab024", InstanceType="t3.medium", MinCount=1, MaxCount=1, KeyName="k")
PYTHON
chmod 600 key
address=
for try in $(seq 600); do
  address=$(mlcd status --json | grep -o '"address": "[^"]*"' | cut -d'"' -f4)
  [ -z "$address" ] || ! timeout 5 ssh -i key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \\
    "ubuntu@$address" 'echo "hello from $(hostname)"' 2>/dev/null || break
  sleep 0.2
done
mlcd fault slow "$address" 2
mlcd status
mlcd down --json | tr -d '\\n '
"""


@pytest.mark.skipif(bool(why_not()), reason=why_not() or "all is there")
def test_it_works_in_a_clean_room(tmp_path: Path) -> None:
    environment = {
        "PATH": SYSTEM_PATH,
        "HOME": str(tmp_path),
        "PYTHON": sys.executable,
        "MLCD_HOME": f"{tmp_path}/home",
    }
    inside = (
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    )
    ended = subprocess.run(
        [*inside, "sh", "-c", STORY],
        cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "hello from ip-10-" in ended.stdout
    assert "computes at 1/2 of its share." in ended.stdout
    assert "slow 2" in ended.stdout
    assert '"main_processes":1' in ended.stdout
    assert list((tmp_path / "home").rglob("*.json")) == [], "nothing is left"

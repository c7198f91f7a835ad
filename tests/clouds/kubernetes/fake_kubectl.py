"""A stand-in for kubectl and the cluster behind it: nodes from a file, pods as processes of this computer.

It takes the few forms that mlcd uses (get, apply, delete, exec) and answers in Kubernetes' words. State: $FAKE_KUBE/.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

ROOT = Path(os.environ["FAKE_KUBE"])


def main(words: list[str]) -> int:
    while words[0] in ("--context", "--namespace"):
        words = words[2:]
    verbs = {"get": get, "apply": apply, "delete": delete, "exec": execute}
    return verbs[words[0]](words[1:])


def get(words: list[str]) -> int:
    kind = words[0]
    wanted = (
        dict(part.split("=") for part in words[words.index("--selector") + 1].split(","))
        if "--selector" in words
        else {}
    )
    items = [item for item in load(kind) if wanted.items() <= item["metadata"].get("labels", {}).items()]
    print(json.dumps({"items": [with_status(item) if kind == "pods" else item for item in items]}))
    return 0


def apply(words: list[str]) -> int:
    for manifest in json.load(sys.stdin)["items"]:
        kind, name = manifest["kind"].lower() + "s", manifest["metadata"]["name"]
        if (ROOT / kind / f"{name}.json").exists():
            continue
        manifest["metadata"]["creationTimestamp"] = now()
        save(kind, name, manifest)
        if kind == "jobs":
            start_pods(manifest)
    return 0


def start_pods(job: dict[str, Any]) -> None:
    template, nodes = job["spec"]["template"], load("nodes")
    pool = [n for n in nodes if template["spec"]["nodeSelector"].items() <= n["metadata"]["labels"].items()]
    for index in range(min(job["spec"]["completions"], len(pool))):
        name = f"{job['metadata']['name']}-{index}-x7k2p"
        metadata = json.loads(json.dumps(template["metadata"]))
        metadata["name"] = name
        metadata["annotations"]["batch.kubernetes.io/job-completion-index"] = str(index)
        save(
            "pods",
            name,
            {"metadata": metadata, "started": now(), "pid": start(name, template["spec"]["containers"][0])},
        )


def start(name: str, container: dict[str, Any]) -> int:
    plain = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    env = {**os.environ, **plain, "MLCD_POD": name}
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(container["command"], env=env, start_new_session=True, **quiet).pid  # type: ignore[call-overload,no-any-return]


def with_status(pod: dict[str, Any]) -> dict[str, Any]:
    phase = "Running" if lives(pod["pid"]) else "Succeeded"
    return {**pod, "status": {"phase": phase, "podIP": "127.0.0.1", "startTime": pod["started"]}}


def delete(words: list[str]) -> int:
    name = words[1]
    for pod in load("pods"):
        if pod["metadata"]["labels"]["mlcd.io/name"] == name:
            end(pod)
    for kind in ("jobs", "services"):
        (ROOT / kind / f"{name}.json").unlink(missing_ok=True)
    return 0


def end(pod: dict[str, Any]) -> None:
    """A pod is gone with everything in it."""
    (ROOT / "pods" / f"{pod['metadata']['name']}.json").unlink(missing_ok=True)
    base = ROOT / "mlcd" / pod["metadata"]["name"]
    marker = f"MLCD_LOCAL_TASK={base}/".encode()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            continue
    if lives(pod["pid"]):
        os.killpg(pod["pid"], signal.SIGKILL)
    shutil.rmtree(base, ignore_errors=True)


def execute(words: list[str]) -> int:
    name = words[1]
    pods = [pod for pod in load("pods") if pod["metadata"]["name"] == name]
    if not pods or not lives(pods[0]["pid"]):
        sys.stderr.write(f'Error from server (NotFound): pods "{name}" not found\n')
        return 1
    return subprocess.run(words[words.index("--") + 1 :], check=False).returncode


def lives(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def load(kind: str) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted((ROOT / kind).glob("*.json"))]


def save(kind: str, name: str, item: dict[str, Any]) -> None:
    (ROOT / kind).mkdir(parents=True, exist_ok=True)
    draft = ROOT / kind / f".{name}"
    draft.write_text(json.dumps(item))
    draft.replace(ROOT / kind / f"{name}.json")


def now() -> str:
    return datetime.now(timezone.utc).isoformat()  # noqa: UP017  # any Python 3 will do


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

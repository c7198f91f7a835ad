"""A stand-in for kubectl and the cluster behind it: nodes from files, pods as processes of this computer.

It takes the few forms that mlcd uses and refuses all others, and what the real API server, scheduler, Job controller and kubelet
would refuse: rights that the user has not, namespaces that are not there, Jobs that cannot be changed, taints, quotas, images.
Its words are Kubernetes' own. There is no daemon: whoever calls lets the cluster catch up first. State: $FAKE_KUBE/.

    cluster.json   {"rights": ["list nodes", …], "namespaces": [...], "images": {"IMAGE": "missing" | "no bash"}, "max_pods": 1,
                    "broken": what kubectl says to everything}
    nodes/ jobs/ pods/ events/   objects, as files
    calls          a line for each call
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(os.environ["FAKE_KUBE"])
GROUPS = {"jobs": "batch"}
PLURALS = {"job": "jobs", "pod": "pods", "node": "nodes", "event": "events", "service": "services"}
FLAGS = {  # of each verb: those with a value, those without
    "get": ({"--selector", "--field-selector", "--output"}, set()),
    "create": ({"--filename"}, set()),
    "apply": ({"--filename"}, set()),
    "delete": (set(), {"--ignore-not-found", "--wait=false", "--cascade=background"}),
    "exec": ({"--container"}, {"--stdin"}),
    "auth": (set(), {"--subresource=exec"}),
    "drain": (set(), {"--ignore-daemonsets"}),
}


class Refused(Exception):
    """What kubectl says, and exits with 1."""


def main(words):
    if words[0] == "kubelet":
        return kubelet(words[1])
    with (ROOT / "calls").open("a") as calls:
        calls.write(" ".join(words[:8]).replace("\n", " ") + "\n")
    settings = {"--namespace": "default"}
    while words[0] in ("--context", "--namespace"):
        settings[words[0]] = words[1]
        words = words[2:]
    try:
        if config().get("broken"):
            raise Refused(config()["broken"])
        return act(words[0], words[1:], settings["--namespace"])
    except Refused as error:
        sys.stderr.write(f"{error}\n")
        return 1


def act(verb, words, namespace):
    if verb not in FLAGS:
        raise Refused(f'error: unknown command "{verb}" for "kubectl"')
    if verb == "exec":
        return execute(*parsed(verb, words), namespace)
    with locked():
        catch_up()
        verbs = {"get": get, "create": create, "apply": apply, "delete": delete, "drain": drain, "auth": can_i}
        code = verbs[verb](*parsed(verb, words), namespace)
        catch_up()
    return code


def parsed(verb, words):
    """Words and flags; what kubectl would not know is refused."""
    valued, plain = FLAGS[verb]
    names, flags = [], {}
    while words:
        word, words = words[0], words[1:]
        if word == "--":
            return [*names, "--", *words], flags
        if word in valued:
            flags[word], words = words[0], words[1:]
        elif word in plain:
            flags[word] = True
        elif word.startswith("-") and word != "-":
            raise Refused(f"error: unknown flag: {word}")
        else:
            names.append(word)
    return names, flags


# ------------------------------------------------------------------------------------------------ API server


def allow(verb, resource, namespace, name=""):
    """Refuse what the user has no right to, in the words of the API server."""
    if f"{verb} {resource}" in config().get("rights", ["*"]) or config().get("rights", ["*"]) == ["*"]:
        return
    group = GROUPS.get(resource.split("/")[0], "")
    what = resource.split("/")[0] + (f".{group}" if group else "")
    named = f'{what} "{name}"' if name else what
    where = "at the cluster scope" if resource == "nodes" else f'in the namespace "{namespace}"'
    raise Refused(
        f'Error from server (Forbidden): {named} is forbidden: User "mlcd" cannot {verb} resource "{resource}" '
        f'in API group "{group}" {where}'
    )


def can_i(names, flags, namespace):
    _, verb, resource = names
    try:
        allow(verb, resource.removesuffix(".batch") + ("/exec" if flags else ""), namespace)
    except Refused:
        print("no")
        return 1
    print("yes")
    return 0


def get(names, flags, namespace):
    if flags.get("--output") != "json" or len(names) != 1:
        raise Refused("error: this stand-in lists kinds as JSON only")
    found = []
    for kind in names[0].split(","):
        allow("list", kind, namespace)
        found += [item for item in load(kind) if fits(item, flags) and lies_in(item, kind, namespace)]
    print(json.dumps({"kind": "List", "items": [shown(item) for item in found]}))
    return 0


def lies_in(item, kind, namespace):
    return kind == "nodes" or item["metadata"].get("namespace", "default") == namespace


def fits(item, flags):
    labels = item["metadata"].get("labels", {})
    wanted = pairs(flags.get("--selector", ""))
    fields = pairs(flags.get("--field-selector", ""))
    return wanted.items() <= labels.items() and all(field(item, path) == value for path, value in fields.items())


def field(item, path):
    for part in path.split("."):
        item = item.get(part, {})
    return item


def pairs(text):
    return dict(part.split("=") for part in text.split(",") if part)


def shown(item):
    return {key: value for key, value in item.items() if key != "kubelet"}


def create(names, flags, namespace, verb="create"):
    manifest = json.load(sys.stdin)
    kind, name = PLURALS[manifest["kind"].lower()], manifest["metadata"]["name"]
    allow(verb, kind, namespace)
    where = 'error when creating "STDIN": '
    if namespace not in config().get("namespaces", ["default"]):
        raise Refused(f'Error from server (NotFound): {where}namespaces "{namespace}" not found')
    if kind != "jobs":
        raise Refused(f"error: this stand-in makes no {kind}")
    if (ROOT / kind / f"{name}.json").exists():
        raise Refused(f'Error from server (AlreadyExists): {where}jobs.batch "{name}" already exists')
    validate(manifest)
    manifest["metadata"] |= {"creationTimestamp": now(), "namespace": namespace}
    manifest["status"] = {}
    save(kind, name, manifest)
    print(f"job.batch/{name} created")
    return 0


def validate(job):
    spec, template = job["spec"], job["spec"]["template"]["spec"]
    wrong = (
        spec.get("completionMode") == "Indexed" and not spec.get("completions") and "spec.completions: Required value",
        template.get("restartPolicy") not in ("Never", "OnFailure")
        and "spec.template.spec.restartPolicy: Required value",
        any(not each.get("key") and each.get("operator") != "Exists" for each in template.get("tolerations", []))
        and "spec.template.spec.tolerations[0].operator: Invalid value",
    )
    for error in filter(None, wrong):
        raise Refused(f'The Job "{job["metadata"]["name"]}" is invalid: {error}')


def apply(names, flags, namespace):
    manifest = json.load(sys.stdin)
    name = manifest["metadata"]["name"]
    allow("get", "jobs", namespace, name)
    file = ROOT / "jobs" / f"{name}.json"
    if not file.exists():
        raise Refused("error: this stand-in applies to what is there only")
    allow("patch", "jobs", namespace, name)
    if json.loads(file.read_text())["spec"]["template"] != manifest["spec"]["template"]:
        raise Refused(
            f'The Job "{name}" is invalid: spec.template: Invalid value: {{"metadata":…}}: field is immutable'
        )
    return 0


def delete(names, flags, namespace):
    kind, name = PLURALS[names[0]], names[1]
    allow("delete", kind, namespace, name)
    file = ROOT / kind / f"{name}.json"
    if not file.exists():
        if "--ignore-not-found" in flags:
            return 0
        raise Refused(f'Error from server (NotFound): jobs.batch "{name}" not found')
    file.unlink()
    for pod in pods_of(name):
        terminate(pod)
    return 0


def drain(names, flags, namespace):
    """Cordon a node and evict its pods."""
    node = json.loads((ROOT / "nodes" / f"{names[0]}.json").read_text())
    node["spec"]["unschedulable"] = True
    save("nodes", names[0], node)
    for pod in load("pods"):
        if pod["spec"].get("nodeName") == names[0] and not ended(pod):
            pod["status"]["conditions"].append(
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                }
            )
            terminate(pod)
    return 0


def execute(names, flags, namespace):
    name, command = names[0], names[names.index("--") + 1 :]
    with locked():
        catch_up()
        allow("get", "pods", namespace, name)
        file = ROOT / "pods" / f"{name}.json"
        if not file.exists():
            raise Refused(f'Error from server (NotFound): pods "{name}" not found')
        allow("create", "pods/exec", namespace, name)
        pod = json.loads(file.read_text())
    if ended(pod):
        raise Refused(
            f"error: cannot exec into a container in a completed pod; current phase is {pod['status']['phase']}"
        )
    if flags.get("--container", "mlcd") != "mlcd" or pod["status"]["phase"] != "Running":
        raise Refused('error: unable to upgrade connection: container not found ("mlcd")')
    if shutil.which(command[0]) is None:
        raise Refused(
            "error: Internal error occurred: error executing command in container: OCI runtime exec failed: exec failed: "
            f'unable to start container process: exec: "{command[0]}": executable file not found in $PATH: unknown'
        )
    stdin = None if "--stdin" in flags else subprocess.DEVNULL
    code = subprocess.run(command, check=False, env=environment(pod), stdin=stdin, cwd="/").returncode
    code = 128 - code if code < 0 else code
    if code:
        sys.stderr.write(f"command terminated with exit code {code}\n")
    return code


# ---------------------------------------------------------------- Job controller, scheduler and what kubelets tell


def catch_up():
    for pod in load("pods"):
        hear_of(pod)
    for job in load("jobs"):
        if not any(each["status"] == "True" for each in job["status"].get("conditions", [])):
            look_after(job)
    for pod in load("pods"):
        if pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]:
            schedule(pod)


def hear_of(pod):
    """Take over what the pod's kubelet has told of its end; one that was deleted is gone then."""
    name = pod["metadata"]["name"]
    end = ROOT / "pods" / f"{name}.end"
    if end.exists() and not ended(pod):
        told = json.loads(end.read_text())
        reason = "Completed" if told["exitCode"] == 0 else "Error"
        finish(pod, {"reason": reason, **told})
    if "deletionTimestamp" in pod["metadata"] and (ended(pod) or "kubelet" not in pod):
        if (ROOT / "jobs" / f"{job_of(pod)}.json").exists():
            note_failure(job_of(pod))  # a pod that was deleted counts as failed
        (ROOT / "pods" / f"{name}.json").unlink()
        end.unlink(missing_ok=True)
        shutil.rmtree(ROOT / "mlcd" / name, ignore_errors=True)


def finish(pod, terminated):
    phase = "Succeeded" if terminated["exitCode"] == 0 else "Failed"
    pod["status"] |= {"phase": phase, "containerStatuses": [status_of({"terminated": terminated})]}
    save("pods", pod["metadata"]["name"], pod)
    if phase == "Failed":
        note_failure(job_of(pod))


def note_failure(name):
    """With a backoffLimit of 0 the first pod that fails ends its Job, and the Job its other pods."""
    file = ROOT / "jobs" / f"{name}.json"
    if not file.exists():
        return
    job = json.loads(file.read_text())
    job["status"]["conditions"] = [
        {
            "type": "Failed",
            "status": "True",
            "reason": "BackoffLimitExceeded",
            "message": "Job has reached its limit",
        }
    ]
    save("jobs", name, job)
    for pod in pods_of(name):
        if not ended(pod):
            terminate(pod)


def look_after(job):
    name, wanted = job["metadata"]["name"], job["spec"]["completions"]
    pods = pods_of(name)
    if len([pod for pod in pods if pod["status"]["phase"] == "Succeeded"]) == wanted:
        job["status"]["conditions"] = [{"type": "Complete", "status": "True"}]
        save("jobs", name, job)
        return
    have = {pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in pods}
    for index in range(wanted):
        if str(index) not in have:
            make_pod(job, index)


def make_pod(job, index):
    name = f"{job['metadata']['name']}-{index}-x7k2p"
    most, there = config().get("max_pods"), len([pod for pod in load("pods") if not ended(pod)])
    if most is not None and there >= most:
        said = f"exceeded quota: team, requested: pods=1, used: pods={there}, limited: pods={most}"
        tell(job, f'Error creating: pods "{name}" is forbidden: {said}')
        return
    template = json.loads(json.dumps(job["spec"]["template"]))
    metadata = template["metadata"] | {"name": name, "namespace": job["metadata"]["namespace"]}
    metadata["annotations"]["batch.kubernetes.io/job-completion-index"] = str(index)
    metadata["labels"]["job-name"] = job["metadata"]["name"]
    save(
        "pods",
        name,
        {
            "kind": "Pod",
            "metadata": metadata,
            "spec": template["spec"],
            "status": {"phase": "Pending", "conditions": []},
        },
    )


def tell(job, message):
    name = f"{job['metadata']['name']}.failed"
    about = {"kind": "Job", "name": job["metadata"]["name"]}
    before = [each for each in load("events") if each["metadata"]["name"] == name]
    event = {
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": about,
        "reason": "FailedCreate",
        "message": message,
        "count": 1 + sum(each["count"] for each in before),
    }
    save("events", name, event)


def schedule(pod):
    if "nodeName" not in pod["spec"]:
        fit = [node["metadata"]["name"] for node in load("nodes") if takes(node, pod)]
        if not fit:
            count = len(load("nodes"))
            message = (
                f"0/{count} nodes are available: {count} Insufficient cpu. preemption: 0/{count} nodes are available."
            )
            pod["status"]["conditions"] = [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            ]
            save("pods", pod["metadata"]["name"], pod)
            return
        pod["spec"]["nodeName"] = fit[0]
        pod["status"] |= {"conditions": [{"type": "PodScheduled", "status": "True"}], "startTime": now()}
    start(pod)


def takes(node, pod):
    """Whether the scheduler may place the pod there: labels, taints, cordons, and no other pod of ours."""
    spec, node_spec = pod["spec"], node.get("spec", {})
    busy = {other["spec"].get("nodeName") for other in load("pods") if not ended(other)}
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])
    barred = [
        taint
        for taint in node_spec.get("taints", [])
        if taint["effect"] in ("NoSchedule", "NoExecute")
        and not any(tolerates(each, taint) for each in spec["tolerations"])
    ]
    labels = spec["nodeSelector"].items() <= node["metadata"]["labels"].items()
    free = node["metadata"]["name"] not in busy and not node_spec.get("unschedulable")
    return ready and labels and free and not barred


def tolerates(toleration, taint):
    key = toleration.get("key") in (None, taint["key"])
    value = toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
    return key and value and toleration.get("effect") in (None, taint["effect"])


def start(pod):
    """Have a kubelet start the container, unless its image forbids it."""
    name, image = pod["metadata"]["name"], pod["spec"]["containers"][0]["image"]
    trouble = config().get("images", {}).get(image)
    if trouble == "missing":
        message = (
            f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": {image}: not found'
        )
        pod["status"]["containerStatuses"] = [status_of({"waiting": {"reason": "ErrImagePull", "message": message}})]
    elif trouble == "slow":
        pod["status"]["containerStatuses"] = [status_of({"waiting": {"reason": "ContainerCreating"}})]
    elif trouble == "no bash":
        message = (
            "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
            'unable to start container process: exec: "bash": executable file not found in $PATH: unknown'
        )
        finish(
            pod,
            {
                "reason": "StartError",
                "message": message,
                "exitCode": 128,
                "startedAt": now(),
                "finishedAt": now(),
            },
        )
        return
    else:
        pod["kubelet"] = spawn_kubelet(name)
        running = status_of({"running": {"startedAt": now()}})
        pod["status"] |= {"phase": "Running", "podIP": "127.0.0.1", "containerStatuses": [running]}
    save("pods", name, pod)


def status_of(state):
    return {"name": "mlcd", "state": state, "ready": "running" in state, "restartCount": 0}


def terminate(pod):
    """The pod is to go: SIGTERM, its grace, SIGKILL."""
    if "deletionTimestamp" in pod["metadata"]:
        return
    pod["metadata"]["deletionTimestamp"] = now()
    save("pods", pod["metadata"]["name"], pod)
    if "kubelet" in pod and lives(pod["kubelet"]):
        os.kill(pod["kubelet"], signal.SIGTERM)


# ----------------------------------------------------------------------------------------------------- kubelet


def spawn_kubelet(name):
    (ROOT / "pods" / f"{name}.end").unlink(missing_ok=True)
    words = [sys.executable, "-SE", __file__, "kubelet", name]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(words, start_new_session=True, **quiet).pid


def kubelet(name):
    """Run the container of one pod to its end, and see to it that nothing of it is left then."""
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(time.monotonic()))
    file = ROOT / "pods" / f"{name}.json"
    while not file.exists() or "kubelet" not in file.read_text():
        time.sleep(0.01)
    pod = json.loads(file.read_text())
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = pod["spec"]["containers"][0]["command"]
    first = subprocess.Popen(command, env=environment(pod), cwd="/", start_new_session=True, **quiet)
    told = False
    while first.poll() is None:
        if asked and not told:
            first.send_signal(signal.SIGTERM)
            told = True
        if asked and time.monotonic() - asked[0] > pod["spec"]["terminationGracePeriodSeconds"]:
            first.kill()
        time.sleep(0.05)
    end_all(pod)
    code = first.returncode
    save_text(
        ROOT / "pods" / f"{name}.end",
        json.dumps({"exitCode": 128 - code if code < 0 else code, "finishedAt": now()}),
    )
    return 0


def environment(pod):
    """Of all that runs in the container."""
    plain = {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"] if "value" in each}
    own = {key: os.environ[key] for key in ("PATH", "HOME", "FAKE_KUBE") if key in os.environ}
    return {**own, **plain, "MLCD_POD": pod["metadata"]["name"], "FAKE_POD": marker(pod)}


def marker(pod):
    return f"{ROOT}/{pod['metadata']['name']}"


def end_all(pod):
    """A container is gone with every process in it."""
    wanted = f"FAKE_POD={marker(pod)}\0".encode()
    for _ in range(3):
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and wanted in (entry / "environ").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue


# ----------------------------------------------------------------------------------------------------- small things


def job_of(pod):
    return pod["metadata"]["labels"]["mlcd.io/name"]


def pods_of(job):
    return [pod for pod in load("pods") if job_of(pod) == job]


def ended(pod):
    return pod["status"]["phase"] in ("Succeeded", "Failed")


def lives(pid):
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def config():
    file = ROOT / "cluster.json"
    return json.loads(file.read_text()) if file.exists() else {}


def load(kind):
    return [json.loads(file.read_text()) for file in sorted((ROOT / kind).glob("*.json"))]


def save(kind, name, item):
    save_text(ROOT / kind / f"{name}.json", json.dumps(item))


def save_text(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_text(text)
    draft.replace(file)


@contextmanager
def locked():
    with (ROOT / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def now():
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: UP017  # any Python 3 will do


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

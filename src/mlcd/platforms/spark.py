"""Spark: a standalone cluster that lives as long as the task, with the user's program as its driver.

    first node      the program, which works; the cluster's master and a worker, which serve it
    other nodes     a worker

The driver finds the cluster in `MASTER`, be it started by `python` or by `spark-submit`, and begins once all workers' cores
have registered. Everything is ended when the program has ended. What Spark writes meanwhile lies beside the working copy
and goes with it.

The cluster runs any program that it is handed, so nobody else may hand it one: all its processes have to know the task's
secret, which they find in a file of Spark's defaults that only their user can read. It is on no command line.
"""

from __future__ import annotations

from mlcd.core.job import Topology
from mlcd.core.machines import Deployment
from mlcd.core.task import Task
from mlcd.platforms.base import Node, Process, Tool
from mlcd.platforms.environment import TASK_SECRET, batch_sizes, node_environment, unless_chosen

LEAST_MIB = 512  # Spark refuses a smaller heap for driver and executors
# Of a node's memory; the rest is for Python, the daemons and what a heap does not hold.
_EXECUTOR_SHARE, _DRIVER_SHARE = 0.5, 0.2
_CLOSED = "-Dspark.ui.killEnabled=false"  # its pages show, and end nothing
# Master and worker only look after others: they begin in half the time so, and keep less memory.
_DAEMON_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.master.rest.enabled=false "
    f"-Dspark.master.ui.decommission.allow.mode=DENY {_CLOSED}"
)
_WORKERS_SECONDS = 120  # for all workers to register; then those that have will do

_SPARK = Tool("spark-class", "pip install pyspark")
_JAVA = Tool("java", "sudo apt-get install -y default-jre-headless", "JAVA_HOME")
_NEEDS = f"""
needs() {{ command -v "$1" >/dev/null || {{ echo "[mlcd] platform spark: there is no $1 here; $2" >&2; exit 127; }}; }}
needs {_SPARK.name} "add '{_SPARK.install}' to the job's setup"
[ -n "${{{_JAVA.variable}:-}}" ] || needs {_JAVA.name} "add '{_JAVA.install}' to the job's setup"
export SPARK_LOCAL_DIRS="${{SPARK_LOCAL_DIRS:-$MLCD_WORKDIR.spark}}"
""".lstrip()
# Spark's defaults, the user's own first, in a folder of each process, and what makes the processes of the task one cluster.
_SECRET = f"""
own="${{SPARK_CONF_DIR:-${{SPARK_HOME:-$(dirname "$(command -v {_SPARK.name})")/..}}/conf}}"
export SPARK_CONF_DIR="$MLCD_WORKDIR.spark/conf-$RANK"
mkdir -p "$SPARK_CONF_DIR" && chmod 700 "$SPARK_CONF_DIR"
[ ! -d "$own" ] || cp -r "$own/." "$SPARK_CONF_DIR"
printf '\nspark.authenticate true\nspark.authenticate.secret %s\n' \
    "${{{TASK_SECRET}:?the cloud gives this task no secret}}" >> "$SPARK_CONF_DIR/spark-defaults.conf"
""".lstrip()
_PRELUDE = _NEEDS + _SECRET
AWAIT_MASTER = 'until (exec 3<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2>/dev/null; do sleep 0.2; done\n'
_MASTER = f"{_PRELUDE}exec spark-class org.apache.spark.deploy.master.Master"
_WORKER = f"""{_PRELUDE}{AWAIT_MASTER}export SPARK_WORKER_DIR="${{SPARK_WORKER_DIR:-$MLCD_WORKDIR.spark/work}}"
export PYTHONPATH="$PWD${{PYTHONPATH:+:$PYTHONPATH}}"  # what lies beside the program can be imported in executors, too
exec spark-class org.apache.spark.deploy.worker.Worker "$MASTER\""""


class SparkPlatform:
    """Runs the command once, on the first node, with a cluster of all nodes below it."""

    topologies = (Topology.ALLREDUCE,)
    packages = ("pyspark",)
    launchers = ("spark-submit",)
    tools = (_SPARK, _JAVA)

    def processes(self, task: Task, deployment: Deployment, node: Node) -> tuple[Process, ...]:
        """The node's worker; on the first node also the program, which counts for all, and the master."""
        worker = _process(task, deployment, node, _WORKER, rank=1 + node.rank)
        if node.rank:
            return (worker,)
        master = _process(task, deployment, node, _MASTER, rank=1 + len(node.addresses))
        return _process(task, deployment, node, f"{_PRELUDE}{AWAIT_MASTER}{task.run}", rank=0), master, worker


def _process(task: Task, deployment: Deployment, node: Node, command: str, rank: int) -> Process:
    """The driver is alone in the eyes of who adds up the ranks."""
    alone = {"RANK": str(rank), "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    env = {
        **node_environment(task, deployment, node, processes=1),
        **batch_sizes(deployment, ranks=1),
        **unless_chosen(task, {**_places(node), **_sizes(deployment, node)}),
    }
    return Process(command, {**env, **alone}, serves=rank > 0)


def _places(node: Node) -> dict[str, str]:
    """Where master and worker listen: Spark's own variables."""
    return {
        "MASTER": f"spark://{node.addresses[0]}:{node.port}",
        "SPARK_LOCAL_IP": node.addresses[node.rank],
        "SPARK_MASTER_HOST": node.addresses[0],
        "SPARK_MASTER_PORT": str(node.port),
        "SPARK_MASTER_WEBUI_PORT": "0",
        "SPARK_WORKER_PORT": node.endpoints[node.rank].rpartition(":")[2],
        "SPARK_WORKER_WEBUI_PORT": "0",
    }


def _sizes(deployment: Deployment, node: Node) -> dict[str, str]:
    """The cores and the memory of each node, and that the program waits for the cores of all."""
    properties = {
        "spark.cores.max": node.cores * len(node.addresses),
        "spark.scheduler.minRegisteredResourcesRatio": 1.0,
        "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{_WORKERS_SECONDS}s",
        "spark.ui.showConsoleProgress": "false",  # a bar that is drawn over and over
        "spark.log.level": "WARN",  # of the driver, as `python` has it without us: a log is for what the program says
    }
    return {
        "SPARK_WORKER_CORES": str(node.cores),
        "SPARK_DAEMON_JAVA_OPTS": _DAEMON_OPTIONS,
        **_memory(deployment.offer.instance.memory_gib),
        "SPARK_SUBMIT_OPTS": " ".join([*(f"-D{name}={value}" for name, value in properties.items()), _CLOSED]),
    }


def _memory(gib: float) -> dict[str, str]:
    """Of a node whose memory is known; else Spark takes what it takes by default."""
    if gib <= 0:
        return {}
    shares = {
        "SPARK_WORKER_MEMORY": 1.0,
        "SPARK_EXECUTOR_MEMORY": _EXECUTOR_SHARE,
        "SPARK_DRIVER_MEMORY": _DRIVER_SHARE,
    }
    return {name: f"{max(LEAST_MIB, int(gib * 1024 * share))}m" for name, share in shares.items()}

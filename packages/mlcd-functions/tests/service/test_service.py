"""The function service answers boto3 and awslambdaric as Lambda does."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError

from function_service import PATIENCE_SECONDS, Service, wait_until
from mlcd.clouds.local.preparation import free_ports
from mlcd.clouds.tasks.processes import birth, marked_tasks, seen
from mlcd_functions.lambdas import Lambdas
from mlcd_functions.service.callers import owner_of
from mlcd_functions.service.isolation import why_not
from mlcd_functions.service.starting import announce, running_url, service_url
from mlcd_functions.settings import FunctionsSettings

pytestmark = pytest.mark.slow

ECHO = "def handle(event, context):\n    return {'got': event, 'id': context.aws_request_id}\n"
COUNT = """
import os
calls = 0
def handle(event, context):
    global calls
    calls += 1
    return {'calls': calls, 'pid': os.getpid()}
"""
SLEEP = """
import subprocess, time
def handle(event, context):
    child = subprocess.Popen(['sleep', '1000'], start_new_session=True)
    open(event['file'], 'w').write(str(child.pid))
    time.sleep(1000)
"""
SAY = "def handle(event, context):\n    print('hello', event['name'])\n    return context.get_remaining_time_in_millis()\n"


@pytest.fixture(scope="module")
def one_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("functions") / "service", most_seconds=30)
    yield service
    service.end()


@pytest.fixture
def service(one_service: Service) -> Iterator[Service]:
    yield one_service
    for function in one_service.client.list_functions()["Functions"]:
        one_service.client.delete_function(FunctionName=function["FunctionName"])


def fault(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def test_an_event_goes_to_the_handler_and_its_answer_comes_back(service: Service) -> None:
    service.create("echo", ECHO)
    answer = service.invoke("echo", b'{"x": 1}')
    assert answer["StatusCode"] == 200
    assert "FunctionError" not in answer
    assert json.loads(answer["Payload"])["got"] == {"x": 1}


def test_a_warm_environment_is_used_again_and_only_the_cold_start_is_reported(service: Service) -> None:
    service.create("count", COUNT)
    first, second = service.invoke("count"), service.invoke("count")
    before, after = json.loads(first["Payload"]), json.loads(second["Payload"])
    assert (before["calls"], after["calls"]) == (1, 2)
    assert before["pid"] == after["pid"]
    assert b"Init Duration" in base64.b64decode(first["LogResult"])
    assert b"Init Duration" not in base64.b64decode(second["LogResult"])


def test_other_settings_need_a_new_environment(service: Service) -> None:
    service.create("count", COUNT)
    first = json.loads(service.invoke("count")["Payload"])
    service.client.update_function_configuration(FunctionName="count", MemorySize=512)
    second = json.loads(service.invoke("count")["Payload"])
    assert (second["calls"], second["pid"] != first["pid"]) == (1, True)
    assert service.client.get_function(FunctionName="count")["Configuration"]["MemorySize"] == 512


def test_what_the_handler_prints_is_in_the_log_with_what_is_billed(service: Service) -> None:
    service.create("say", SAY, Timeout=20)
    answer = service.invoke("say", b'{"name": "Ada"}')
    log = base64.b64decode(answer["LogResult"]).decode()
    assert "hello Ada" in log
    duration, init = (float(found) for found in re.findall(r"Duration: ([\d.]+) ms", log)[::2])
    (billed,) = re.findall(r"Billed Duration: (\d+) ms", log)
    assert int(billed) == pytest.approx(duration + init, abs=1.1)
    assert 0 < int(answer["Payload"]) <= 20_000


def test_an_error_of_the_handler_is_told_and_the_environment_lives_on(service: Service) -> None:
    service.create("fail", "def handle(event, context):\n    raise ValueError('no such luck')\n")
    for _ in range(2):
        answer = service.invoke("fail")
        assert answer["FunctionError"] == "Unhandled"
        assert json.loads(answer["Payload"])["errorMessage"] == "no such luck"


def test_a_handler_that_cannot_be_loaded_is_told(service: Service) -> None:
    service.create("broken", "import nothing_by_this_name\n")
    answer = service.invoke("broken")
    assert answer["FunctionError"] == "Unhandled"
    assert "nothing_by_this_name" in json.loads(answer["Payload"])["errorMessage"]


def test_an_event_that_takes_too_long_is_ended_with_all_its_children(service: Service, tmp_path: Path) -> None:
    service.create("sleep", SLEEP, Timeout=2)
    answer = service.invoke("sleep", json.dumps({"file": str(tmp_path / "pid")}).encode())
    assert answer["FunctionError"] == "Unhandled"
    assert "Task timed out after 2.00 seconds" in json.loads(answer["Payload"])["errorMessage"]
    child = int((tmp_path / "pid").read_text())
    wait_until(lambda: not birth(child))


def test_a_process_that_ends_is_told(service: Service) -> None:
    service.create("exit", "import os\ndef handle(event, context):\n    os._exit(7)\n")
    error = json.loads(service.invoke("exit")["Payload"])
    assert (error["errorType"], error["errorMessage"]) == (
        "Runtime.ExitError",
        "Runtime exited with error: exit status 7",
    )


def test_more_memory_than_the_size_ends_it(service: Service) -> None:
    code = "import time\ndef handle(event, context):\n    x = b'1' * (400 << 20)\n    time.sleep(20)\n"
    service.create("greedy", code, MemorySize=128)
    answer = service.invoke("greedy")
    assert answer["FunctionError"] == "Unhandled"
    assert "Max Memory Used: 128 MB" in base64.b64decode(answer["LogResult"]).decode()


def test_no_more_run_at_once_than_were_reserved(service: Service, tmp_path: Path) -> None:
    service.create("sleep", SLEEP, Timeout=20)
    service.client.put_function_concurrency(FunctionName="sleep", ReservedConcurrentExecutions=1)
    event = json.dumps({"file": str(tmp_path / "pid")}).encode()
    assert service.invoke("sleep", event, InvocationType="Event")["StatusCode"] == 202
    wait_until((tmp_path / "pid").exists)
    with pytest.raises(ClientError) as refused:
        service.invoke("sleep", event)
    assert fault(refused) == "TooManyRequestsException"
    assert refused.value.response["Reason"] == "ReservedFunctionConcurrentInvocationLimitExceeded"


def test_no_more_run_at_once_than_the_account_allows(tmp_path: Path) -> None:
    service = Service(tmp_path / "service", concurrency=1)
    try:
        service.create("sleep", SLEEP, Timeout=20)
        event = json.dumps({"file": str(tmp_path / "pid")}).encode()
        service.invoke("sleep", event, InvocationType="Event")
        wait_until((tmp_path / "pid").exists)
        with pytest.raises(service.client.exceptions.TooManyRequestsException):
            service.invoke("sleep", event)
    finally:
        service.end()


LISTEN = """
import pathlib, socket, time
def handle(event, context):
    server = socket.create_server(('0.0.0.0', event['port']))
    own = socket.create_connection(('127.0.0.1', event['port']), timeout=5)
    pathlib.Path(event['ready']).touch()
    while not pathlib.Path(event['over']).exists():
        time.sleep(0.05)
    return 'reached itself'
"""
CONNECT = """
import socket
def handle(event, context):
    try:
        socket.create_connection(('127.0.0.1', event['port']), timeout=5)
    except OSError as error:
        return str(error)
    return 'reached'
"""
FETCH = """
import os, urllib.request
def handle(event, context):
    for name in ('NO_PROXY', 'no_proxy'):  # what is on this computer is elsewhere for a function
        os.environ.pop(name)
    by_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({'http': os.environ['MLCD_PROXY']}))
    return by_proxy.open(event['url'], timeout=20).read().decode()
"""


@pytest.mark.skipif(bool(why_not()), reason=f"functions cannot have networks of their own: {why_not()}")
def test_functions_cannot_reach_each_other(service: Service, tmp_path: Path) -> None:
    service.create("listen", LISTEN, Timeout=30)
    service.create("connect", CONNECT)
    port = free_ports(1)
    event = {"port": port, "ready": str(tmp_path / "ready"), "over": str(tmp_path / "over")}
    with ThreadPoolExecutor() as pool:
        listening = pool.submit(service.invoke, "listen", json.dumps(event).encode())
        wait_until((tmp_path / "ready").exists)
        answer = service.invoke("connect", json.dumps({"port": port}).encode())
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port), timeout=5)
        (tmp_path / "over").touch()
        assert json.loads(listening.result()["Payload"]) == "reached itself"
    assert "refused" in json.loads(answer["Payload"])


@pytest.mark.skipif(bool(why_not()), reason=f"functions cannot have networks of their own: {why_not()}")
def test_functions_get_out_by_http(service: Service) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"this is {self.path}".encode())

    service.create("fetch", FETCH)
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/data?part=1"
        answer = service.invoke("fetch", json.dumps({"url": url}).encode())
        server.shutdown()
    assert json.loads(answer["Payload"]) == "this is /data?part=1"


def test_without_networks_of_their_own_functions_run_all_the_same(tmp_path: Path) -> None:
    service = Service(tmp_path / "service", isolate=False)
    try:
        service.create("echo", ECHO)
        assert json.loads(service.invoke("echo", b'{"x": 1}')["Payload"])["got"] == {"x": 1}
    finally:
        service.end()


def test_an_unknown_function_is_not_found(service: Service) -> None:
    with pytest.raises(service.client.exceptions.ResourceNotFoundException):
        service.invoke("nobody")
    with pytest.raises(service.client.exceptions.ResourceNotFoundException):
        service.client.delete_function(FunctionName="nobody")


def test_a_name_is_given_once(service: Service) -> None:
    service.create("echo", ECHO)
    with pytest.raises(service.client.exceptions.ResourceConflictException):
        service.create("echo", ECHO)


@pytest.mark.parametrize("settings", [{"MemorySize": 10241}, {"Timeout": 31}])
def test_settings_beyond_the_limits_are_refused(service: Service, settings: dict[str, int]) -> None:
    with pytest.raises(service.client.exceptions.InvalidParameterValueException):
        service.create("odd", ECHO, **settings)


def test_deleting_a_function_ends_what_runs_of_it(service: Service, tmp_path: Path) -> None:
    service.create("sleep", SLEEP, Timeout=20)
    event = json.dumps({"file": str(tmp_path / "pid")}).encode()
    service.invoke("sleep", event, InvocationType="Event")
    wait_until(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()))
    service.client.delete_function(FunctionName="sleep")
    child = int((tmp_path / "pid").read_text())
    wait_until(lambda: not birth(child))
    assert service.client.list_functions()["Functions"] == []


def test_killed_it_leaves_nothing_behind(tmp_path: Path) -> None:
    service = Service(tmp_path / "service")
    service.create("sleep", SLEEP, Timeout=20)
    event = json.dumps({"file": str(tmp_path / "pid")}).encode()
    service.invoke("sleep", event, InvocationType="Event")
    wait_until(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()))
    os.kill(service.pid, signal.SIGKILL)
    child = int((tmp_path / "pid").read_text())
    wait_until(lambda: not birth(child))
    wait_until(lambda: not marked_tasks(service.root / "environments"))
    wait_until(lambda: not groups_called(f"mlcd-functions-{service.pid}-"))


def test_the_next_service_begins_when_the_last_one_is_cleared_up(tmp_path: Path) -> None:
    service = Service(tmp_path / "service")
    guard = guard_of(service)
    os.kill(guard, signal.SIGSTOP)
    os.kill(service.pid, signal.SIGKILL)
    starting = threading.Thread(target=service_url, args=(service.root, service.settings))
    starting.start()
    starting.join(2.0)
    assert starting.is_alive()
    os.kill(guard, signal.SIGCONT)
    starting.join(PATIENCE_SECONDS)
    service.end()


def test_what_is_left_of_a_service_and_its_guard_ends_before_the_next_one_begins(tmp_path: Path) -> None:
    service = Service(tmp_path / "service")
    service.create("sleep", SLEEP, Timeout=20)
    event = json.dumps({"file": str(tmp_path / "pid")}).encode()
    service.invoke("sleep", event, InvocationType="Event")
    wait_until(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()))
    for pid in (guard_of(service), service.pid):
        os.kill(pid, signal.SIGKILL)
    child = int((tmp_path / "pid").read_text())
    assert birth(child)
    after = Service(service.root)
    assert not birth(child)
    after.end()


def guard_of(service: Service) -> int:
    """The process that waits for the service's end."""
    lead = service.pid
    children = [each.pid for each in seen() if each.parent == lead]
    return next(pid for pid in children if b"mlcd_functions.service" in Path(f"/proc/{pid}/cmdline").read_bytes())


def groups_called(beginning: str) -> list[str]:
    """Control groups whose name begins so; others may come and go meanwhile, which `os.walk` does not mind."""
    names = (name for _, below, _ in os.walk("/sys/fs/cgroup") for name in below)
    return [name for name in names if name.startswith(beginning)]


def test_only_processes_of_the_same_user_may_call(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    row = "   0: 0100007F:{port:04X} 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  {uid}  0 1\n"
    table.write_text(head + row.format(port=4711, uid=1000) + row.format(port=4712, uid=0))
    assert owner_of("127.0.0.1", 4711, table) == 1000
    assert owner_of("127.0.0.1", 4712, table) == 0
    assert owner_of("127.0.0.1", 4713, table) is None


def test_it_ends_by_itself_when_nobody_needs_it(tmp_path: Path) -> None:
    service = Service(tmp_path / "service", idle_seconds=0.5, warm_seconds=0.2)
    service.create("echo", ECHO)
    service.invoke("echo")
    pid = service.pid
    wait_until(lambda: running_url(service.root) is None)
    wait_until(lambda: not birth(pid))
    with pytest.raises((EndpointConnectionError, ConnectionClosedError)):
        service.invoke("echo")


def test_whoever_calls_a_service_that_has_just_ended_is_answered_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked alive when it was looked for, and was gone when it was called."""
    lambdas = Lambdas(FunctionsSettings(idle_seconds=1.0), tmp_path)
    (tmp_path / "service").mkdir()
    announce(tmp_path / "service", f"http://127.0.0.1:{free_ports(1)}")
    monkeypatch.setattr(lambdas, "_endpoint", _then(lambdas._endpoint, (tmp_path / "service" / "service.json").unlink))
    assert lambdas.concurrency() == 1000


def test_whoever_calls_while_a_service_ends_is_answered(tmp_path: Path) -> None:
    lambdas = Lambdas(FunctionsSettings(idle_seconds=0.3), tmp_path)
    lambdas.concurrency()
    for tenths in range(2, 14):
        time.sleep(tenths / 10)
        assert lambdas.concurrency() == 1000


def _then(act: Callable[[], str], after: Callable[[], None]) -> Callable[[], str]:
    """The same, and something else after the first call."""
    todo = [after]

    def both() -> str:
        given = act()
        while todo:
            todo.pop()()
        return given

    return both

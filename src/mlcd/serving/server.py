"""The process of one model: `python -m mlcd.serving.server '{…}'`, which answers one JSON line with another.

It ends by itself when no request comes for long, when the process that started it has ended and, by a timer of the kernel,
when one answer takes far too long. What the model prints goes to standard error, which is its log.

    guard                      adopts processes that lose their parent, and ends them with the model's process
      └ the model's process    loads and answers
          └ …                  what the model starts, in whatever session
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import resource
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import IO, Any, NoReturn

from mlcd.clouds.tasks.processes import end_descendants
from mlcd.serving.kinds import Kind
from mlcd.serving.loaders import Predict, load

LATE_SECONDS = 5.0  # after the time limit, which whoever started us should have kept
MOST_LOG_BYTES = 64 * 2**20  # of any file that the model writes
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(limits: dict[str, Any]) -> None:
    """Load, say so, and answer until nobody asks."""
    _stand_guard()
    answers = _take_over_output()
    _limit(limits)
    requests = _requests()
    predict = _load(limits, answers)
    while True:
        try:
            request = requests.get(timeout=limits["idle_seconds"])
        except queue.Empty:
            os._exit(0)
        signal.setitimer(signal.ITIMER_REAL, limits["request_seconds"] + LATE_SECONDS)
        answer = _answer(predict, request)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        _send(answers, answer)


def _stand_guard() -> None:
    """Go on as a child; the parent waits for its end, ends all that it started, and ends in the same way."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    guard, child = os.getpid(), os.fork()
    if child == 0:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
        return
    os.close(0)
    os.close(1)  # whoever asks sees the end of the model's process at once
    status = _wait_for(child)
    end_descendants(guard)
    _end_like(status)


def _wait_for(child: int) -> int:
    """The status of the child, once it has ended; orphans that end before are taken note of."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return status


def _end_like(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)


def _take_over_output() -> IO[bytes]:
    """Our answers go where output went; what the model prints goes to the log."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def _limit(limits: dict[str, Any]) -> None:
    memory = int(limits["memory_bytes"])
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_LOG_BYTES, MOST_LOG_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _load(limits: dict[str, Any], answers: IO[bytes]) -> Predict:
    try:
        predict = load(Kind(limits["kind"]), Path(limits["path"]))
    except BaseException as error:  # a model that cannot be loaded may raise anything, SystemExit too
        traceback.print_exc()
        _send(answers, {"error": _words(error)})
        sys.exit(1)
    _send(answers, {"ready": True})
    return predict


def _requests() -> queue.Queue[dict[str, Any]]:
    """What is asked, read in a thread that also notices that nobody is there any more."""
    found: queue.Queue[dict[str, Any]] = queue.Queue()

    def read() -> None:
        for line in sys.stdin.buffer:
            found.put(json.loads(line))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return found


def _answer(predict: Predict, request: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"outputs": predict(request["inputs"], request["dtype"])}
    except Exception as error:  # the user's model may raise anything; the error is the answer
        traceback.print_exc()
        return {"error": _words(error)}


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:2000]


def _send(answers: IO[bytes], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

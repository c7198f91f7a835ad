"""What every command does first and last: get the client, and turn errors and job states into exit codes."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mlcd.cli.screen import note, show_json_line
from mlcd.core.run import JobState
from mlcd.core.view import JobView
from mlcd.errors import MlcdError, TaskFailedError, error_data

if TYPE_CHECKING:
    from mlcd.client import ClientProtocol

NOT_FINISHED = 101
DETACHED = 130  # as after any Ctrl-C; the job goes on
_STATE_CODES = {
    JobState.SUCCEEDED: 0,
    JobState.FAILED: 100,
    JobState.STOPPED: 103,
    JobState.PAUSED: 104,
}


def get_client(context: typer.Context) -> ClientProtocol:
    """The client that the command was given; else that of the server named, or of this computer."""
    if context.obj is None:
        server = context.find_root().params.get("server")
        context.obj = _remote_client(server) if server else _local_client()
    client: ClientProtocol = context.obj
    return client


def _local_client() -> ClientProtocol:
    from mlcd.api import Client

    return Client()


def _remote_client(url: str) -> ClientProtocol:
    from mlcd.remote import RemoteClient, load_token
    from mlcd.settings import read_settings

    return RemoteClient(url, os.environ.get("MLCD_TOKEN") or load_token(read_settings().home, url))


def exit_code(view: JobView) -> int:
    """What the command that waited for this job exits with."""
    return view.record.exit_code or _STATE_CODES.get(view.record.state, NOT_FINISHED)


def print_error(error: MlcdError, *, as_json: bool = False) -> int:
    """Say what happened and what to do next, to programs too if they read JSON; gives the exit code."""
    if as_json:
        show_json_line(error_data(error))
    note(f"Error: {error.message}", "bold red")
    if isinstance(error, TaskFailedError) and error.log_tail:
        note(error.log_tail.rstrip(), "dim")
    if error.hint:
        note(error.hint)
    if os.environ.get("MLCD_DEBUG"):
        traceback.print_exc()
    return error.exit_code


def print_crash(error: BaseException, *, as_json: bool = False) -> int:
    """Say in one line that mlcd itself failed, and where the trace lies."""
    told = f"mlcd failed unexpectedly: {type(error).__name__}: {error}"
    if as_json:
        show_json_line(error_data(MlcdError(told)))
    note(told, "bold red")
    if os.environ.get("MLCD_DEBUG"):
        traceback.print_exc()
    else:
        note(f"The trace is in {_write_trace()}; MLCD_DEBUG=1 shows it here. What runs goes on: see `mlcd status`.")
    return 1


def print_detached(job_id: str) -> int:
    """After Ctrl-C: the job goes on without us."""
    note(f"\nDetached; {job_id} is still running.")
    note(f"mlcd status {job_id}   its state\nmlcd stop {job_id}     end it")
    return DETACHED


def _write_trace() -> str:
    try:
        with tempfile.NamedTemporaryFile("w", prefix="mlcd-trace-", suffix=".txt", delete=False) as file:
            traceback.print_exc(file=file)
            return str(Path(file.name))
    except OSError:
        traceback.print_exc(file=sys.stderr)
        return "the lines above"

"""mlcd on a server: the same verbs as Client, over HTTP. Needs the standard library only.

client = mlcd.RemoteClient("https://mlcd.example.org", token="mlcd_…")
job_id = client.submit(client.load("job.yaml"))      # the job's folder is sent along
"""

from __future__ import annotations

from mlcd.remote.client import RemoteClient
from mlcd.remote.tokens import load_token, save_token

__all__ = ["RemoteClient", "load_token", "save_token"]

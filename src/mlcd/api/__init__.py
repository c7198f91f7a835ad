"""The client of this computer: every verb of mlcd, in process. The command line and the server call this and nothing else.

    client = mlcd.Client()
    job_id = client.submit(client.load("job.yaml"))
    client.start(job_id)                     # a detached controller searches
    for view in client.follow(job_id): ...   # until the plan is there
    client.confirm(job_id)                   # it trains
    for view in client.follow(job_id): ...   # until the model is there

client.py    Client: every verb, most of them one call of the engine
submit.py    checks a job and stores it
limits.py    what a resumed job changes: its state and its limits
"""

from __future__ import annotations

from mlcd.api.client import Client
from mlcd.api.submit import new_job_id

__all__ = ["Client", "new_job_id"]

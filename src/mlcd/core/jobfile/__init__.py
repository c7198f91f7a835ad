"""The job file: a SkyPilot task file with more keys becomes a Job, and a Job the keys of a file again.

    name: digits                  # as in SkyPilot: name, workdir, setup, run, num_nodes, resources, envs, secrets, …
    run: python train.py
    num_nodes: 1..8               # ours: a range,
    work: {epochs: 10, dataset_size: 60000}
    batch_size: 64..1024
    goal: cheapest                # fastest, cheapest or balanced
    deadline: 6h                  # or 2026-11-17T12:00+01:00
    budget: $100

The definition of the keys is the Job itself: each field of core/job.py carries its key (core/keys.py). A new key is
a new field there; all of this follows from it:

    text ── yaml ──▶ data with lines ── read ──▶ fields ── build ──▶ Job       load: the way in
                                         │ keys    sections and entries, from the fields of Job
                                         │ kinds   kinds of value: read and written
                                         │           values, events   without context
                                         │           context          with the file's folder, time, variables
                                         └ errors  every problem with line, key, nearest key
    Job ── dump ──▶ data                                                       the way out

docs/make_reference.py writes the reference from the same keys.
"""

from mlcd.core.jobfile.dump import job_to_dict
from mlcd.core.jobfile.load import LoadedJob, job_from_dict, load, load_job, parse_job

__all__ = ["LoadedJob", "job_from_dict", "job_to_dict", "load", "load_job", "parse_job"]

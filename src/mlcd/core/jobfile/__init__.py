"""The job file: YAML to a Job, and a Job back to the keys of a file.

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

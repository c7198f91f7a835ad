"""The job file: YAML to a Job, and a Job back to the keys of a file."""

from mlcd.core.jobfile.dump import job_to_dict
from mlcd.core.jobfile.load import LoadedJob, job_from_dict, load_job, parse_job

__all__ = ["LoadedJob", "job_from_dict", "job_to_dict", "load_job", "parse_job"]

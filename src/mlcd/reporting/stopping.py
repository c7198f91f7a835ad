"""What stopping a job would lose, and from where it would resume: shown before and after it is stopped."""

from __future__ import annotations

from mlcd.core.run import JobState
from mlcd.core.units import show_duration, show_usd
from mlcd.core.view import JobView


def stopping_loses(view: JobView) -> str:
    """What is lost if the job is stopped now; empty: nothing to speak of."""
    if view.record.stop_asked:
        return ""
    if view.record.state is JobState.SEARCHING:
        return _probes_lost(view)
    return _training_lost(view) if view.record.state is JobState.TRAINING else ""


def goes_on_from(view: JobView) -> str:
    """Where a training that rests goes on: 'from 12,000 samples'; empty where none has begun."""
    if not view.run.attempts:
        return ""
    if view.saved_samples > 0:
        return f"from {view.saved_samples:,.0f} samples, its newest checkpoint"
    return "from nothing: there is no checkpoint"


def _probes_lost(view: JobView) -> str:
    if not view.running:
        return ""
    count = len(view.running)
    probes = "The probe at work teaches" if count == 1 else f"The {count} probes at work teach"
    return f"{probes} nothing then; so far this cost {show_usd(sum(live.usd for live in view.running))}."


def _training_lost(view: JobView) -> str:
    """A program may save a checkpoint on SIGTERM; mlcd cannot know whether it will."""
    done, saved = view.samples_done, view.saved_samples
    if done <= saved:
        return ""
    grace = show_duration(view.record.job.checkpoint.grace_seconds)
    unless = f"unless the program saves within {grace} of SIGTERM"
    if saved > 0:
        return f"The newest checkpoint has {saved:,.0f} samples: {done - saved:,.0f} more are lost, {unless}."
    return f"There is no checkpoint: all {done:,.0f} samples are lost, and resume starts from nothing, {unless}."

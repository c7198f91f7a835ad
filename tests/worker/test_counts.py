from mlcd.worker.counts import Counts


def test_nothing_is_counted_at_first() -> None:
    assert Counts().now[1:] == (0, 0.0)


def test_a_loop_is_believed_before_the_optimizers_hook() -> None:
    counts = Counts()
    counts.set_hooked(1, 32)
    counts.add_loop(1, 16)
    counts.add_loop(1, 16)
    counts.set_hooked(2, 64)
    assert counts.now[1:] == (2, 32)


def test_samples_told_by_the_program_are_believed_before_all_else() -> None:
    counts = Counts()
    counts.add_loop(3, 30)
    counts.tell(None, 300)
    assert counts.now[1:] == (3, 300)


def test_a_step_told_beside_a_metric_does_not_replace_what_was_counted() -> None:
    counts = Counts()
    counts.set_hooked(500, 16000)
    counts.tell(2, None)
    assert counts.now[1:] == (500, 16000)


def test_steps_told_alone_are_multiplied_by_the_local_batch_size() -> None:
    counts = Counts(local_batch_size=8)
    counts.tell(10, None)
    assert counts.now[1:] == (10, 80)


def test_what_was_told_never_falls() -> None:
    counts = Counts()
    counts.tell(None, 100)
    counts.tell(None, 50)
    assert counts.now.samples == 100


def test_samples_told_without_a_step_are_a_step_each_time_they_grow() -> None:
    counts = Counts()
    for samples in (32, 64, 64, 96):
        counts.tell(None, samples)
    assert counts.now[1:] == (3, 96)

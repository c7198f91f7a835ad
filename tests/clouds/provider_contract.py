"""The contract of a cloud that rents machines elsewhere: what a provider adds to the machines they all share."""

from __future__ import annotations

from mlcd.testing import CloudContract


class ProviderContract(CloudContract):
    """The promises that depend on the provider; those of runners and agents are tested behind ssh (tests/clouds/remote)."""

    patience_seconds = 120.0

    test_a_handle_is_a_plain_string = None
    test_its_times_are_in_order = None
    test_stopping_right_after_the_launch_ends_a_task = None
    test_stopping_twice_is_quiet = None
    test_money_grows_while_it_runs_and_no_longer = None
    test_a_cloud_opened_again_still_knows_what_ended = None
    test_a_task_ends_at_its_time_limit = None
    test_a_failing_task_fails_and_costs_what_it_cost = None

"""Machines elsewhere: what every cloud needs whose machines are reached over a network.

    RemoteCloud.launch ──► task runner (detached) ──► agent (on each machine) ──► the user's program
         │                     │  machines, code, setup, lease          │  process groups, limit, lease, notice
         └── status, stop ◄────┤                                        │
                               └── logs, progress, checkpoints, outputs ◄┘

- The *agent* (agent/) lives on the machine and owes nothing to anyone at home: it keeps the time limit and the lease.
- The *task runner* (RemoteTask in task.py, see mlcd.clouds.tasks) lives at home, in home/<cloud>/tasks/<task id>/. It may be
  killed at any line: the next `status` or `launch` starts another one, which takes over by what it finds there, on the
  machines, and in the provider's records. Nothing is launched twice.
- collect.py ends a task: stops its programs, downloads what they made, gives the machines back or keeps them warm for the
  job's next task (warm_pool.py).

To build a cloud on it, bring two things (base.py has their promises) and one class:

    Machines     acquire, locate, find, release, …: rents machines, finds them again, gives them back
    Reach        run, put, read, write, fetch: the way to one machine; SshReach in ssh.py is one
    a subclass of cloud.RemoteCloud
        provider     "module:function" that opens your Machines in the runner's process
        options      what that function needs to know; no secrets
        machines     the same Machines, for what is to be ended without a runner
        offers, expected_probe, owned    what is for sale, how long a probe takes, what still costs money
        charges, refuse                  only where the common ones do not do
        life         only where the provider knows more of an end than agents and runner do, as Slurm of its jobs

Pass mlcd.testing.CloudContract with it, and kill the runner: the task must go on.
"""

"""Machines elsewhere: what every cloud needs whose machines are reached over a network.

    RemoteCloud.launch ──► runner (detached, one for each task) ──► agent (on each machine) ──► the user's program
         │                     │  machines, code, setup, lease          │  process groups, limit, lease, notice
         └── status, stop ◄────┤                                        │
                               └── logs, progress, checkpoints, outputs ◄┘

- The *agent* (agent/) lives on the machine and owes nothing to anyone at home: it keeps the time limit and the lease.
- The *runner* (runner.py, task.py) lives at home, in home/<cloud>/tasks/<task id>/. It may be killed at any line:
  the next `status` or `launch` starts another one, which takes over by what it finds there, on the machines, and in the
  provider's records. Nothing is launched twice.
- A cloud brings two things (base.py): `Machines`, who rents, finds and gives back; and `Reach`, the way to one machine.
  ssh.py is a Reach; others can be written for Ray, Kubernetes and the like.

To make a cloud of it, subclass cloud.RemoteCloud, say where `Machines` come from, and what they cost.
"""

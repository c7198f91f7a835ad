"""One family of task runners: what all clouds share that execute tasks themselves.

Every task has a *task runner*, a detached process that looks after it to its end. It owes nothing to whoever launched it:
both may be killed at any line, and the next one finds the task by its folder, home/<cloud>/tasks/<task id>/.

    RunnerCloud.launch ──► python -m mlcd.clouds.tasks.runner ──► TaskLife ──► programs on nodes
         │                        (one at a time, by a lock)          │
         └── status, stop ◄── spec.json, state.json, stop ◄── Recorder ┘

At home:
    cloud        RunnerCloud: launch, status, stop, for LocalCloud, RemoteCloud and FunctionsCloud
    launch       starts a runner, once, or again where one was killed
    runner       the process itself: leaves its parent, reads the secrets, loads the cloud's TaskLife
    life         TaskLife: from the first step to the final state, whatever happens
    files        the task's folder: what was asked for (TaskSpec), how it stands (RunnerState)
    recorder     the one writer of the state, also on a full disk
    outcome      how a task ended: a typed cause, and words for people
    status, progress    what the runner wrote, as a TaskStatus      diagnosis   why a program failed
    watch        what a runner waits for: signals, the limit, its folders

Where the program runs (standard library only: they travel, see NODE_FILES):
    node         the life of a node's program: restore, run, follow what it saves, end in order, collect
    programs     process groups that die with whoever started them: start, watch, end
    environment  the variables that it gets        meter, gpus   what it uses of what was rented
    copies, outputs, snapshots, formats, processes, signals      what these are made of

The border. A cloud says where programs run, how bytes get there and back, and who is paid:
    a RunnerCloud   `offers`, `owned`, `make_spec`, `charges`, `refuse`      what is for sale, and what it costs
    a TaskLife      `_steps`                                                 local: cores → copies → setup → run
                                                                             remote: machines → agents → setup → run
                                                                             functions: upload → generations
Machines that are reached over a network need less: see mlcd.clouds.remote.
"""

"""What runs on a rented machine and looks after one node of a task there.

It is sent to the machine with the worker (see mlcd.clouds.remote.archives) and started as
`python3 -m mlcd.clouds.remote.agent start FOLDER`, its spec on standard input. Standard library only, Python 3.9 or
newer. It outlives the connection that started it, and keeps time limit and lease by itself.

CONTROL/             in memory where the machine has a place for it, so that a full disk is no end of talking
    state.json       how it stands, about once a second: phase, exit codes, what has grown; see life.py
    go               there when setup is done on all nodes and the program may start
    stop             there when the program shall end

FOLDER/
    log              of setup and program
    progress/        what the ranks report
    checkpoints/     committed by the program, through the worker
    snapshots/       committed by the agent, of a folder to which the program saves by itself
    outputs/         what the program hands back
    copy/            the working copy, where the program runs
"""

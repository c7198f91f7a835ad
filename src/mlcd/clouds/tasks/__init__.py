"""What all clouds need that execute tasks themselves: here, on machines elsewhere, or in functions.

    files        the folder by which a task is found, and its secrets until they are handed on
    launch       starts the task runner: one at a time, whoever starts it
    status       what the runner wrote, as a TaskStatus
    watch        what a runner listens to while it waits              (signals: which)
    copies, outputs, snapshots, environment, processes, diagnosis, progress    around the user's program

Parts of it travel to machines and functions: see remote.parcels and functions.package.
"""

"""What all clouds need that execute tasks themselves: here, on machines elsewhere, or in functions.

    files        the folder by which a task is found, and its secrets until they are handed on
    keepers      the process that looks after a task: one at a time, whoever starts it
    telling      what the keeper wrote, as a TaskStatus
    watch        what a keeper listens to while it waits              (signals: which)
    copies, outputs, snapshots, environment, processes, diagnosis, following    around the user's program

Parts of it travel to machines and functions: see remote.sending and functions.package.
"""

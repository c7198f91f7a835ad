"""The parameter store in Valkey or Redis servers, for workers that cannot reach each other.

store        ValkeyStore: parcels as values, flags as entries of streams
inbox        what comes for one worker: flags, and the parcels that they announce
connection   Connection waits for each reply; Pipeline sends and receives without blocking
selector     all pipelines of a worker, moved by the thread that waits
commands     commands in the protocol of Redis
keys         the names of keys, and how a task's keys are removed
"""

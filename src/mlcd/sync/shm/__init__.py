"""The parameter store in shared memory, for workers on one machine.

store     SharedMemoryStore: parcels in slots, flags as counters
segment   the file of shared memory with these slots and counters
buffers   gradients that lie in shared memory from the start, so that nothing is copied
"""

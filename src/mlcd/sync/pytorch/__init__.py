"""PyTorch on top of mlcd.sync: DistributedDataParallel on workers that cannot reach each other.

hook      makes init_process_group() and new_group() use the backend `mlcd`, whatever the program asks for
backend   the backend: torch's collective operations, done by a mlcd.sync Group in a thread
work      what torch waits for, and the conversion between tensors and arrays
store     torch's key-value store, on the server that carries the gradients

Nothing is imported here: the modules import torch, and the program must be the first to do so.
"""

"""Watches a PyTorch program that does not call mlcd: counts its steps and samples, and measures its gradient noise.

hooks         installed by startup.py when the program imports torch; they count steps, batches and saves
model_size    how many parameters are trained
noise         with MLCD_NOISE=1: decides at which steps to measure, and passes the norms to mlcd.worker.noise
step_sample   the hooks of one measured step
probes        how the norms are found: in one process, and with DistributedDataParallel
norms         squared norms, computed without waiting for the device

Nothing is imported here: the modules import torch, and the program must be the first to do so. The package is not called
`torch`, so that a program that is run with mlcd/worker in its path still finds the real one.
"""

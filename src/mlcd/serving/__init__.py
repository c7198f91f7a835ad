"""Trying a model that a training handed back: each model runs in a process of its own, with limits."""

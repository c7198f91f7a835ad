"""Watches a Keras program that does not call mlcd: counts the steps of `fit`, reports its metrics, ends it when it is time.

train_function   what `fit` calls for every step: it counts, and measures the gradient noise where asked to
callbacks        acts when Keras calls the program's callbacks: metrics, and the beginning and end of `fit`
totals           what was counted over all models
counter          steps and samples, counted in the graph
noise            with MLCD_NOISE=1: at which steps to measure, and what becomes of the norms
gradient_probe   the norms of a measured step, worked out in its graph

It is for Keras 3 on TensorFlow: `fit` and `train_on_batch`, with a train_step of the program's own or without, on one device or on
several with MirroredStrategy. Nothing is imported here: the modules import TensorFlow, and the program
must be the first to do so. The package is not called `keras`, so that a program that is run with mlcd/worker in its path still finds the
real one.
"""

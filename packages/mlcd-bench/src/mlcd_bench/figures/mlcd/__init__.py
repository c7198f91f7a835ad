"""Of the MLCD paper: `testbed` has its machines and models, `motivation` figures 1 to 5, `figures` its searches."""

"""What functions at AWS run beside the program: a layer where it fits, else a container image.

    requirements.txt ──► lock (names, versions, hashes, sizes) ──► sizes against AWS's limits ──┬─► layer   python/… as a zip
                                                                                                └─► image   Dockerfile, lock, handler

Nothing is downloaded before the lock says that it may fit, and nothing is uploaded before its size is known.
"""

"""Where decisions meet effects, and nowhere else: probing, searching, training, sweeping."""

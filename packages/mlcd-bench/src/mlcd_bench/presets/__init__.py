"""Presets: a paper's figure as something to play, beside what the paper says.

preset      what one is made of, and all there are by name
runner      plays one; `every` plays all, one on each core, and `summary` says what came out
command     `mlcd bench --preset`
"""

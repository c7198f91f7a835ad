"""Of the SMLT paper.

testbed     functions: memory sizes × numbers, and three ways to exchange gradients
motivation  figures 1 to 3; `figures` the single jobs
workflows   figures 11 to 13; `stages` has their phases
"""

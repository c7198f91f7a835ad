"""How far off mlcd's performance models are: what `mlcd bench models` runs.

measurements   recorded steps and samples; `data` makes jobs of them
evaluation     each job foretold from the others, full, partial and universal
command        the command and its tables
"""

"""The figures of the papers as presets: a folder for each paper, with its testbed, what is played on it, and what is claimed.

mlcd        HeterBO's searches under a deadline or a budget
fc2         clusters around one parameter server
scavenger   nodes and batch sizes by models; gradient noise
smlt        functions, for one job and for workflows

`mlcd_bench.presets` plays them and shows what came out.
"""

"""Search strategies measured against an oracle on recorded deployments: what `mlcd bench` runs.

    from mlcd_bench.cases import read_cases
    from mlcd_bench.runner import Bench, run_bench
    from mlcd_bench.strategies import parse_strategy
    from mlcd_bench.summary import summarize

    bench = Bench(read_cases(["traces/gpu_training.csv", "synthetic:7"]), (parse_strategy("heterbo"),), seeds=5)
    results = run_bench(bench, jobs=2)         # jobs=0: in this process, for a debugger or a searcher of one's own
    for row in summarize(results.episodes):
        print(row)

One episode, with any object that has `suggest(study)`:

    from mlcd_bench.episode import run_episode
    from mlcd_bench.protocol import Rules, Scenario, set_problem

    problem = set_problem(case, Scenario.BUDGET, hours=24.0, slack=2.0)
    episode = run_episode(problem, "mine", searcher, seed=0, rules=Rules())

`synthetic:SEED` names a trace of random but realistic workloads that nobody has looked at: the check that a
strategy was not tuned to the traces at hand.
"""

"""A function service on this computer that speaks AWS Lambda's own protocols.

    boto3 ──► front.py       REST: CreateFunction … Invoke (sync and async), with Lambda's error codes
                 │
              pool.py        warm or cold environment, concurrency limits, warm ones kept for a while
                 │
              environment.py one process for each: INIT → IDLE ⇄ BUSY → gone
                 │
    awslambdaric ◄── runtime.py   the Runtime API of one environment: next, response, error, init error

One detached process for each home, found by `service.json` in its folder and started when it is needed
(starting.py). Memory and CPU share go by memory size (limits.py); every invocation leaves a log and a line in
`invocations.jsonl` (reports.py). Whatever way the service ends, a guard ends its environments.
"""

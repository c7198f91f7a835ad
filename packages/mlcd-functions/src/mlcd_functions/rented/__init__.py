"""A parameter store on a machine of EC2, rented for one task on functions and billed with it.

    FunctionTask ──► RentedStore ──► a task of the cloud ec2, beside ours: TASK+store-1
                                       its runner rents the machine, renews its lease and gives it back
                                       its agent runs serve.py, which runs Valkey
    functions ─────────────────────► Valkey, by the machine's private address

    plan      type, price, place and password, decided when the task is launched
    store     launches the store, waits until it answers, ends it; another one where it was lost
    serve     what runs on the machine
    checks    `mlcd check functions`

Everything that renting needs is the cloud ec2's: tags, leases, tokens, the bill, a runner that may be killed. The password is
made here. It goes to the machine by ssh, as all secrets of tasks do, and to the functions with their instructions: it is in
no user data and no tag, on no command line, and in no log.
"""

"""An EC2 of your own on one Linux computer: the real API, and hosts that boot, compute and break.

    command          `mlcd emulate up|down|status|fault`
    client           the same as functions, for tests
    needs            what the computer must have: root, Linux, a few tools
    emulation        the names by which everything of one emulation is found
    process          the main process: the endpoint and the reconciler
    reconciler       makes the hosts match the API and the API match the hosts
    machine          an instance of the API together with its host
    host             one emulated host: namespaces, a disk, limits, sshd
    image            the files that hosts have besides this computer's (files/host_init.sh is their first process)
    network          the switch, the links and what can go wrong on them
    cgroups          CPU and memory limits, version 1 and 2
    scale            what an instance type is worth here: the one factor   (pure)
    credits          CPU time that a host may take beyond its share        (pure)
    shares           the process that limits hosts to their shares
    metadata         the instance metadata service at 169.254.169.254
    cleanup          removes an emulation by its names, whoever made it
    fault_injection  makes hosts and the API fail
    api/             EC2's protocol: what moto lacks, and the faults of the API

The clouds know nothing of this package: for them only the endpoint differs.
"""

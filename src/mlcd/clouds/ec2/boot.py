"""What a machine does when it boots: it makes our folders, and ends itself when its lease runs out.

The lease is a moment in /run/mlcd/lease that the runner moves on. The agent ends program and machine when it is past;
this loop is for the time before there is an agent, and for when it is gone.
"""

from __future__ import annotations

import shlex

CONTROL = "/run/mlcd"
BASE = "/var/lib/mlcd"
POWER_OFF = "sudo -n poweroff || poweroff || sudo -n shutdown -h now || shutdown -h now"
_LATE_SECONDS = 60  # what the loop waits for beyond the lease: the agent ends the program in order first

_SCRIPT = """#!/bin/bash
mkdir -p {control} {base}
echo $(($(date +%s) + {lease})) > {control}/lease
chown -R {user} {control} {base}
cp "$0" /var/lib/cloud/scripts/per-boot/mlcd-lease 2>/dev/null
cat > {base}/lease-loop <<'LOOP'
until=$(($(date +%s) + {lease}))
while sleep 2; do
    read -r known < {control}/lease 2>/dev/null && [ "$known" -gt 0 ] 2>/dev/null && until=$known
    if [ "$(date +%s)" -gt $((until + {late})) ]; then
        poweroff || shutdown -h now || echo o > /proc/sysrq-trigger
        sleep 20
    fi
done
LOOP
setsid nohup bash {base}/lease-loop </dev/null >/dev/null 2>&1 &
"""


def boot_script(user: str, lease_seconds: float) -> str:
    """The user data of a machine."""
    late = min(_LATE_SECONDS, int(lease_seconds))
    return _SCRIPT.format(control=CONTROL, base=BASE, user=shlex.quote(user), lease=int(lease_seconds), late=late)

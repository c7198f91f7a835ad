#!/bin/sh
# As much of cloud-init as boot scripts use: whether the user data has run.
[ "$1" = status ] || { echo "cloud-init $*: not in an emulated host" >&2; exit 1; }
[ "$2" != --wait ] || until [ -f /var/lib/cloud/instance/boot-finished ]; do sleep 0.2; done
[ -f /var/lib/cloud/instance/boot-finished ] && echo 'status: done' || echo 'status: running'

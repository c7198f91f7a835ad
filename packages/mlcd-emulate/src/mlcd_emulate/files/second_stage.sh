# What the first process of an emulated host does once it lives in its own root.
# Its exit status tells the reconciler why the host ended: 10 powered off, 11 wants to boot again.
umount -l /.old
rmdir /.old
cd /
trap 'exit 10' USR2
trap 'exit 11' HUP
export MLCD_EMULATED_BOOT=1 # tells what came with the boot from what came later by ssh
instance=/var/lib/cloud/instance
"$(command -v sshd)" -D -e &
{
  script=$instance/user-data.txt
  if [ "$(head -c 2 "$script" 2>/dev/null)" = '#!' ]; then
    "$script" >/var/log/cloud-init-output.log 2>&1
  fi
  date >"$instance/boot-finished"
} &
# Adopted processes are reaped by the shell itself while it waits.
while :; do
  sleep infinity &
  wait $!
done

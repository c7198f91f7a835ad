#!/bin/bash
# The first process of an emulated host: builds its root, enters it, and runs sshd and the user data.
#
# HOST_FOLDER   what the host is booted from: seed (its own files), folders (to show or hide), user-data
# HOST_IMAGE    files that all hosts have
# HOST_NAME HOST_DISK_MIB HOST_MEMORY_MIB
set -e
root=$HOST_FOLDER/root disk=$HOST_FOLDER/disk
mkdir -p "$root" "$disk"

# The disk: a full one gives ENOSPC to this host alone, and what is written there takes none of the host's memory for
# good, as a file system in memory would. It goes when the host's mounts go, with its processes.
rm -f "$disk.img"
truncate --size="${HOST_DISK_MIB}M" "$disk.img"
mkfs.ext4 -q -F -b 4096 -i 16384 -m 0 -O ^has_journal -E lazy_itable_init=1,nodiscard "$disk.img"
for _ in 1 2 3 4 5; do # another host may have taken the loop device that was free
  ! mount -o loop,noatime,nobarrier,noinit_itable "$disk.img" "$disk" || break
  sleep 0.2
done
mountpoint -q "$disk"
rm "$disk.img"
layer() { # what to look through, and where to show it: reads come from this computer, writes stay in the host
  mkdir -p "$disk/$3/upper" "$disk/$3/work"
  mount -t overlay -o "lowerdir=$1,upperdir=$disk/$3/upper,workdir=$disk/$3/work" overlay "$2"
}
mkdir -p "$disk/0/upper"
cp -a "$HOST_IMAGE/." "$HOST_FOLDER/seed/." "$disk/0/upper/"
layer / "$root" 0
number=0
while read -r verb folder; do
  number=$((number + 1))
  case $verb in
    show) # a file system of this computer that the root alone does not show
      mkdir -p "$root$folder"
      layer "$folder" "$root$folder" "$number" || echo "$folder cannot be shown" ;;
    hide) # what a machine of its own would not have
      [ -d "$root$folder" ] || continue
      mkdir "$disk/$number"
      chmod --reference="$folder" "$disk/$number"
      mount --bind "$disk/$number" "$root$folder" ;;
  esac
done <"$HOST_FOLDER/folders"

mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys" # what is set there is set for the whole computer
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o size=16m,mode=755 tmpfs "$root/run"
mount -t tmpfs -o size=1m,mode=755 tmpfs "$root/dev"
for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
  IFS=: read -r name major minor <<<"$device"
  mknod -m 666 "$root/dev/$name" c "$major" "$minor"
done
[ ! -e "$root/proc/sysrq-trigger" ] || mount --bind "$root/dev/null" "$root/proc/sysrq-trigger" # likewise
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
ln -s pts/ptmx "$root/dev/ptmx"
mkdir "$root/dev/pts" "$root/dev/shm" "$root/run/sshd" "$root/run/lock"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o "size=$((HOST_MEMORY_MIB / 2))m,mode=1777" tmpfs "$root/dev/shm"
sed "s/^MemTotal:.*/MemTotal:       $((HOST_MEMORY_MIB * 1024)) kB/" /proc/meminfo >"$root/run/meminfo"
mount --bind "$root/run/meminfo" "$root/proc/meminfo"

hostname "$HOST_NAME"
rm -f "$root"/etc/ssh/ssh_host_*
ssh-keygen -q -t ed25519 -N '' -C "$HOST_NAME" -f "$root/etc/ssh/ssh_host_ed25519_key"
echo '-----BEGIN SSH HOST KEY KEYS-----'
cat "$root/etc/ssh/ssh_host_ed25519_key.pub"
echo '-----END SSH HOST KEY KEYS-----'
mkdir -p "$root/var/lib/cloud/instance" "$root/.old"
[ ! -f "$HOST_FOLDER/user-data" ] || install -m 700 "$HOST_FOLDER/user-data" "$root/var/lib/cloud/instance/user-data.txt"

cd "$root"
pivot_root . .old
exec chroot . /bin/bash /usr/lib/mlcd-emulate/second_stage

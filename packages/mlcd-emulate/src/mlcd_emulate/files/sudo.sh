#!/bin/sh
# sudo for an emulated host whose computer has none: root has no password here, and none is asked for.
while :; do
  case $1 in
    -u | -g) [ "$1 $2" = '-u root' ] || { echo "sudo: only root can be become here" >&2; exit 1; }; shift 2 ;;
    --) shift; break ;;
    -*) shift ;;
    *) break ;;
  esac
done
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
[ "$(id -u)" != 0 ] || exec "$@"
exec su root -s /bin/sh -c 'exec "$@"' -- sh "$@"

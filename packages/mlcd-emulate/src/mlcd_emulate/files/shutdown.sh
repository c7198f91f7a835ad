#!/bin/sh
# shutdown, poweroff, halt and reboot of an emulated host: they end its first process, which only root may.
asked=$(basename "$0") when=now signal=USR2
[ "$asked" != reboot ] || signal=HUP
for word in "$@"; do
  case $word in
    -r | --reboot) signal=HUP ;;
    -c) [ ! -f /run/shutdown.pid ] || kill "$(cat /run/shutdown.pid)" 2>/dev/null; rm -f /run/shutdown.pid; exit 0 ;;
    -*) ;;
    now) when=now ;;
    +*) when=${word#+} ;;
    *:*) when=$((($(date -d "$word" +%s) - $(date +%s) + 59) / 60)); [ "$when" -ge 0 ] || when=$((when + 1440)) ;;
    *) [ "$asked" != shutdown ] || [ -n "${seen-}" ] || when=$word ;;
  esac
  case $word in -*) ;; *) seen=1 ;; esac
done
[ "$asked" != shutdown ] || [ -n "${seen-}" ] || when=1
if [ "$when" = now ] || [ "$when" = 0 ]; then
  kill -s "$signal" 1
  exit
fi
case $when in '' | *[!0-9]*) echo "$asked: cannot read the time '$when'" >&2; exit 1 ;; esac
kill -s 0 1 || exit 1
setsid sh -c "sleep $((when * 60)); kill -s $signal 1" </dev/null >/dev/null 2>&1 &
echo $! >/run/shutdown.pid
echo "Shutdown scheduled, use 'shutdown -c' to cancel."

#!/usr/bin/env bash
# An etcd of three members on this machine's loopback, for tests and to try things by hand.
set -euo pipefail

usage() {
  cat <<'END'
usage: scripts/etcd.sh start [FOLDER]      starts the members, or those that do
                                           not run, waits until they answer, and
                                           prints their endpoints
       scripts/etcd.sh start FOLDER N      starts member N (1 to 3)
       scripts/etcd.sh stop [FOLDER] [N]   ends them all, or one; what they hold
                                           stays in FOLDER
       scripts/etcd.sh pause FOLDER N      stops member N where it stands
       scripts/etcd.sh resume FOLDER N     lets it go on

FOLDER (default: ddprun-etcd in TMPDIR or /tmp) has data, logs, ports and
process ids. The endpoints, 127.0.0.1:P1,127.0.0.1:P2,127.0.0.1:P3, are what
--rdzv-endpoint takes:

  ddprun --rdzv-backend=etcd --rdzv-endpoint=$(scripts/etcd.sh start) ...

Needs etcd and etcdctl (Debian: apt-get install etcd-server etcd-client).
END
}

fail() {
  echo "etcd.sh: $*" >&2
  exit 1
}

# Of member $1: its process, if it runs. A process id may have been given to another program meanwhile.
pid_of() {
  local pid
  pid=$(cat "$folder/pid$1" 2>/dev/null) || return 1
  grep -qzxF "$folder/m$1" "/proc/$pid/cmdline" 2>/dev/null && echo "$pid"
}

# Ports that nobody has now: those of clients, then those among members.
choose_ports() {
  python3 - <<'END'
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(6)]
print(*(s.getsockname()[1] for s in sockets))
END
}

start_member() {
  local i=$1
  if pid_of "$i" >/dev/null; then return; fi
  setsid etcd --name "m$i" --data-dir "$folder/m$i" --log-level warn \
    --listen-client-urls "http://127.0.0.1:${ports[i - 1]}" --advertise-client-urls "http://127.0.0.1:${ports[i - 1]}" \
    --listen-peer-urls "http://127.0.0.1:${ports[i + 2]}" --initial-advertise-peer-urls "http://127.0.0.1:${ports[i + 2]}" \
    --initial-cluster "m1=http://127.0.0.1:${ports[3]},m2=http://127.0.0.1:${ports[4]},m3=http://127.0.0.1:${ports[5]}" \
    </dev/null >>"$folder/m$i.log" 2>&1 &
  echo $! >"$folder/pid$i"
}

endpoints() { echo "127.0.0.1:${ports[0]},127.0.0.1:${ports[1]},127.0.0.1:${ports[2]}"; }

# Each of the members $@.
wait_until_healthy() {
  local i until=$((SECONDS + 60))
  for i in "$@"; do
    until ETCDCTL_API=3 etcdctl --endpoints "127.0.0.1:${ports[i - 1]}" --command-timeout 2s endpoint health >/dev/null 2>&1; do
      pid_of "$i" >/dev/null || { tail -n 5 "$folder/m$i.log" >&2 && fail "member $i has ended, see above"; }
      [ $SECONDS -lt $until ] || fail "member $i does not answer; its log: $folder/m$i.log"
      sleep 0.1
    done
  done
}

end_member() {
  local pid
  pid=$(pid_of "$1") || return 0
  kill -TERM "$pid" 2>/dev/null || true
  kill -CONT "$pid" 2>/dev/null || true
  for _ in {1..50}; do
    pid_of "$1" >/dev/null || break
    sleep 0.1
  done
  if pid_of "$1" >/dev/null; then kill -KILL "$pid" 2>/dev/null || true; fi
  rm -f "$folder/pid$1"
}

signal_member() {
  local pid
  pid=$(pid_of "$2") || fail "member $2 does not run"
  kill "-$1" "$pid"
}

case ${1-} in
  start | stop | pause | resume) ;;
  -h | --help) usage && exit ;;
  *) usage >&2 && exit 2 ;;
esac
what=$1
folder=$(realpath -m "${2:-${TMPDIR:-/tmp}/ddprun-etcd}")
members=(1 2 3)
if [ $# -gt 2 ] || [[ $what = pause || $what = resume ]]; then
  [[ $# -eq 3 && $3 =~ ^[123]$ ]] || { usage >&2 && exit 2; }
  members=("$3")
fi

case $what in
  start)
    command -v etcd >/dev/null && command -v etcdctl >/dev/null ||
      fail "no etcd and etcdctl here; Debian: apt-get install etcd-server etcd-client"
    mkdir -p "$folder"
    [ -e "$folder/ports" ] || choose_ports >"$folder/ports"
    read -ra ports <"$folder/ports"
    for i in "${members[@]}"; do start_member "$i"; done
    wait_until_healthy "${members[@]}"
    endpoints
    ;;
  stop) for i in "${members[@]}"; do end_member "$i"; done ;;
  pause) signal_member STOP "${members[0]}" ;;
  resume) signal_member CONT "${members[0]}" ;;
esac

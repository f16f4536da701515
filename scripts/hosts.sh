#!/usr/bin/env bash
# Test hosts on this machine: network namespaces on a switch of their own.
set -euo pipefail

usage() {
  cat <<'END'
usage: scripts/hosts.sh up SET N              makes host0 .. hostN-1, at most 10
       scripts/hosts.sh exec SET I COMMAND    runs COMMAND on host I
       scripts/hosts.sh switch SET COMMAND    runs COMMAND on the switch, whose
                                              bridge br0 sees what all hosts
                                              say
       scripts/hosts.sh cut SET I             takes host I off the network
       scripts/hosts.sh part SET I ...        takes these hosts off the
                                              network; they still see each
                                              other
       scripts/hosts.sh mend SET I ...        brings hosts back
       scripts/hosts.sh apart SET I J ...     loses what host I and each of the
                                              others say to each other
       scripts/hosts.sh together SET I J ...  no longer
       scripts/hosts.sh down SET              removes them all, with what still
                                              runs there

Hosts for jobs of several nodes on one machine, for tests and to try things by
hand: each has its own network, name (hostI) and /etc/hosts. Host I has the
addresses 10.99.0.1I and fd99::1I; the name hostI means both, hostI-v4 and
hostI-v6 one of them. SET is a word without a '/'; sets do not see each other,
and nothing of them is on the machine's own network. A set whose name begins
with a process id and '-' goes with the next "up" after that process has ended.

Needs root, iproute2 and util-linux.
END
}

namespace() { echo "ddprun-$1-$2"; }

# $1: a regular expression for the set.
namespaces_of() {
  find /run/netns -maxdepth 1 -regex "/run/netns/ddprun-$1-\\(switch\\|[0-9]\\)" -printf '%f\n' 2>/dev/null || true
}

remove() {
  local name
  for name in $(namespaces_of "$1"); do
    ip netns pids "$name" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
    ip netns del "$name" 2>/dev/null || true
    rm -rf "/etc/netns/$name"
  done
}

remove_leftovers() {
  local name pid
  for name in $(namespaces_of '[0-9]+-[^/]*'); do
    name=${name#ddprun-}
    pid=${name%%-*}
    [ -e "/proc/$pid" ] || remove "${name%-*}"
  done
}

write_names() {
  local i
  echo "127.0.0.1 localhost"
  echo "::1 localhost"
  for ((i = 0; i < $1; ++i)); do printf '%s host%d host%d-%s\n' "10.99.0.1$i" $i $i v4 "fd99::1$i" $i $i v6; done
}

up() {
  local set=$1 n=$2 i switch name
  [[ $set =~ ^[A-Za-z0-9_-]+$ && $n =~ ^([1-9]|10)$ ]] || { usage >&2 && exit 2; }
  remove_leftovers
  switch=$(namespace "$set" switch)
  {
    echo "netns add $switch"
    for ((i = 0; i < n; ++i)); do echo "netns add $(namespace "$set" "$i")"; done
  } | ip -batch -
  {
    printf 'link add %s type bridge\n' br0 br1
    printf 'link set %s up\n' br0 br1
    for ((i = 0; i < n; ++i)); do
      echo "link add port$i type veth peer name eth0 netns $(namespace "$set" "$i")"
      echo "link set port$i master br0 up"
    done
  } | ip -n "$switch" -batch -
  for ((i = 0; i < n; ++i)); do
    name=$(namespace "$set" "$i")
    mkdir -p "/etc/netns/$name"
    write_names "$n" >"/etc/netns/$name/hosts"
    [ ! -e /etc/resolv.conf ] || : >"/etc/netns/$name/resolv.conf"  # a name that is not there is refused at once
    # Without duplicate address detection, which takes seconds.
    ip -n "$name" -batch - <<END
link set lo up
addr add 10.99.0.1$i/24 dev eth0
addr add fd99::1$i/64 dev eth0 nodad
link set eth0 up
END
  done
}

# $1: replace or del. $2: the set. Packets between host $3 and the others go to an address that nobody has.
lose_between() {
  local how=$1 set=$2 from=$3 to
  shift 3
  for to in "$@"; do
    lose_towards "$how" "$set" "$from" "$to"
    lose_towards "$how" "$set" "$to" "$from"
  done
}

lose_towards() {
  local address
  for address in "10.99.0.1$4" "fd99::1$4"; do
    case $1 in
      replace) echo "neigh replace $address lladdr 02:00:00:00:00:01 dev eth0 nud permanent" ;;
      del) echo "neigh del $address dev eth0" ;;
    esac
  done | ip -n "$(namespace "$2" "$3")" -batch -
}

command=${1:-}
set=${2:-}
[[ $command != -h && $command != --help ]] || { usage && exit; }
[ $# -ge 2 ] || { usage >&2 && exit 2; }
shift 2
case $command in
  up)
    exec 9>/run/lock/ddprun-hosts  # tests run side by side
    flock 9
    up "$set" "${1:?how many hosts}"
    ;;
  exec)
    host=${1:?which host}
    shift
    exec ip netns exec "$(namespace "$set" "$host")" unshare --uts sh -c 'hostname "$0" && exec "$@"' "host$host" "$@"
    ;;
  switch) exec ip netns exec "$(namespace "$set" switch)" "$@" ;;
  cut) ip -n "$(namespace "$set" switch)" link set "port${1:?which host}" down ;;
  part) printf 'link set port%s master br1\n' "$@" | ip -n "$(namespace "$set" switch)" -batch - ;;
  mend) printf 'link set port%s master br0 up\n' "$@" | ip -n "$(namespace "$set" switch)" -batch - ;;
  apart) lose_between replace "$set" "$@" ;;
  together) lose_between del "$set" "$@" ;;
  down) remove "$set" ;;
  *) usage >&2 && exit 2 ;;
esac

#!/bin/bash
# keeper.sh STATE LOCK COMMAND...: runs COMMAND in namespaces of its own (processes, mounts, network, host name) until it
# ends or standard input does, and takes away all that the cluster has made. So that nothing stays when the one who started
# it is killed: then standard input ends. What a keeper that was itself killed has left goes at the next start.
state=$1 lock=$2
shift 2

# What kubelets set for the whole machine, and inotify for three of them.
sysctls=(vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops
  kernel.keys.root_maxkeys kernel.keys.root_maxbytes fs.inotify.max_user_instances)

cgroups() { find /sys/fs/cgroup -maxdepth 2 -name usher-cluster -type d; }

# Processes end with their PID namespace, mounts and network with the last process: then cgroups are empty.
clean() {
  for cgroup in $(cgroups); do
    for _ in $(seq 100); do
      find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null
      [ -e "$cgroup" ] || break
      find "$cgroup" -name cgroup.procs -exec cat {} + 2>/dev/null | while read -r pid; do kill -KILL "$pid" 2>/dev/null; done
      sleep 0.1
    done
    [ -e "$cgroup" ] && { echo "$cgroup could not be removed" >&2; left=1; }
  done
  [ -s "$state/sysctls" ] && sysctl -q -p "$state/sysctls"
  rm -rf --one-file-system "$state" || left=1
}

exec 9>"$lock"
flock -n 9 || { echo "another cluster runs already (it holds $lock)" >&2; exit 3; }
left=0
[ -e "$state" ] && { echo 'taking away what a run that was killed has left' >&2; clean; }
mkdir -p "$state"
for one in "${sysctls[@]}"; do [ -e "/proc/sys/${one//.//}" ] && sysctl "$one"; done >"$state/sysctls"
sysctl -qw fs.inotify.max_user_instances=1024

# bash is process 1 there, as it reaps what others leave.
setpriv --pdeathsig KILL unshare --fork --kill-child=KILL --pid --mount-proc --mount --net --uts --propagation private \
  bash -c '"$@" & wait $!' init "$@" 9>&- </dev/null &
inside=$!
trap 'kill -KILL "$inside"' TERM INT HUP
{ cat >/dev/null; kill -KILL "$inside" 2>/dev/null; } 9>&- <&0 &
reader=$!
wait "$inside" 2>/dev/null
code=$?
kill "$reader" 2>/dev/null
clean
exit $((left ? 4 : code))

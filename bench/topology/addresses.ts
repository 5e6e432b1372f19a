import type { Lane } from './topology.ts'

/** What a node and its neighbours are called, where they are, and what leads to it. */
export interface LanePlan {
  /** The node's namespace, and the interfaces that lead to it. */
  readonly name: string
  readonly client: Link
  readonly pods: readonly Link[]
  readonly clusterCidr: string
  readonly clusterIp: NonNullable<Lane['clusterIp']>
}

/** A subnet of two: a neighbour and the node. */
export interface Link {
  readonly subnet: string
  readonly prefixLength: number
  readonly node: string
  readonly neighbour: string
}

/** Each has an octet of its own in all of its addresses. */
const mostLanes = 250
const clusterIps = 65_000

/**
 * Plans the n-th lane, from 1. No address is in two lanes, so that client and pods, which
 * are in all of them, always know which node to send to. Throws RangeError beyond 250.
 */
export const planLane = (n: number, pods: number): LanePlan => {
  if (n < 1 || n > mostLanes)
    throw new RangeError(`lane ${n}: there are addresses for ${mostLanes}, from 1`)
  return {
    name: `lane-${n}`,
    client: link(`172.16.${n}`),
    pods: Array.from({ length: pods }, (_, pod) => link(`172.${17 + pod}.${n}`)),
    clusterCidr: `10.${n}.0.0/16`,
    clusterIp: index => clusterIp(n, index),
  }
}

const link = (prefix: string): Link => ({
  subnet: `${prefix}.0/24`,
  prefixLength: 24,
  node: `${prefix}.1`,
  neighbour: `${prefix}.2`,
})

/** The first 256 of the range stay unused, as do its last. */
const clusterIp = (lane: number, index: number): string => {
  if (!Number.isInteger(index) || index < 0 || index >= clusterIps)
    throw new RangeError(`ClusterIP ${index}: there are ${clusterIps}, from 0`)
  const host = 256 + index
  return `10.${lane}.${host >> 8}.${host & 255}`
}

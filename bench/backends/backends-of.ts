import type { Backends } from '../scenarios/scenario.ts'
import type { Endpoint, StandardService } from '../services.ts'
import type { Lane } from '../topology/topology.ts'
import type { Pod } from './pod.ts'

/** What the pods serve, by the addresses that they have for one node. */
export const backendsOf = (pods: readonly Pod[], lane: Lane): Backends => {
  const at = (pod: number, port: number): Endpoint => {
    const address = lane.podAddresses[pod]
    if (address === undefined) throw new Error(`the node knows no pod ${pod + 1}`)
    return { address, port }
  }
  return {
    endpoints: (service: StandardService) =>
      pods.map((pod, index) => at(index, pod.ports[service])),
    refusing: count => {
      const closed = closedEndpoints(pods, at)
      if (closed.length >= count) return closed.slice(0, count)
      throw new Error(`${count} endpoints that refuse: there are only ${closed.length}`)
    },
    silent: at(0, pods[0]?.silentPort ?? 0),
  }
}

/** One of each pod by turns, each once: on one host pods share their ports. */
const closedEndpoints = (
  pods: readonly Pod[],
  at: (pod: number, port: number) => Endpoint,
): readonly Endpoint[] => {
  const found = new Map<string, Endpoint>()
  const most = Math.max(0, ...pods.map(pod => pod.closedPorts.length))
  for (let turn = 0; turn < most; turn += 1)
    for (const [index, { closedPorts }] of pods.entries()) {
      const port = closedPorts[turn]
      if (port === undefined) continue
      const endpoint = at(index, port)
      found.set(`${endpoint.address}:${port}`, endpoint)
    }
  return [...found.values()]
}

import { readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { type RunTool, runTool } from '../../../src/kernel/run-tool.ts'
import { type Child, startChild } from '../../../bench/process/child.ts'
import { isToBePrepared, type Sandbox } from '../../../bench/sandbox/sandbox.ts'
import { namespaces } from '../../../bench/topology/namespaces.ts'
import type { Lane, Place } from '../../../bench/topology/topology.ts'
import type { PeerQuestion } from './sandbox-peer.ts'

const port = 8080
const waitMs = 20_000

/** What is so in a topology of two lanes, found by connections between its places. */
export const findFacts = async (sandbox: Sandbox) => {
  const topology = await namespaces(sandbox)
  const [one, two] = [await topology.lane(), await topology.lane()]
  const client = await peerIn(topology.client)
  const pods = await Promise.all(topology.pods.map(place => peerIn(place)))
  const nodes = await Promise.all([one, two].map(place => peerIn(place)))
  for (const [index, pod] of pods.entries()) await pod.listen(`pod ${index + 1}`)
  for (const [index, node] of nodes.entries()) await node.listen(`node ${index + 1}`)
  const clusterIps = [one, two].flatMap(lane => [0, 64_999].map(n => clusterIp(lane, n)))
  for (const [index, lane] of [one, one, two, two].entries())
    await inPlace(lane, `ip address add ${clusterIps[index]}/32 dev lo`)

  const facts = {
    lanes: [one, two].map(({ nodeAddress, podAddresses, clusterCidr }) => ({
      nodeAddress,
      podAddresses,
      clusterCidr,
    })),
    nodes: await client.lookAt([one.nodeAddress, two.nodeAddress]),
    pods: await client.lookAt([...one.podAddresses, ...two.podAddresses]),
    fromNode: await nodes[0]?.lookAt(one.podAddresses),
    clusterIps,
    atClusterIps: await client.lookAt(clusterIps),
    otherLane: await nodes[0]?.lookAt([two.nodeAddress, clusterIp(two, 0)]),
    sysctls: await Promise.all(
      [topology.client, ...topology.pods, one, two].map(readSysctls),
    ),
    withoutForwarding: await afterForwardingEnds(one, client),
    description: topology.description,
    environment: { tmpdir: tmpdir(), marked: isToBePrepared(), run: readdirSync('/run') },
    mounts: readFileSync('/proc/self/mountinfo', 'utf8').match(/ \/run .*usher-bench/)
      ?.length,
  }
  await Promise.all([client, ...pods, ...nodes].map(({ stop }) => stop()))
  await topology.close()
  const names = readdirSync('/run/netns')
  return { ...facts, namesAfterClose: names, brokenLane: await brokenLane(sandbox) }
}

const clusterIp = (lane: Lane, n: number): string => lane.clusterIp?.(n) ?? 'none'

const inPlace = (place: Place, line: string): Promise<string> => {
  const [command, ...args] = [...place.enter, '/bin/sh', '-c', line]
  return runTool(command ?? '', args)
}

const peerIn = async ({ enter }: Place) => {
  const child: Child = startChild(new URL('sandbox-peer.ts', import.meta.url), enter)
  const ask = async (question: PeerQuestion) =>
    (await child.ask(question, waitMs)) as string
  return {
    listen: (label: string) => ask({ listen: '0.0.0.0', port, label }),
    lookAt: async (addresses: readonly string[]) => {
      const seen: string[] = []
      for (const address of addresses) seen.push(await ask({ address, port }))
      return seen
    },
    stop: () => child.stop(),
  }
}

const readSysctls = async (place: Place) => {
  const paths =
    'ipv4/tcp_tw_reuse ipv4/ip_local_port_range core/somaxconn ' +
    'ipv4/conf/all/rp_filter ipv4/ip_forward'
  const values = await inPlace(place, `cd /proc/sys/net && cat ${paths}`)
  return values.trim().replaceAll('\t', ' ').split('\n')
}

/** Whether the way to the pods is by the node. */
const afterForwardingEnds = async (
  lane: Lane,
  client: Awaited<ReturnType<typeof peerIn>>,
): Promise<readonly string[]> => {
  await inPlace(lane, 'echo 0 > /proc/sys/net/ipv4/ip_forward')
  return client.lookAt(lane.podAddresses.slice(0, 1))
}

/** A lane whose second pod is never told the way back. */
const brokenLane = async (sandbox: Sandbox): Promise<string> => {
  const run: RunTool = (command, args, options) =>
    runTool(command, args, {
      ...options,
      input: (options?.input ?? '').replace(/^route add .* via 172\.18\..*\.1$/m, ''),
    })
  const topology = await namespaces(sandbox, run)
  const why = await topology.lane().then(
    () => 'made',
    (error: Error) => error.message,
  )
  await topology.close()
  return why
}

import { type RunTool, runTool } from '../../src/kernel/run-tool.ts'
import type { Sandbox } from '../sandbox/prepare-sandbox.ts'
import { type LanePlan, planLane } from './addresses.ts'
import { clientLines, nodeLines, podLines } from './links.ts'
import { unreachable } from './probe.ts'
import { setSysctls, sysctlWords } from './sysctls.ts'
import type { Lane, Place, Topology } from './topology.ts'

const clientName = 'client'
const podNames = ['pod-1', 'pod-2'] as const

/**
 * Client and pods in network namespaces of their own; nodes are added as lanes are asked
 * for. The sandbox is asked for because names and links would be the host's outside of one.
 * Rejects (ToolError) when they can't be made.
 */
export const namespaces = async (
  sandbox: Sandbox,
  run: RunTool = runTool,
): Promise<Topology> => {
  const topology = new Namespaces(sandbox, run)
  for (const name of [clientName, ...podNames]) await topology.add(name, false)
  return topology
}

class Namespaces implements Topology {
  readonly kind = 'namespaces'
  readonly client = placeIn(clientName)
  readonly pods = podNames.map(placeIn)
  readonly #sandbox: Sandbox
  readonly #run: RunTool
  readonly #names: string[] = []
  readonly #unset = new Set<string>()
  #lanes = 0
  /** One is made after the other. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(sandbox: Sandbox, run: RunTool) {
    this.#sandbox = sandbox
    this.#run = run
  }

  get description(): string {
    const how = this.#sandbox.kind === 'user' ? ', made without root' : ''
    const unset = [...this.#unset]
    return (
      `network namespaces of one host${how}: a client and ${podNames.length} backend pods, ` +
      'and for each target a node of its own, joined by veth pairs; ' +
      `in all of them ${sysctlWords}` +
      (unset.length === 0 ? '' : `, except what can't be set here: ${unset.join(', ')}`)
    )
  }

  /** A namespace with its sysctls. */
  async add(name: string, isNode: boolean): Promise<void> {
    await this.#run('ip', ['netns', 'add', name])
    this.#names.push(name)
    const unset = await setSysctls(this.#run, name, isNode)
    for (const sysctl of unset) this.#unset.add(sysctl)
    await this.#batch(name, ['link set lo up'])
  }

  lane(): Promise<Lane> {
    const made = this.#last.then(() => this.#makeLane())
    this.#last = made.catch(() => undefined)
    return made
  }

  async #makeLane(): Promise<Lane> {
    const plan = planLane((this.#lanes += 1), podNames.length)
    await this.add(plan.name, true)
    await Promise.all([
      this.#batch(clientName, clientLines(plan)),
      ...podNames.map((pod, index) => this.#batch(pod, podLines(plan, pod, index))),
    ])
    await this.#batch(plan.name, nodeLines(plan, podNames))
    const lane = laneOf(plan)
    await this.#check(lane)
    return lane
  }

  /** From inside of the namespace, so that no link is ever in another than the two. */
  async #batch(namespace: string, lines: readonly string[]): Promise<void> {
    const input = `${lines.join('\n')}\n`
    await this.#run('ip', ['-n', namespace, '-batch', '-'], { input })
  }

  async #check({ nodeAddress, podAddresses }: Lane): Promise<void> {
    const lost = await unreachable(this.client, [nodeAddress, ...podAddresses])
    if (lost.length > 0)
      throw new Error(`the client's packets do not come through to ${lost.join(', ')}`)
  }

  /** A process that still runs in one keeps it; the end of the sandbox ends both. */
  async close(): Promise<void> {
    await this.#last
    const lines = this.#names.splice(0).map(name => `netns del ${name}\n`)
    await this.#run('ip', ['-batch', '-'], { input: lines.join('') })
  }
}

const placeIn = (name: string): Place => ({
  enter: ['ip', 'netns', 'exec', name],
  // They serve clients of all lanes.
  listenAddress: '0.0.0.0',
})

const laneOf = ({ name, client, pods, clusterIp, clusterCidr }: LanePlan): Lane => ({
  ...placeIn(name),
  listenAddress: client.node,
  nodeAddress: client.node,
  podAddresses: pods.map(({ neighbour }) => neighbour),
  clusterIp,
  clusterCidr,
})

import { Bpf } from '../../src/kernel/bpf/bpf.ts'
import { noPins } from '../../src/kernel/bpf/pins.ts'
import { ConnectTime } from '../../src/kernel/connect-time/connect-time.ts'
import { StoppableTools } from '../../src/kernel/run-tool.ts'
import type { ServicePort, Snapshot, Target } from '../../src/model/snapshot.ts'
import { SortedMap } from '../../src/model/sorted-map.ts'
import { readyEndpoint } from '../../src/model/service.ts'
import { systemClock as clock } from '../../src/util/clock.ts'
import { Cluster } from '../modes/cluster.ts'

/** Where the Service that is dialled leads to. */
export type To = readonly { readonly address: string; readonly port: number }[]

/** What its clients dial; nothing else leads there. */
export const vip = { address: '10.95.0.1', port: 80 } as const

/** Connect-time steering as `usher run` has it, of Services of which one can be dialled. */
export class Led {
  #servicePorts: SortedMap<ServicePort>
  readonly #model: ServicePort
  readonly #steering: ConnectTime
  #failure = ''

  constructor(cgroup: string, services: number, endpoints: number, ready: () => void) {
    const { servicePorts } = new Cluster(services, endpoints).snapshot()
    this.#servicePorts = SortedMap.empty<ServicePort>().with(new Map(servicePorts))
    const [model] = this.#servicePorts.list
    if (model === undefined) throw new Error('there are no Services')
    this.#model = model
    this.#steering = new ConnectTime({
      clock,
      bpf: new Bpf(),
      cgroup,
      features: { errors: true, avoidsFailed: true, node: undefined, onlyNode: false },
      pins: noPins,
      lock: { acquire: async () => true, release: async () => {} },
      nodeAddresses: () => ['192.0.2.1', '127.0.0.1'],
      tools: new StoppableTools(),
      resync: ready,
      observer: {
        synced: () => {},
        failed: ({ message }) => void (this.#failure = message),
        damaged: what => void (this.#failure = what),
        udpFailed: () => {},
      },
    })
    this.#steering.start()
  }

  /** All Services as they are, and the one that is dialled. */
  snapshot(to: To): Snapshot {
    const one = this.#dialled(to)
    this.#servicePorts = this.#servicePorts.with(new Map([[one.key, one]]))
    return {
      family: 'IPv4',
      servicePorts: this.#servicePorts,
      healthChecks: new Map(),
    }
  }

  /** Rejects where it does not lead afterwards. */
  async sync(snapshot: Snapshot): Promise<void> {
    await this.#steering.sync([snapshot])
    if (this.#failure !== '' || this.#steering.left.length > 0)
      throw new Error(this.#failure || 'its tables have no room for all')
  }

  close(): Promise<void> {
    return this.#steering.remove()
  }

  #dialled(to: To): ServicePort {
    const endpoints = to.map(one => ({ ...readyEndpoint(one.address), port: one.port }))
    const target: Target = { verdict: 'forward', endpoints }
    return {
      ...this.#model,
      key: 'bench/dialled:http/TCP',
      name: 'bench/dialled:http',
      serviceName: 'dialled',
      vips: [{ kind: 'ClusterIP', ...vip }],
      endpoints,
      reachable: endpoints,
      internal: target,
      external: target,
      externalFromNode: target,
    }
  }
}

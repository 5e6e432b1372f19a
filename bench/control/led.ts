import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { Bpf } from '../../src/kernel/bpf/bpf.ts'
import { noPins } from '../../src/kernel/bpf/pins.ts'
import { ConnectTime } from '../../src/kernel/connect-time/connect-time.ts'
import { StoppableTools } from '../../src/kernel/run-tool.ts'
import { readyEndpoint } from '../../src/model/service.ts'
import type { ServicePort, Target } from '../../src/model/snapshot.ts'
import { systemClock as clock } from '../../src/util/clock.ts'
import type { Endpoint } from '../services.ts'
import { clusterService, type ClusterSnapshot, type Step } from './cluster.ts'

/** What is dialled; nothing else leads there. */
const vip = { address: '10.95.0.1', port: 80 } as const

/**
 * Connect-time steering as `usher run` has it, in the cgroup of this process, which is led by it:
 * of one Service more than there are, that can be dialled.
 */
export const openLed = async (cgroup: string) => {
  const servers = await Promise.all(['127.0.0.2', '127.0.0.3'].map(saying))
  let failure = ''
  const steering = await new Promise<ConnectTime>(resolve => {
    const made: ConnectTime = new ConnectTime({
      clock,
      bpf: new Bpf(),
      cgroup,
      features: { errors: true, avoidsFailed: true, node: undefined, onlyNode: false },
      pins: noPins,
      lock: { acquire: async () => true, release: async () => {} },
      nodeAddresses: () => ['192.0.2.1', '127.0.0.1'],
      tools: new StoppableTools(),
      resync: () => resolve(made),
      observer: {
        synced: () => {},
        failed: ({ message }) => void (failure = message),
        damaged: what => void (failure = what),
        udpFailed: () => {},
      },
    })
    made.start()
  })
  let turn = 0
  /** Rejects where it does not lead afterwards. */
  const write = async (
    snapshot: ClusterSnapshot,
    to: readonly Endpoint[],
  ): Promise<void> => {
    const one = dialled(to)
    const servicePorts = snapshot.servicePorts.with(new Map([[one.key, one]]))
    await steering.sync([{ ...snapshot, servicePorts }])
    if (failure !== '' || steering.left.length > 0)
      throw new Error(failure || 'its tables have no room for all')
  }
  const current = () => servers.slice(turn % 2, (turn % 2) + 1)
  return {
    sync: async (snapshot: ClusterSnapshot, step?: Step) => {
      if (step === 'endpoint') turn += 1
      await write(snapshot, current())
      return { work: 'partial' } as const
    },
    seen: async (): Promise<void> => {
      const who = await whoAnswers(vip)
      if (who !== current()[0]?.address)
        throw new Error(`a connect came to ${who ?? 'nobody'}`)
    },
    dead: async (snapshot: ClusterSnapshot, connects: number): Promise<number> => {
      await write(snapshot, servers)
      servers[1]?.close()
      let failed = 0
      for (let n = 0; n < connects; n += 1)
        if ((await whoAnswers(vip)) === undefined) failed += 1
      return failed
    },
    kernelBytes: memoryOfMaps,
    forget: () => {},
    watch: () => () => {},
    close: () => steering.remove(),
  }
}

/** As the kernel books it on maps (Documentation/bpf, bpf_map_show_fdinfo). */
const memoryOfMaps = (): number => {
  let bytes = 0
  for (const descriptor of readdirSync('/proc/self/fdinfo'))
    try {
      const info = readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8')
      if (info.includes('map_type:'))
        bytes += Number(/^memlock:\s+(\d+)$/m.exec(info)?.[1] ?? 0)
    } catch {
      // That of the folder itself is closed by now.
    }
  return bytes
}

/** The Service that leads there. */
const dialled = (to: readonly Endpoint[]): ServicePort => {
  const endpoints = to.map(one => ({ ...readyEndpoint(one.address), port: one.port }))
  const target: Target = { verdict: 'forward', endpoints }
  return {
    ...clusterService(0, 0, 0),
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

/** An address of loopback that says its name, which is the address, to whoever connects. */
const saying = async (address: string) => {
  const server = createServer(socket => {
    socket.on('error', () => {}) // Its client has heard enough.
    socket.end(address)
  })
  server.listen({ host: address, port: 0 })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { address, port, close: () => void server.close() }
}

/** Who answers there; undefined when the connect fails. */
const whoAnswers = ({ address, port }: Endpoint): Promise<string | undefined> =>
  new Promise(resolve => {
    let heard = ''
    const socket = connect({ host: address, port })
    socket.setEncoding('latin1')
    socket.on('data', text => void (heard += String(text)))
    socket.on('error', () => resolve(undefined))
    socket.on('end', () => resolve(heard))
  })

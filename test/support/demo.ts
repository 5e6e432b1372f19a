import { createServer } from 'node:http'
import type { AddressInfo, Server } from 'node:net'
import type { Test } from 'tap'
import type { PlannedBackend } from '../../src/demo/plan.ts'
import type { Stage } from '../../src/demo/stage.ts'
import type { EndpointSpec, Protocol, Service } from '../../src/model/service.ts'
import type { ServicePortStatus, StatusDocument } from '../../src/observe/status.ts'
import * as objects from './objects.ts'

export const listen = (server: Server, host: string, port: number): Promise<void> =>
  new Promise((done, fail) => {
    server.once('error', fail).listen(port, host, done)
  })

/** A stage on which a plain HTTP server, answering as `name()`, takes Usher's place. */
export const stageOf = async (
  t: Test,
  service: string,
  name: () => string,
): Promise<Stage> => {
  const server = createServer((_, response) => response.end(`${name()} says hello\n`))
  await listen(server, '127.0.0.1', 0)
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  return {
    clientAddresses: ['127.0.0.1'],
    look: async () => {},
    status: () => statusOf([servicePort(service, {}, `127.0.0.1:${port}`)]),
    backends: [1, 2, 3].map(n => backend(service, n)),
  }
}

/** The third backend of `flaky` is dead, as in the example. */
const backend = (service: string, port: number): PlannedBackend => ({
  name: `${service}-${port}`,
  service,
  protocol: 'TCP',
  speaks: 'http',
  address: '127.0.0.1',
  port,
  dead: service === 'flaky' && port === 3,
})

export const servicePort = (
  service: string,
  over: Partial<ServicePortStatus>,
  listenOn = '127.0.0.1:1',
): ServicePortStatus => ({
  servicePort: `default/${service}:http`,
  protocol: 'TCP',
  family: 'IPv4',
  affinityMs: 0,
  verdicts: { internal: 'forward', external: 'forward', node: 'forward' },
  sourceRanges: null,
  holdMs: 0,
  paused: null,
  vips: [
    {
      kind: 'ClusterIP',
      vip: listenOn,
      capture: 'listen',
      listen: listenOn,
      state: 'listening',
      reason: '',
    },
  ],
  endpoints: [],
  active: 0,
  accepted: 0,
  failed: 0,
  failedBy: {},
  options: {},
  retries: 0,
  held: 0,
  holdRefused: 0,
  queued: 0,
  bytesToBackend: 0,
  bytesToClient: 0,
  datagrams: 0,
  lastError: '',
  ...over,
})

export const statusOf = (servicePorts: readonly ServicePortStatus[]): StatusDocument => ({
  version: '0.0.0',
  mode: 'userspace',
  modeChoice: null,
  startedAt: new Date(0).toISOString(),
  healthy: true,
  unhealthy: [],
  draining: false,
  tookOver: null,
  node: null,
  source: { name: 'test', synced: true, lastGoodAt: 0, error: '' },
  problems: [],
  fds: { used: 0, limit: 0 },
  connectTime: null,
  capture: { name: 'listen', detail: '', passedOver: [] },
  relay: null,
  acceptPaused: false,
  servicePorts,
})

export const serviceOf = (name: string): Service =>
  objects.service(name, { clusterIPs: [], ports: [] })

export const endpointOf = (address: string, nodeName = ''): EndpointSpec =>
  objects.endpoint(address, { nodeName })

export const slicePort = (name: string, protocol: Protocol) => ({
  name,
  protocol,
  port: 9,
})

import type { Test } from 'tap'
import { endpoint, serviceObject, sliceObject } from './api-server/builders.ts'
import type { EndpointOver } from './api-server/builders.ts'
import type { ApiServer } from './api-server/server.ts'
import { freeTcpPort, testHost } from './ports.ts'
import { firstWord, namedBackend, type TcpBackend } from './tcp-backend.ts'

type Served = Pick<TcpBackend, 'endpoint'>

/** A Service of the test cluster that clients of this host can really dial. */
export interface ClusterService {
  readonly name: string
  readonly port: number
  /** Puts the Service there, or changes its spec and annotations. */
  put(spec?: object, annotations?: Readonly<Record<string, string>>): void
  /** Makes these the endpoints, one slice each; the others' slices go. */
  scale(...backends: readonly (Served | readonly [Served, EndpointOver])[]): void
  /** Takes Service and slices away. */
  remove(): void
  /** What answers a new connection: the name of a backend, or an error code. */
  ask(): Promise<string>
  /** Who answers `count` connections in a row. */
  askers(count: number): Promise<ReadonlySet<string>>
}

/** The ClusterIP is the test's own loopback address, on a port that is free. */
export const clusterService = async (
  server: ApiServer,
  name: string,
): Promise<ClusterService> => {
  const port = await freeTcpPort()
  let slices = new Set<string>()
  const once = (): Promise<string> => firstWord(port)
  return {
    name,
    port,
    put: (spec = {}, annotations = {}) => {
      const ports = [{ protocol: 'TCP', port, targetPort: 80 }]
      const over = { annotations, spec: { ports, ...spec } }
      server.apply(serviceObject(name, testHost, over))
    },
    scale: (...backends) => {
      const now = new Set<string>()
      for (const entry of backends) {
        const [backend, over] = 'endpoint' in entry ? [entry, {}] : entry
        const { address, port: number } = backend.endpoint
        const slice = `${name}-${number}`
        now.add(slice)
        const ports = [{ name: '', port: number, protocol: 'TCP' }]
        server.apply(sliceObject(name, slice, [endpoint(address, over)], { ports }))
      }
      for (const slice of slices)
        if (!now.has(slice)) server.delete('endpointslices', slice)
      slices = now
    },
    remove: () => {
      server.delete('services', name)
      for (const slice of slices) server.delete('endpointslices', slice)
      slices = new Set()
    },
    ask: once,
    askers: async count => {
      const answers = new Set<string>()
      for (let i = 0; i < count; i += 1) answers.add(await once())
      return answers
    },
  }
}

/** Real servers that answer with their names. */
export const namedBackends = (
  t: Test,
  ...names: readonly string[]
): Promise<TcpBackend[]> => Promise.all(names.map(name => namedBackend(t, name)))

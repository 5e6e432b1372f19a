import { rm } from 'node:fs/promises'
import type { Endpoint } from '../services.ts'
import { awaitServing } from './probe.ts'
import { ProxyProcess } from './proxy-process.ts'
import type { Order, RunningTarget } from './target.ts'

/** A proxy that is ready to be started. */
export interface Proxy {
  readonly name: string
  /** Its command line, to be run on its node. */
  readonly argv: readonly string[]
  /** What the report shows of that; all of it by default. */
  readonly command?: string
  /** What the report shows of its configuration. */
  readonly config: string
  /** Where clients dial which service. */
  readonly addresses: ReadonlyMap<string, Endpoint>
  /** Its files, removed when it has ended. */
  readonly directory: string
  /** Lines that it writes when all is well. */
  readonly ordinary?: RegExp
  /** Changes the endpoints of a service; `process` is for a signal to it. */
  readonly setEndpoints?: (
    service: string,
    endpoints: readonly Endpoint[],
    process: ProxyProcess,
  ) => Promise<void>
}

/**
 * Starts a proxy on its node and waits until clients are served. Rejects with the reason
 * and the proxy's last words when they are not; nothing of it is left then.
 */
export const startProxy = async (order: Order, proxy: Proxy): Promise<RunningTarget> => {
  const process = new ProxyProcess(order.lane, proxy.argv, proxy.ordinary)
  const stop = async (): Promise<void> => {
    await process.stop()
    await rm(proxy.directory, { recursive: true, force: true })
  }
  const why = await servingProblem(order, proxy, process).catch(
    async (error: unknown) => {
      await stop()
      throw error
    },
  )
  if (why !== '') {
    await stop()
    if (order.signal.aborted) throw new Error(`${proxy.name} is not waited for any more`)
    throw new Error(`${proxy.name} ${why}: ${process.lastWords()}`)
  }
  const { setEndpoints } = proxy
  return {
    addressOf: service => proxy.addresses.get(service),
    pids: () => process.pids(),
    command: proxy.command ?? proxy.argv.join(' '),
    config: proxy.config,
    complaint: () => process.complaint(),
    stop,
    ...(setEndpoints === undefined
      ? {}
      : {
          setEndpoints: (service, endpoints) => setEndpoints(service, endpoints, process),
        }),
  }
}

const servingProblem = (
  order: Order,
  proxy: Proxy,
  process: ProxyProcess,
): Promise<string> =>
  awaitServing(order.client, awaitedOf(order, proxy.addresses), {
    within: readyWithin(order),
    ended: AbortSignal.any([process.ended, order.signal]),
  })

/**
 * Milliseconds. Thousands of Services take their time, and iptables most; what dies is not
 * waited for. An emulated machine takes half a minute for a single Service.
 */
export const readyWithin = ({ services }: Order): number =>
  services.length > 500 ? 180_000 : 60_000

/** The services to wait for, of those that the target leads to. */
export const awaitedOf = (
  { services, awaited }: Order,
  addresses: ReadonlyMap<string, Endpoint>,
) =>
  services.flatMap(({ name, protocol }) => {
    const address = addresses.get(name)
    if (address === undefined || awaited?.includes(name) === false) return []
    return [{ name, protocol, ...address }]
  })

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  endpoint,
  serviceObject,
  sliceObject,
} from '../../test/support/api-server/builders.ts'
import type { ApiServerProcess } from './api-server.ts'
import { unixNow } from './usher.ts'

const name = 'probe'
const giveUpMs = 5000

/**
 * A Service with one endpoint that moves between two backends. Its clients see when: the
 * whole way from a change at the API server to the connection that goes elsewhere.
 */
export class Probe {
  readonly #api: ApiServerProcess
  readonly #backends: readonly Server[]
  readonly #ports: readonly number[]
  #at = 0

  private constructor(api: ApiServerProcess, backends: readonly Server[]) {
    this.#api = api
    this.#backends = backends
    this.#ports = backends.map(server => (server.address() as AddressInfo).port)
  }

  /** Creates the Service and its first endpoint. */
  static async create(api: ApiServerProcess): Promise<Probe> {
    const backends = await Promise.all([backend('0'), backend('1')])
    const probe = new Probe(api, backends)
    await api.apply(serviceObject(name, '10.97.0.1'))
    await api.apply(probe.#slice())
    return probe
  }

  /**
   * Moves the endpoint; gives the milliseconds until a connection through `port` (host
   * and port of the proxy) reached the other one, Infinity when none did in 5 s.
   */
  async move(host: string, port: number): Promise<number> {
    this.#at = 1 - this.#at
    const wanted = String(this.#at)
    // Sent at once, while connections are being made: its answer tells the time.
    const sent = this.#api.apply(this.#slice())
    const end = unixNow() + giveUpMs
    while ((await whoAnswers(host, port)) !== wanted)
      if (unixNow() > end) {
        await sent
        return Infinity
      }
    const seenAt = unixNow()
    return seenAt - (await sent)
  }

  close(): void {
    for (const server of this.#backends) server.close()
  }

  #slice() {
    const port = this.#ports[this.#at]
    const ports = [{ name: '', port, protocol: 'TCP' }]
    return sliceObject(name, `${name}-slice`, [endpoint('127.0.0.1')], { ports })
  }
}

/**
 * Moves the endpoint about once a second until `untilMs` (performance.now).
 * Rejects when `signal` ends it.
 */
export const probeUntil = async (
  probe: Probe,
  address: { readonly host: string; readonly port: number },
  untilMs: number,
  signal: AbortSignal,
): Promise<number[]> => {
  const tookMs: number[] = []
  while (performance.now() < untilMs) {
    tookMs.push(await probe.move(address.host, address.port))
    // Uneven, so that it does not keep step with anything.
    await sleep(500 + ((tookMs.length * 137) % 500), undefined, { signal })
  }
  return tookMs
}

/** Says who it is and closes: TIME_WAIT stays on this side, and the client keeps its ports. */
const backend = async (letter: string): Promise<Server> => {
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    socket.end(letter)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}

const whoAnswers = (host: string, port: number): Promise<string> =>
  new Promise(resolve => {
    const socket = connect(port, host)
    let said = ''
    socket.setEncoding('utf8').on('data', text => {
      said += text
    })
    socket.on('error', () => undefined)
    socket.once('close', () => resolve(said))
  })

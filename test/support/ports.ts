import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * A loopback address that no other process of the tests uses, so that nobody else can get
 * a port between looking for it and listening on it: by chance, as each may count processes
 * in a namespace of its own. Where only 127.0.0.1 exists, that.
 */
export const testHost =
  process.platform === 'linux'
    ? `127.${randomInt(100, 164)}.${randomInt(256)}.${randomInt(1, 255)}`
    : '127.0.0.1'

/**
 * Ports that nobody is given who asks for any (net.ipv4.ip_local_port_range), and that are no
 * node ports: one that was looked for is still free when it is listened on, a second later.
 */
const [firstPort, ports] = [10_000, 20_000]
let next = Math.floor(Math.random() * ports)

const isFree = async (
  emitter: { close(done: () => void): unknown } & NodeJS.EventEmitter,
): Promise<boolean> => {
  const free = await once(emitter, 'listening').then(
    () => true,
    () => false,
  )
  await new Promise<void>(resolve => emitter.close(() => resolve()))
  return free
}

const isFreeForTcp = (port: number, host: string): Promise<boolean> =>
  isFree(createServer().listen(port, host))

const isFreeForUdp = (port: number, host: string): Promise<boolean> =>
  isFree(createSocket(host.includes(':') ? 'udp6' : 'udp4').bind(port, host))

type IsFree = (port: number, host: string) => Promise<boolean>

/** The first of `count` in a row. */
const portOf = async (
  host: string,
  checks: readonly IsFree[],
  count = 1,
): Promise<number> => {
  for (let tries = 0; tries < 1000; tries += 1) {
    if ((next % ports) + count > ports) next += count
    const first = firstPort + (next % ports)
    next += count
    const all = Array.from({ length: count }, (_, i) => first + i)
    const free = await Promise.all(
      checks.flatMap(check => all.map(port => check(port, host))),
    )
    if (!free.includes(false)) return first
  }
  throw new Error(`no port of ${host} is free`)
}

/** A TCP port that nobody listens at, and nobody else is given. */
export const freeTcpPort = (host = testHost): Promise<number> =>
  portOf(host, [isFreeForTcp])

/** The first of so many in a row, none of which anybody else is given. */
export const freeTcpPorts = (count: number, host = testHost): Promise<number> =>
  portOf(host, [isFreeForTcp], count)

export const freeUdpPort = (host = testHost): Promise<number> =>
  portOf(host, [isFreeForUdp])

/** One that neither protocol has. */
export const freePort = (host = testHost): Promise<number> =>
  portOf(host, [isFreeForTcp, isFreeForUdp])

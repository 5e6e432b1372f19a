import { once } from 'node:events'
import net from 'node:net'
import { isOutOfResources } from '../../util/usher-error.ts'
import type { Clock } from '../../util/clock.ts'
import type { AddressPort, IpFamily } from '../../util/ip.ts'
import type { Probe } from '../probe.ts'
import { type RunTool, ToolError } from '../run-tool.ts'
import { deleteAbandoned, deleteTables, listTables, probeTable } from './tables.ts'

/** Steers connections to the first to the second. */
export type Steer = (from: AddressPort, to: AddressPort) => Promise<void>

/**
 * Listens on two ports of the loopback address, lets the first be steered to the second,
 * and says whether a connection to the first arrives at the second; undefined where that says
 * nothing of the rules: nobody can listen there, or is reached without them. Rejects when
 * there is no descriptor or memory, and when steering does.
 */
export type PacketProbe = (family: IpFamily, steer: Steer) => Promise<boolean | undefined>

/** As kube-proxy wants it; 0.9.8 takes what is tried here, and crashes on other changes. */
const oldest = [1, 0, 1]

/**
 * Whether nft and the kernel take tables as Usher's: `attempt` has one of another name lead a
 * connection, and says whether it does, as a PacketProbe. What it makes is taken out, and so is what
 * a probe that was killed has left. `oldest`: the version of nft that is needed at least. Never rejects.
 */
export const probeTables = async (
  run: RunTool,
  family: IpFamily,
  attempt: (table: string) => Promise<boolean | undefined>,
): Promise<Probe> => {
  let nft = 'nft'
  try {
    nft = await nftVersion(run)
    if (isOlder(nft, oldest))
      throw new Error(`${nft} is too old: ${oldest.join('.')} or newer is needed`)
    await deleteAbandoned(run, await listTables(run, family))
    const table = probeTable(family)
    try {
      if ((await attempt(table)) !== false) return { usable: true, detail: nft }
    } finally {
      await deleteTables(run, [table])
    }
    const detail = `${nft} took the rules, but no connection follows them`
    return { usable: false, detail }
  } catch (error) {
    return { usable: false, detail: refusalOf(error, nft) }
  }
}

/** Milliseconds for a connection within the host. */
const patienceMs = 2000

const loopback = { IPv4: '127.0.0.1', IPv6: '::1' } as const
/** Where nobody listens: of RFC 5737 and RFC 3849, beside those that probes write besides. */
const nowhere = { IPv4: '192.0.2.2', IPv6: '2001:db8::2' } as const

/** In the network namespace of this process. */
export const localPacketProbe =
  (clock: Clock): PacketProbe =>
  async (family, steer) => {
    const address = loopback[family]
    // The first is held too: no connection of another program is to be led astray.
    const [first, second] = [net.createServer(), net.createServer()]
    try {
      const ports = await listenOn([first, second], address)
      const isReached = ports !== undefined && (await arrives(ports[0], first, clock))
      const unused = { address: nowhere[family], port: 1 }
      const [from, to] = ports ?? [unused, unused]
      await steer(from, to)
      return isReached ? await arrives(from, second, clock) : undefined
    } finally {
      first.close()
      second.close()
    }
  }

/** Undefined where that can't be done: it has no such address, or no such family. */
const listenOn = async (
  [first, second]: readonly [net.Server, net.Server],
  address: string,
): Promise<readonly [AddressPort, AddressPort] | undefined> => {
  try {
    return [await listen(first, address), await listen(second, address)]
  } catch (error) {
    if (isOutOfResources((error as NodeJS.ErrnoException).code)) throw error
    return undefined
  }
}

const listen = async (server: net.Server, address: string): Promise<AddressPort> => {
  server.on('connection', socket => socket.destroy())
  server.listen(0, address)
  await once(server, 'listening')
  return { address, port: (server.address() as net.AddressInfo).port }
}

const arrives = (from: AddressPort, at: net.Server, clock: Clock): Promise<boolean> =>
  new Promise(resolve => {
    const client = net.connect({ host: from.address, port: from.port })
    const end = (arrived: boolean): void => {
      clock.clearTimeout(timer)
      client.destroy()
      resolve(arrived)
    }
    const timer = clock.setTimeout(() => end(false), patienceMs)
    at.once('connection', () => end(true))
    client.once('error', () => end(false))
    // Accepted by the wrong one, which closes at once.
    client.once('close', () => end(false))
  })

/** `nft 1.0.6`. Rejects with ToolError when there is none. */
const nftVersion = async (run: RunTool): Promise<string> =>
  nameAndVersion(await run('nft', ['--version']))

/** `nftables v1.0.6 (Lester Gooch #5)` to `nft 1.0.6`. */
const nameAndVersion = (text: string): string =>
  `nft ${/v(\d[\w.]*)/.exec(text)?.[1] ?? text.trim()}`

/** As `nftVersion` says it; false where that is no number. */
export const isOlder = (nft: string, than: readonly number[]): boolean => {
  const parts = /\d+(?:\.\d+)*/.exec(nft)?.[0].split('.').map(Number)
  if (parts === undefined) return false
  const at = than.findIndex((part, i) => (parts[i] ?? 0) !== part)
  return at >= 0 && (parts[at] ?? 0) < (than[at] ?? 0)
}

/** Why rules were refused, with the words that `nft` did not understand, or the kernel did not take. */
const refusalOf = (error: unknown, nft: string): string => {
  if (!(error instanceof Error)) return String(error)
  if (!(error instanceof ToolError) || error.failure !== 'failed') return error.message
  const [first = '', words = ''] = error.stderr.trim().split('\n')
  const message = words === '' ? error.message : `${first}: ${words.trim()}`
  if (/could not process rule/i.test(first)) return `the kernel refused it: ${message}`
  return /syntax error|unknown/i.test(first)
    ? `${nft} is too old: ${message}`
    : error.message
}

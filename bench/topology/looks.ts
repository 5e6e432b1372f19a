import { createSocket } from 'node:dgram'
import { connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BenchService, Endpoint } from '../services.ts'

export type Probed = Pick<BenchService, 'name' | 'protocol'> & Endpoint

/** What can be seen from the place where this process is; `signal` ends a wait, without an answer of use. */
export const looks = (signal?: AbortSignal) => ({
  /** Waits until all serve; the names of those that don't when the time is over. */
  notServing: (addresses: readonly Probed[], withinMs: number) =>
    notServing(addresses, withinMs, signal),
  freePorts,
  page,
  unreachable,
})

export type Looks = ReturnType<typeof looks>

const tryEveryMs = 50
/** More at once would be a load test of its own. */
const atOnce = 32

const notServing = async (
  addresses: readonly Probed[],
  withinMs: number,
  signal: AbortSignal | undefined,
): Promise<readonly string[]> => {
  const end = performance.now() + withinMs
  const waiting = [...addresses]
  const late: string[] = []
  const worker = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const serves = next.protocol === 'TCP' ? servesTcp : servesUdp
      while (!(await serves(next))) {
        if (performance.now() < end && !signal?.aborted) await sleep(tryEveryMs)
        else {
          late.push(next.name)
          break
        }
      }
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  return late
}

/** Longer than a retry takes that meets a silent endpoint first. */
const quietMs = 500
const replyWithinMs = 250

/**
 * Whether a server behind `address` takes a client: sends something, or at least leaves
 * the connection open. That it was accepted says nothing, a proxy does that by itself.
 */
const servesTcp = ({ address, port }: Endpoint): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect(port, address)
    const finish = (serves: boolean): void => {
      clearTimeout(timer)
      socket.destroy()
      // A free port of the ephemeral range can connect to itself (RFC 9293, 3.5).
      resolve(serves && socket.localPort !== port)
    }
    let timer = setTimeout(() => finish(false), quietMs)
    socket.once('error', () => finish(false)).once('close', () => finish(false))
    socket.once('data', () => finish(true))
    socket.once('connect', () => {
      clearTimeout(timer)
      timer = setTimeout(() => finish(true), quietMs)
      socket.write('GET /64 HTTP/1.1\r\nHost: bench\r\n\r\n')
    })
  })

/** Whether a datagram to `address` is answered. */
const servesUdp = ({ address, port }: Endpoint): Promise<boolean> =>
  new Promise(resolve => {
    const socket = createSocket('udp4')
    const finish = (serves: boolean): void => {
      clearTimeout(timer)
      socket.removeAllListeners('message').close()
      resolve(serves)
    }
    const timer = setTimeout(() => finish(false), replyWithinMs)
    socket.on('error', () => undefined)
    socket.once('message', () => finish(true))
    socket.send('ready?', port, address, () => undefined)
  })

/** Below what systems give to connections by themselves (32768 and up on Linux). */
const [firstPort, ports] = [10_240, 22_000]

/** Free TCP ports of `address`, from a random one on, so that two callers get different ones. */
const freePorts = async (address: string, count: number): Promise<readonly number[]> => {
  const found: number[] = []
  const start = Math.floor(Math.random() * ports)
  for (let step = 0; step < ports && found.length < count; step += 1) {
    const port = firstPort + ((start + step) % ports)
    if (await isFree(address, port)) found.push(port)
  }
  if (found.length === count) return found
  throw new Error(`${address} has ${found.length} free ports, not ${count}`)
}

const isFree = (host: string, port: number): Promise<boolean> =>
  new Promise(resolve => {
    const server = createServer().once('error', () => resolve(false))
    server.listen({ port, host }, () => server.close(() => resolve(true)))
  })

const page = async (url: string): Promise<string> =>
  (await (await fetch(url)).text()).trim()

/** discard: without a listener, and a refusal is an answer. */
const discard = 9
const reachMs = 3000

/** Those from which nothing comes back, each with why. To be refused is to have reached the host. */
const unreachable = async (addresses: readonly string[]): Promise<readonly string[]> => {
  const found = await Promise.all(addresses.map(unreachableReason))
  return found.filter(Boolean)
}

const unreachableReason = (address: string): Promise<string> =>
  new Promise(resolve => {
    const socket = connect(discard, address)
    const finish = (why: string): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve(why)
    }
    const timer = setTimeout(
      () => finish(`${address} (no answer in ${reachMs} ms)`),
      reachMs,
    )
    socket.once('connect', () => finish(''))
    socket.once('error', (error: NodeJS.ErrnoException) =>
      finish(error.code === 'ECONNREFUSED' ? '' : `${address} (${error.message})`),
    )
  })

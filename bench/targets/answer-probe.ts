import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BenchService, Endpoint } from '../services.ts'
import { servesTcp, servesUdp } from './serves.ts'

export type Probed = Pick<BenchService, 'name' | 'protocol'> & Endpoint

export type ProbeQuestion =
  | {
      readonly kind: 'serving'
      readonly addresses: readonly Probed[]
      readonly withinMs: number
    }
  | { readonly kind: 'free-ports'; readonly address: string; readonly count: number }
  | { readonly kind: 'page'; readonly url: string }

const tryEveryMs = 50
/** More at once would be a load test of its own. */
const atOnce = 32

/** Below what systems give to connections by themselves (32768 and up on Linux). */
const [firstPort, ports] = [10_240, 22_000]

/** Waits until all serve; the names of those that don't when the time is over. */
const whoServesNot = async (
  addresses: readonly Probed[],
  withinMs: number,
  signal: AbortSignal,
): Promise<readonly string[]> => {
  const end = performance.now() + withinMs
  const waiting = [...addresses]
  const late: string[] = []
  const worker = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const serves = next.protocol === 'TCP' ? servesTcp : servesUdp
      while (!(await serves(next))) {
        if (performance.now() < end && !signal.aborted) await sleep(tryEveryMs)
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

/** Free TCP ports of `address`, from a random one on, so that two callers get different ones. */
const findFreePorts = async (
  address: string,
  count: number,
): Promise<readonly number[]> => {
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

/** Does it; stops early, without an answer of use, when `signal` says so. */
export const answerProbe = (
  question: ProbeQuestion,
  signal: AbortSignal,
): Promise<readonly string[] | readonly number[]> => {
  if (question.kind === 'serving')
    return whoServesNot(question.addresses, question.withinMs, signal)
  return question.kind === 'page'
    ? readPage(question.url, signal)
    : findFreePorts(question.address, question.count)
}

const readPage = async (url: string, signal: AbortSignal): Promise<readonly string[]> => {
  const response = await fetch(url, { signal })
  return [(await response.text()).trim()]
}

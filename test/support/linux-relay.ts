import { writeSync } from 'node:fs'
import type { Test } from 'tap'
import type { WorkerProgram } from '../../src/relay/sockets/linux/worker-thread.ts'
import { RelayEngine, type RelayEngineDeps } from '../../src/relay/engine/relay-engine.ts'
import { linuxLayer } from '../../src/relay/sockets/linux/linux-layer.ts'
import type { Syscalls } from '../../src/ffi/syscalls.ts'
import { systemClock } from '../../src/util/clock.ts'
import { programFile } from '../../src/util/own-files.ts'
import type { MakeRelay } from './relay-fixture.ts'
import { until } from './until.ts'

interface LinuxRelayRequest extends Partial<RelayEngineDeps> {
  readonly workerProgram?: WorkerProgram
  /** Of the main thread. */
  readonly calls?: Syscalls
}

/** A relay of several workers, or in another way special. */
export const makeLinuxRelayWith =
  ({
    workerProgram = { file: programFile('relay-worker'), execArgv: [] },
    calls,
    ...over
  }: LinuxRelayRequest): MakeRelay =>
  request =>
    new RelayEngine({
      clock: systemClock,
      workers: 1,
      layer: linuxLayer(request.limits, workerProgram, calls),
      ...request,
      ...over,
    })

export const makeLinuxRelay: MakeRelay = makeLinuxRelayWith({})

export const makeLinuxRelayOfTwo: MakeRelay = makeLinuxRelayWith({ workers: 2 })

/** Workers that run `code` when `tell` names theirs; who waits for events is woken for it. */
export const mortalWorker = (
  t: Test,
  code: string,
): {
  readonly program: WorkerProgram
  /** Resolves when the worker has heard it. */
  readonly tell: (thread: number) => Promise<void>
} => {
  const name = `mortal ${Math.random()}`
  const channel = new BroadcastChannel(name)
  t.teardown(() => channel.close())
  const heard = new Set<number>()
  /** Of each worker; threads share their descriptors. */
  const wakeFds: number[] = []
  channel.addEventListener('message', event => {
    const { data } = event as unknown as { readonly data: readonly [number, number?] }
    const [thread, wakeFd] = data
    if (wakeFd === undefined) heard.add(thread)
    else wakeFds[thread] = wakeFd
  })
  const text = `
    import { workerData } from 'node:worker_threads'
    const channel = new BroadcastChannel('${name}')
    channel.postMessage([workerData.thread, workerData.wakeFd])
    channel.onmessage = ({ data }) => {
      if (data !== workerData.thread) return
      channel.postMessage([workerData.thread])
      ${code}
    }
    await import('${programFile('relay-worker').href}')`
  const file = new URL(`data:text/javascript,${encodeURIComponent(text)}`)
  const tell = async (thread: number): Promise<void> => {
    heard.delete(thread)
    await until('its worker has begun', () => wakeFds[thread] !== undefined)
    let polls = 0
    // It takes messages twice a second at most, and one may be lost where another is about to begin.
    await until('it is heard', () => {
      if (heard.has(thread)) return true
      // A channel between threads has no origins.
      // oxlint-disable-next-line unicorn/require-post-message-target-origin
      if (polls++ % 100 === 0) channel.postMessage(thread)
      writeSync(wakeFds[thread] ?? -1, new BigUint64Array([1n]))
      return false
    })
  }
  return { program: { file, execArgv: [] }, tell }
}

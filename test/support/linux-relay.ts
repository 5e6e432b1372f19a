import type { Test } from 'tap'
import type { WorkerProgram } from '../../src/relay/linux/main/worker-thread.ts'
import { LinuxRelay, type LinuxRelayDeps } from '../../src/relay/linux/linux-relay.ts'
import { systemClock } from '../../src/util/clock.ts'
import type { MakeRelay } from './relay-fixture.ts'
import { workerFile } from './usher-program.ts'

/** A relay of several workers, or in another way special. */
export const makeLinuxRelayWith =
  (over: Partial<LinuxRelayDeps>): MakeRelay =>
  request =>
    new LinuxRelay({
      clock: systemClock,
      workers: 1,
      workerProgram: { file: workerFile, execArgv: [] },
      ...request,
      ...over,
    })

export const makeLinuxRelay: MakeRelay = makeLinuxRelayWith({})

export const makeLinuxRelayOfTwo: MakeRelay = makeLinuxRelayWith({ workers: 2 })

/** Workers that run `code` when `tell` names theirs; they look for that twice a second. */
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
  const text = `
    import { workerData } from 'node:worker_threads'
    const channel = new BroadcastChannel('${name}')
    channel.onmessage = ({ data }) => {
      if (data !== workerData.thread) return
      channel.postMessage('heard')
      ${code}
    }
    await import('${workerFile.href}')`
  const file = new URL(`data:text/javascript,${encodeURIComponent(text)}`)
  const tell = async (thread: number): Promise<void> => {
    const heard = new Promise(resolve =>
      channel.addEventListener('message', resolve, { once: true }),
    )
    // A channel between threads has no origins.
    // oxlint-disable-next-line unicorn/require-post-message-target-origin
    channel.postMessage(thread)
    await heard
  }
  return { program: { file, execArgv: [] }, tell }
}

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { silentObserver } from '../../src/relay/relay.ts'
import { openFileLimit } from '../../src/relay/fd-limit.ts'
import type { RelayLimits, RelayObserver } from '../../src/relay/relay.ts'
import type { MakeRelay } from './relay-fixture.ts'
import type { RelayCall, RelayUsage } from './relay-process.ts'

// The program of a relay in a process of its own; relay-process.ts starts it and calls it.

const [file = '', exported = '', limits = ''] = process.argv.slice(2)

/** Deaths of workers that were asked for and are yet to be told. */
let dying = 0

const observer: RelayObserver = {
  ...silentObserver,
  fault: (listener, error) => {
    if (dying > 0 && / has died: /.test(error.message)) return void (dying -= 1)
    throw new Error(`fault at ${listener}`, { cause: error })
  },
}

const { [exported]: makeRelay } = (await import(file)) as Record<string, MakeRelay>
if (makeRelay === undefined) throw new Error(`${file} exports no ${exported}`)
const relay = makeRelay({
  limits: JSON.parse(limits) as RelayLimits,
  openFileLimit: openFileLimit(),
  observer,
})

/**
 * Garbage is not held: it is collected before memory is measured. Twice, because buffers
 * are freed after the collection that found nobody wants them.
 */
const usage = async (): Promise<RelayUsage> => {
  for (let i = 0; i < 2; i += 1) {
    globalThis.gc?.()
    await setTimeout(10)
  }
  const { rss, heapUsed, external } = process.memoryUsage()
  // The directory being read is one of them.
  const fds = readdirSync('/proc/self/fd').length - 1
  const handles = process.getActiveResourcesInfo().length
  return { rss, held: heapUsed + external, fds, handles }
}

/** A child has copies of all descriptors until it runs its program. */
const startTool = async (): Promise<void> => {
  await once(spawn('true', { stdio: 'ignore' }), 'exit')
}

const killWorker = async (share: number): Promise<boolean> => {
  const { workers = [] } = relay.stats()
  const { thread } = workers[Math.floor(share * workers.length)] ?? {}
  if (thread === undefined) return false
  dying += 1
  const channel = new BroadcastChannel('dying workers')
  // A channel between threads has no origins.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  channel.postMessage(thread)
  await new Promise<void>(resolve => {
    channel.addEventListener('message', event => {
      const { data } = event as Event & { readonly data: { readonly started?: number } }
      if (data.started === thread) resolve()
    })
  })
  channel.close()
  return true
}

const answer = (call: RelayCall): unknown => {
  if (call.name === 'apply') return relay.apply(call.listeners)
  if (call.name === 'stats') {
    const stats = relay.stats()
    return { ...stats, listeners: [...stats.listeners] }
  }
  if (call.name === 'spawn') return startTool()
  if (call.name === 'kill') return killWorker(call.share)
  return usage()
}

const serve = async (call: RelayCall): Promise<void> => {
  const result = await answer(call)
  process.send?.({ id: call.id, result: result ?? null })
}

process.on('message', call => void serve(call as RelayCall))
process.on('disconnect', () => process.exit(0))
process.send?.({ id: 0, result: null })

import { setTimeout as sleep } from 'node:timers/promises'
import { type ApiServerProcess, startApiServer } from './api-server.ts'
import type { Figures } from './figures.ts'
import { Livez } from './livez.ts'
import { Meter } from './meter.ts'
import type { ControlOptions } from './options.ts'
import { Probe, probeUntil } from './probe.ts'
import { type Applied, startUsher, type UsherProcess } from './usher.ts'
import type { StatusDocument } from '../../src/observe/status.ts'
import { nodeObject } from '../../test/support/api-server/builders.ts'
import { freeTcpPort, testHost } from '../../test/support/ports.ts'

/** With all ports to itself: ten thousand proxy ports are a third of the ephemeral ones. */
const host = testHost

/** Between the start and the changes, so that neither is measured with the other. */
const settleMs = 2000

/** For how long the last changes may still be on their way. */
const lastChangesMs = 10_000

/**
 * Runs everything once. `say` hears what is going on, `started` what the start has shown.
 * Rejects when `signal` ends it.
 */
export const measure = async (
  options: ControlOptions,
  say: (what: string) => void,
  signal: AbortSignal,
  started: (start: Figures['start']) => void,
): Promise<Figures> => {
  const closers: (() => unknown)[] = []
  try {
    say('filling the API server')
    const api = await startApiServer(options)
    closers.push(() => api.stop())
    await api.apply(nodeObject('node-1'))
    const probe = await Probe.create(api)
    closers.push(() => probe.close())
    const healthz = `${host}:${await freeTcpPort(host)}`
    const metrics = `${host}:${await freeTcpPort(host)}`
    say('starting Usher')
    const usher = startUsher([
      `--kubeconfig=${api.access.kubeconfig}`,
      '--hostname-override=node-1',
      `--bind-address=${host}`,
      `--healthz-bind-address=${healthz}`,
      `--metrics-bind-address=${metrics}`,
      '--drain-timeout=0',
    ])
    closers.push(() => usher.stop())
    const livez = new Livez(healthz)
    closers.push(() => livez.close())
    const meter = new Meter(usher, livez, [api.pid, process.pid])
    const servingMs = (await unlessAborted(usher.serving, signal)) - usher.startedAt
    // The last report on the event loop has yet to come.
    await sleep(settleMs, undefined, { signal })
    const loadingBlockMs = meter.blockUntil(livez.firstAt ?? usher.startedAt)
    const phase = meter.take()
    say(`leaving it alone for ${options.settle} s`)
    await sleep(options.settle * 1000, undefined, { signal })
    const settledRssBytes = usher.usage().rssBytes
    const start = { ...phase, servingMs, loadingBlockMs, settledRssBytes }
    started(start)
    const address = await proxyAddressOf(metrics, 'probe')
    say(`changing endpoints for ${options.seconds} s`)
    const churn = await churnPhase({
      options,
      api,
      usher,
      probe,
      meter,
      address,
      signal,
    })
    const { count, peakPerSecond } = await api.requests()
    const { complaints } = usher
    return {
      start,
      churn,
      requests: count,
      peakRequestsPerSecond: peakPerSecond,
      complaints,
    }
  } finally {
    for (const close of closers.toReversed()) await close()
  }
}

const unlessAborted = <T>(work: Promise<T>, signal: AbortSignal): Promise<T> =>
  new Promise((resolve, reject) => {
    const end = (): void => reject(signal.reason as Error)
    if (signal.aborted) end()
    signal.addEventListener('abort', end, { once: true })
    work.then(resolve, reject)
  })

interface Stage {
  readonly options: ControlOptions
  readonly api: ApiServerProcess
  readonly usher: UsherProcess
  readonly probe: Probe
  readonly meter: Meter
  readonly address: { readonly host: string; readonly port: number }
  readonly signal: AbortSignal
}

/** The syncs after the first `from`, until they have brought `changes` into effect. */
const syncsOf = async (
  usher: UsherProcess,
  from: number,
  changes: number,
): Promise<readonly Applied[]> => {
  const giveUpAt = performance.now() + lastChangesMs
  for (;;) {
    const syncs = usher.applied.slice(from)
    const seen = syncs.reduce((sum, { triggerTimes }) => sum + triggerTimes.length, 0)
    if (seen >= changes || performance.now() > giveUpAt) return syncs
    await sleep(100)
  }
}

const churnPhase = async (stage: Stage): Promise<Figures['churn']> => {
  const { options, api, usher, probe, meter, address, signal } = stage
  const startedAt = performance.now()
  const syncsBefore = usher.applied.length
  await api.startChurn(options.changesPerSecond)
  const until = startedAt + options.seconds * 1000
  const probedMs = await probeUntil(probe, address, until, signal)
  const made = await api.stopChurn()
  const elapsed = (performance.now() - startedAt) / 1000
  const syncs = await syncsOf(usher, syncsBefore, made.length)
  const figures = meter.take()
  return {
    ...figures,
    changes: made.length,
    syncs: syncs.length,
    appliedMs: syncs.flatMap(({ at, triggerTimes }) => triggerTimes.map(t => at - t)),
    probedMs,
    cpuShare: figures.cpuSeconds / elapsed,
    rssBytes: usher.usage().rssBytes,
  }
}

/** Where the relay listens for the Service `default/NAME`. Throws when it doesn't. */
const proxyAddressOf = async (
  metrics: string,
  name: string,
): Promise<{ host: string; port: number }> => {
  const response = await fetch(`http://${metrics}/status`)
  const { servicePorts } = (await response.json()) as StatusDocument
  const found = servicePorts.find(({ servicePort }) =>
    servicePort.startsWith(`default/${name}`),
  )
  const listen = found?.vips.find(vip => vip.listen !== '')?.listen
  if (listen === undefined) throw new Error(`usher does not listen for ${name}`)
  const [address = '', port] = listen.split(':')
  return { host: address, port: Number(port) }
}

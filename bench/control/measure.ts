import { setTimeout as sleep } from 'node:timers/promises'
import { freeTcpPort } from '../../test/support/ports.ts'
import { readUsage } from '../process/usage.ts'
import { type ApiServerProcess, startApiServer } from './api-server.ts'
import type { Figures, Phase } from './figures.ts'
import { Livez } from './livez.ts'
import type { ControlOptions } from './options.ts'
import { Probe, probeUntil } from './probe.ts'
import { proxyAddressOf } from './status.ts'
import { startUsher, type UsherProcess } from './usher.ts'

const host = '127.0.0.1'

/** Between the start and the changes, so that neither is measured with the other. */
const settleMs = 2000

/** Runs everything once. `say` hears what is going on. */
export const measure = async (
  options: ControlOptions,
  say: (what: string) => void,
): Promise<Figures> => {
  const closers: (() => unknown)[] = []
  try {
    say('filling the API server')
    const api = await startApiServer(options)
    closers.push(() => api.stop())
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
      '--min-sync-period=0',
      '--drain-timeout=0',
    ])
    closers.push(() => usher.stop())
    const livez = new Livez(healthz)
    closers.push(() => livez.close())
    const meter = new Meter(usher, livez)
    const servingMs = (await usher.serving) - usher.startedAt
    // The last report on the event loop has yet to come.
    await sleep(settleMs)
    const start = { ...meter.take(), servingMs }
    const address = await proxyAddressOf(metrics, 'probe')
    say(`changing endpoints for ${options.seconds} s`)
    const churn = await churnPhase({ options, api, usher, probe, meter, address })
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

interface Stage {
  readonly options: ControlOptions
  readonly api: ApiServerProcess
  readonly usher: UsherProcess
  readonly probe: Probe
  readonly meter: Meter
  readonly address: { readonly host: string; readonly port: number }
}

const churnPhase = async (stage: Stage): Promise<Figures['churn']> => {
  const { options, api, usher, probe, meter, address } = stage
  const startedAt = performance.now()
  const syncsBefore = usher.applied.length
  await api.startChurn(options.changesPerSecond)
  const until = startedAt + options.seconds * 1000
  const probedMs = await probeUntil(probe, address.host, address.port, until)
  const made = await api.stopChurn()
  const elapsed = (performance.now() - startedAt) / 1000
  // The last changes are still on their way.
  await sleep(1000)
  const syncs = usher.applied.slice(syncsBefore)
  const figures = meter.take()
  return {
    ...figures,
    changes: made.length,
    syncs: syncs.length,
    appliedMs: syncs.flatMap(({ at, triggerTimes }) => triggerTimes.map(t => at - t)),
    probedMs,
    cpuShare: figures.cpuSeconds / elapsed,
    rssBytes: readUsage(usher.pid)?.rssBytes ?? 0,
  }
}

/** What Usher used, since the last time it was asked. */
class Meter {
  readonly #usher: UsherProcess
  readonly #livez: Livez
  #cpuSeconds = 0
  #blocks = 0

  constructor(usher: UsherProcess, livez: Livez) {
    this.#usher = usher
    this.#livez = livez
  }

  take(): Phase {
    const cpuSeconds = readUsage(this.#usher.pid)?.cpuSeconds ?? 0
    const blocks = this.#usher.blocks.slice(this.#blocks)
    const phase = {
      cpuSeconds: cpuSeconds - this.#cpuSeconds,
      peakRssBytes: this.#usher.peakRssBytes(),
      longestBlockMs: Math.max(0, ...blocks.map(({ blockedMs }) => blockedMs)),
      livezMs: this.#livez.take(),
    }
    this.#cpuSeconds = cpuSeconds
    this.#blocks += blocks.length
    return phase
  }
}

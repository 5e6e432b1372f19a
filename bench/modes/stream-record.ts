import { quantile } from '../control/figures.ts'
import { lower, percentiles } from '../control/metrics.ts'
import type { Metric, Sample, ScenarioRecord } from '../record/record.ts'
import { goalsOf } from './goals.ts'
import type { ModeFigures, ModeWish } from './measure.ts'
import type { StreamDone } from './protocol.ts'

const metrics: readonly Metric[] = [
  ...percentiles,
  lower('cores', 'CPU of all', 'cores', 3),
  lower('own cores', 'its own', 'cores', 3),
  lower('tool cores', "its tools'", 'cores', 3),
  lower('syncs', 'Syncs', '/s', 1),
]

/** Endpoints that change all the time; none where that was not measured. */
export const streamScenarios = (
  wish: ModeWish,
  figures: readonly ModeFigures[],
): readonly ScenarioRecord[] => {
  const streams = figures.flatMap(({ proxier, stream }) =>
    stream === undefined ? [] : [[proxier, stream] as const],
  )
  if (streams.length === 0) return []
  const { services, endpoints } = wish
  const { seconds, perSecond, minSyncMs } = wish.stream
  const many = services.toLocaleString('en-US')
  return [
    {
      name: `modes-stream-${services}`,
      group: `Kernel modes, ${many} Services`,
      title: `${perSecond} endpoint changes a second for ${seconds} s, ${many} Services of ${endpoints} endpoints`,
      about: `From each change to the end of the sync that wrote it. Changes that come meanwhile are taken together by the next one; it waits by what the one before cost, for ${minSyncMs} ms at most (--min-sync-period). CPU time is that of the process that syncs and of its tools, nft monitor among them.`,
      metrics,
      notes: [],
      goals: streams.flatMap(([proxier]) => goalsOf(proxier, 'stream', wish)),
      outcomes: streams.map(([target, stream]) => ({
        target,
        round: 0,
        sample: { figures: figuresOf(stream), errors: {} },
      })),
      leftOut: [],
    },
  ]
}

const figuresOf = (stream: StreamDone): Sample['figures'] => {
  const { appliedMs, wallMs, cpuMs, toolCpuMs, syncs } = stream
  const [p50, p99, max] = [0.5, 0.99, 1].map(share => quantile(appliedMs, share))
  return {
    ...(p50 !== undefined && p99 !== undefined && max !== undefined && { p50, p99, max }),
    cores: (cpuMs + toolCpuMs) / wallMs,
    'own cores': cpuMs / wallMs,
    'tool cores': toolCpuMs / wallMs,
    syncs: (syncs * 1000) / wallMs,
  }
}

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { StatusDocument } from '../../src/observe/status.ts'
import type { ControlOptions } from './options.ts'
import {
  count,
  percentileRows,
  type Say,
  type Take,
  told,
  toldByRounds,
  usherName,
} from './record.ts'
import {
  type ApiServer,
  type Applied,
  closing,
  type ControlPlane,
  Livez,
  type LoopBlock,
  openControlPlane,
  unixNow,
  type UsherProcess,
} from './usher.ts'
import { watchCpu } from '../load/load.ts'
import type { Outcome, ScenarioRecord } from '../record/record.ts'
import type { Endpoint } from '../services.ts'
import {
  endpoint,
  serviceObject,
  sliceObject,
} from '../../test/support/api-server/builders.ts'
import { testHost } from '../../test/support/ports.ts'

/** With all ports to itself: ten thousand proxy ports are a third of the ephemeral ones. */
const host = testHost

/** Between the start and the changes, so that neither is measured with the other. */
const settleMs = 2000

/** For how long the last changes may still be on their way. */
const lastChangesMs = 10_000

/**
 * Usher from nothing to everything served, then while endpoints change. Hands scenarios over as
 * they are done. Rejects when `signal` ends it.
 */
export const measureServices = (
  options: ControlOptions,
  say: Say,
  signal: AbortSignal,
  take: Take,
): Promise<void> =>
  closing(async closers => {
    const backends = await Promise.all(['0', '1'].map(saying))
    closers.push(() => backends.forEach(server => server.close()))
    let at = 0
    const move = (api: ApiServer): Promise<number> =>
      api.apply(probeSlice(backends[(at = 1 - at)]))
    const plane = await openControlPlane(options, host, say, closers, async api => {
      await api.apply(serviceObject(probeName, '10.97.0.1'))
      await move(api)
    })
    const livez = new Livez(plane.healthz)
    closers.push(() => livez.close())
    const nextPhase = phasesOf(plane, livez)
    const start = await measureStart(plane, livez, nextPhase, options, say, signal)
    take(startScenarios(start, options))
    say(`changing endpoints for ${options.seconds} s`)
    const address = await proxyAddressOf(plane.metrics, probeName)
    const moved = () =>
      movedMs(
        () => move(plane.api),
        address,
        () => String(at),
      )
    const churn = await measureChurn(plane, moved, nextPhase, options, signal)
    const requests = await plane.api.requests()
    const { complaints } = plane.usher
    take(changeScenarios({ churn, requests, complaints }, options))
  })

type NextPhase = ReturnType<typeof phasesOf>
type Phase = ReturnType<NextPhase>
export type StartFigures = Awaited<ReturnType<typeof measureStart>>
export interface ChangeFigures {
  readonly churn: Awaited<ReturnType<typeof measureChurn>>
  readonly requests: Awaited<ReturnType<ApiServer['requests']>>
  readonly complaints: readonly string[]
}

/** Times are milliseconds. */
const measureStart = async (
  { usher }: ControlPlane,
  livez: Livez,
  nextPhase: NextPhase,
  { settle }: ControlOptions,
  say: Say,
  signal: AbortSignal,
) => {
  const servingMs = (await unlessAborted(usher.serving, signal)) - usher.startedAt
  // The last report on the event loop has yet to come.
  await sleep(settleMs, undefined, { signal })
  const answeredAt = livez.firstAt ?? usher.startedAt
  const loading = usher.blocks.filter(({ from }) => from <= answeredAt)
  const phase = nextPhase(loading.length)
  say(`leaving it alone for ${settle} s`)
  await sleep(settle * 1000, undefined, { signal })
  return {
    ...phase,
    servingMs,
    /** The longest block before /livez answered: Node loads the code, nothing is served yet. */
    loadingBlockMs: longest(loading),
    settledRssBytes: usher.usage().rssBytes,
  }
}

/** Endpoints of many Services change, and one is probed that moves about once a second. */
const measureChurn = async (
  { api, usher }: ControlPlane,
  moved: () => Promise<number>,
  nextPhase: NextPhase,
  { seconds, changesPerSecond }: ControlOptions,
  signal: AbortSignal,
) => {
  const startedAt = performance.now()
  const syncsBefore = usher.applied.length
  await api.startChurn(changesPerSecond)
  const probedMs: number[] = []
  while (performance.now() < startedAt + seconds * 1000) {
    probedMs.push(await moved())
    // Uneven, so that it does not keep step with anything.
    await sleep(500 + ((probedMs.length * 137) % 500), undefined, { signal })
  }
  const made = await api.stopChurn()
  const elapsed = (performance.now() - startedAt) / 1000
  const syncs = await syncsOf(usher, syncsBefore, made.length)
  const phase = nextPhase()
  return {
    ...phase,
    changes: made.length,
    syncs: syncs.length,
    /** From each change to the end of the sync that brought it into effect. */
    appliedMs: syncs.flatMap(sync => sync.triggerTimes.map(time => sync.at - time)),
    /** From a change to the first connection that went to the new endpoint. */
    probedMs,
    cpuShare: phase.cpuSeconds / elapsed,
    rssBytes: usher.usage().rssBytes,
  }
}

const unlessAborted = <T>(work: Promise<T>, signal: AbortSignal): Promise<T> =>
  new Promise((resolve, reject) => {
    const end = (): void => reject(signal.reason as Error)
    if (signal.aborted) end()
    signal.addEventListener('abort', end, { once: true })
    work.then(resolve, reject)
  })

/**
 * What Usher used and how it answered, since the last time it was asked; the first time since
 * its start. So many of its blocks may be passed over.
 */
const phasesOf = ({ api, usher }: ControlPlane, livez: Livez) => {
  const watch = () =>
    watchCpu({
      backend: [api.pid],
      get proxy() {
        return usher.pids()
      },
    })
  let [watched, cpuBefore, seen] = [watch(), 0, 0]
  return (passedOver = 0) => {
    const { cores } = watched()
    const { cpuSeconds } = usher.usage()
    const blocks = usher.blocks.slice(seen + passedOver)
    const phase = {
      cpuSeconds: cpuSeconds - cpuBefore,
      peakRssBytes: usher.peakRssBytes(),
      /** The longest time for which the event loop stood still. */
      longestBlockMs: longest(blocks),
      livezMs: livez.take(),
      /** That programs outside the bench kept busy. */
      othersCores: cores?.others ?? 0,
    }
    ;[watched, cpuBefore, seen] = [watch(), cpuSeconds, usher.blocks.length]
    return phase
  }
}

const longest = (blocks: readonly LoopBlock[]): number =>
  blocks.reduce((most, { blockedMs }) => Math.max(most, blockedMs), 0)

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

/** Where the relay listens for the Service `default/NAME`. Throws when it doesn't. */
const proxyAddressOf = async (metrics: string, name: string): Promise<Endpoint> => {
  const response = await fetch(`http://${metrics}/status`)
  const { servicePorts } = (await response.json()) as StatusDocument
  const found = servicePorts.find(({ servicePort }) =>
    servicePort.startsWith(`default/${name}`),
  )
  const listen = found?.vips.find(vip => vip.listen !== '')?.listen
  if (listen === undefined) throw new Error(`usher does not listen for ${name}`)
  const [address = '', port] = listen.split(':')
  return { address, port: Number(port) }
}

/**
 * A Service with one endpoint that moves between two backends. Its clients see when: the
 * whole way from a change at the API server to the connection that goes elsewhere.
 */
const probeName = 'probe'
const giveUpMs = 5000

const probeSlice = (backend: Server | undefined) => {
  const { port } = (backend?.address() ?? { port: 0 }) as AddressInfo
  const ports = [{ name: '', port, protocol: 'TCP' }]
  return sliceObject(probeName, `${probeName}-slice`, [endpoint('127.0.0.1')], { ports })
}

/** Milliseconds from a move until a connection went to where it went; Infinity for none in 5 s. */
const movedMs = async (
  move: () => Promise<number>,
  at: Endpoint,
  wanted: () => string,
): Promise<number> => {
  // Sent at once, while connections are being made: its answer tells the time.
  const sent = move()
  const end = unixNow() + giveUpMs
  while ((await whoAnswers(at)) !== wanted())
    if (unixNow() > end) {
      await sent
      return Infinity
    }
  const seenAt = unixNow()
  return seenAt - (await sent)
}

/** Says who it is and closes: TIME_WAIT stays on this side, and the client keeps its ports. */
const saying = async (name: string): Promise<Server> => {
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    socket.end(name)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}

const whoAnswers = ({ address, port }: Endpoint): Promise<string> =>
  new Promise(resolve => {
    const socket = connect(port, address)
    let said = ''
    socket.setEncoding('utf8').on('data', text => {
      said += text
    })
    socket.on('error', () => undefined)
    socket.once('close', () => resolve(said))
  })

/** From nothing to everything served. */
export const startScenarios = (
  start: StartFigures,
  { services, streamingLists }: ControlOptions,
): readonly ScenarioRecord[] => [
  told(
    {
      name: 'start',
      group: 'Start',
      title: `from nothing to ${count(services)} Services served`,
      about:
        'From the start of the process until it listens for everything that the API server has.',
      notes: [`Lists ${streamingLists ? 'streamed' : 'in pages'}.`],
    },
    [
      ['serving', 'Start to serving', 's', 2, start.servingMs / 1000, 10],
      ['cpu', 'CPU time', 's', 1, start.cpuSeconds],
    ],
    { cores: { others: start.othersCores } },
  ),
  told(
    {
      name: 'start-memory',
      group: 'Start',
      title: 'resident memory of both processes together',
      about: 'What they share (most of the program of Node) counts twice.',
    },
    [
      ['peak', 'Peak at the start', 'MB', 0, start.peakRssBytes / 1e6, 400],
      ['settled', 'When left alone', 'MB', 0, start.settledRssBytes / 1e6],
    ],
  ),
  told(
    {
      name: 'start-blocks',
      group: 'Start',
      title: 'the longest time for which the event loop stood still',
      about:
        'While Node loads the code nothing is served yet; after that /livez answers.',
    },
    [
      ['after', 'Afterwards', 'ms', 1, start.longestBlockMs, 50],
      ['loading', 'Loading the code', 'ms', 1, start.loadingBlockMs],
    ],
  ),
  livezScenario('start-livez', 'Start', start),
]

/** Complaints of Usher's beyond these say nothing new. */
const mostComplaints = 10

/** Endpoint changes while Usher serves. */
export const changeScenarios = (
  { churn, requests, complaints }: ChangeFigures,
  { changesPerSecond, seconds }: ControlOptions,
): readonly ScenarioRecord[] => {
  const { appliedMs, changes, syncs } = churn
  const lost = changes - appliedMs.length
  return [
    told(
      {
        name: 'change-to-sync',
        group: 'Changes',
        title: `${count(changesPerSecond)} endpoint changes a second for ${seconds} s`,
        about:
          'From each change at the API server to the end of the sync that brought it into effect.',
        notes: [
          `${count(appliedMs.length)} of ${count(changes)} changes seen, taken in by ${count(syncs)} syncs.`,
          `API requests: ${count(requests.count)}, at most ${requests.peakPerSecond} within a second.`,
          ...complaints.slice(0, mostComplaints).map(text => `MIND usher said: ${text}`),
        ],
      },
      percentileRows(appliedMs, 50),
      {
        cores: { proxy: churn.cpuShare, others: churn.othersCores },
        errors: lost > 0 ? { 'change not seen': lost } : {},
      },
    ),
    toldByRounds(
      {
        name: 'change-to-connection',
        group: 'Changes',
        title: 'from a change to the first connection that went to the new endpoint',
        about:
          'One Service whose endpoint moves about once a second; each move is a round.',
        outcomes: churn.probedMs.map(probed),
      },
      [['ms', 'Change to connection', 'ms', 1, undefined]],
    ),
    told(
      {
        name: 'changes-memory',
        group: 'Changes',
        title: 'resident memory of both processes together',
      },
      [
        ['end', 'RSS at the end', 'MB', 0, churn.rssBytes / 1e6],
        ['peak', 'Peak since the start', 'MB', 0, churn.peakRssBytes / 1e6],
      ],
    ),
    told(
      {
        name: 'changes-blocks',
        group: 'Changes',
        title: 'the longest time for which the event loop stood still',
      },
      [['longest', 'Longest block', 'ms', 1, churn.longestBlockMs, 50]],
    ),
    livezScenario('changes-livez', 'Changes', churn),
  ]
}

/** A tiny request takes as long as connections wait for the event loop. */
const livezScenario = (
  name: string,
  group: string,
  { livezMs }: Pick<Phase, 'livezMs'>,
): ScenarioRecord =>
  told(
    {
      name,
      group,
      title: 'how long a request for /livez takes',
      about: 'So long do new connections wait for the event loop, seen from outside.',
    },
    percentileRows(livezMs),
  )

const probed = (ms: number, round: number): Outcome => ({
  target: usherName,
  round,
  ...(Number.isFinite(ms)
    ? { sample: { figures: { ms }, errors: {} } }
    : { failure: 'no connection went to the new endpoint in time' }),
})

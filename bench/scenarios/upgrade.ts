import { setTimeout as sleep } from 'node:timers/promises'
import { openFileLimit } from '../../src/relay/fd-limit.ts'
import { sumOfCounts } from '../load/load.ts'
import type { LoadAnswer, Traffics } from '../load/question.ts'
import { type Goal, lower, type Sample } from '../record/record.ts'
import { type Servers, startServers } from '../sidecar/servers.ts'
import type { Endpoint } from '../services.ts'
import { milliseconds } from './metrics.ts'
import { notGivenReason, type Run, type Scenario, type Site } from './scenario.ts'
import type { Lane } from '../topology/topology.ts'

/* When the proxy itself is replaced. */

const upgrades = 10
const mostIdle = 10_000
const [busy, busiest, flows] = [180, 20, 50]
const newPerSecond = 200
/** A run of a shorter window has fewer of all. */
const usualSeconds = 2

/** Descriptors of a proxy for all but sessions: short ones, listeners, files. */
const otherDescriptors = 1200

/** By each session: one for either side, and with splicing HAProxy keeps a pipe for each four. */
const descriptorsEach = 2.5

/** All processes here have the same limit. */
const idle = Math.max(
  0,
  Math.min(
    mostIdle,
    Math.floor((openFileLimit() - otherDescriptors) / descriptorsEach) - busy - busiest,
  ),
)

const scaled = ({ seconds }: Pick<Run, 'seconds'>, count: number): number =>
  Math.ceil(count * Math.min(1, seconds / usualSeconds))

/** Without a program that is replaced: about as long as it takes another one. */
const withoutUpgradeMs = 1000
/** Before and after, to see the new process at its work. */
const besideMs = 300
/** Questions about new connections are of this length, as many as an upgrade takes. */
const sliceSeconds = 0.5

const metrics = [
  lower('cut', 'Sessions cut', '', 0),
  lower('refused', 'New connections failed', '', 0),
  milliseconds('pause p50', 'Longest pause p50', 1),
  milliseconds('pause p99', 'Pause p99', 1),
  milliseconds('pause max', 'Pause max', 1),
  lower('flows', 'UDP flows moved or with losses', '', 0),
  milliseconds('gone', 'Old process gone after', 0),
  milliseconds('late', 'Generator late, longest', 1),
] as const

const goalsOf = (target: string): readonly Goal[] =>
  (
    [
      ['refused', 0],
      ['cut', 0],
      ['pause p99', 20],
      ['flows', 0],
      ['gone', 2000],
    ] as const
  ).map(([metric, atMost]) => ({ target, metric, atMost }))

export const upgrade: Scenario = {
  name: 'upgrade',
  group: 'upgrade',
  title: `${upgrades} upgrades under sessions that stay and ${newPerSecond} new connections a second`,
  about: `Another process takes the place of the running one, which is to be gone a second later: Usher by --take-over, HAProxy by -x and -sf with hard-stop-after 1s. nginx has new workers at SIGHUP, with worker_shutdown_timeout 1s: its master and its listening sockets stay, which is the best case for it; after a new binary (SIGUSR2) old workers end in the same way. Counts are sums over all upgrades, and what was cut is opened again before the next one. Busy sessions send a byte each 50 ms, ${busiest} of them each millisecond; each byte has to come back in its order. A pause is the longest time that a byte of one of those ${busiest} was on its way during one upgrade; percentiles are over sessions and upgrades, and sessions that were cut have none. UDP flows send a datagram each 20 ms; counted are those with more than one lost, or another endpoint. The old process is gone when none of its processes runs, counted from the start of the new one. direct is not upgraded: its pauses are those of client and server.`,
  metrics,
  goals: [...goalsOf('sidecar'), ...goalsOf('usher')],
  targets: ['direct', 'sidecar', 'usher', 'baseline', 'haproxy', 'nginx'],
  fresh: true,
  replaces: true,
  mostRounds: 1,
  unsupportedReason: () => (process.platform === 'linux' ? '' : 'it needs Linux'),
  leavesOut: notGivenReason,
  expectedSeconds: window => 3 + scaled({ seconds: window }, upgrades) * 3.5,
  prepare: async () => ({
    notes: [
      `Sessions: ${idle.toLocaleString('en-US')} idle and ${busy + busiest} busy${
        idle < mostIdle
          ? `; the limit of ${openFileLimit().toLocaleString('en-US')} open files leaves a proxy no room for ${mostIdle.toLocaleString('en-US')}`
          : ''
      }. Windows shorter than ${usualSeconds} s have fewer sessions and fewer upgrades.`,
    ],
  }),
  site: (lane, _workDir) => echoes(lane),
  run: () => Promise.reject(new Error('its servers were not started')),
}

/** Ports from a proxy to one port run out when it has cut thousands of sessions several times. */
const servers = 8
const udpServers = 2

const echoes = async (lane: Lane): Promise<Site> => {
  const own = startServers(lane)
  try {
    return {
      services: [
        {
          name: 'echo',
          protocol: 'TCP',
          endpoints: await listen(own, lane, 'TCP', servers),
        },
        {
          name: 'udp',
          protocol: 'UDP',
          endpoints: await listen(own, lane, 'UDP', udpServers),
        },
      ],
      run: measure,
      stop: () => own.stop(),
    }
  } catch (error) {
    await own.stop()
    throw error
  }
}

const listen = async (
  own: Servers,
  { nodeAddress: address }: Lane,
  protocol: 'TCP' | 'UDP',
  count: number,
): Promise<readonly Endpoint[]> =>
  (await own.echo(protocol, address, count)).map(port => ({ address, port }))

const nothing = { idle: 0, busy: 0, busiest: 0 }

const measure = async (run: Run): Promise<Sample> => {
  const keep = (wanted: Omit<Traffics['kept-sessions'], 'to'>) =>
    run.load({ kind: 'kept-sessions', to: run.to('echo'), ...wanted }, 0)
  const udp = run.running.addressOf('udp')
  const keepFlows = async (count: number) =>
    udp && run.load({ kind: 'kept-flows', to: udp, flows: count }, 0)
  const wanted = {
    idle: scaled(run, idle),
    busy: scaled(run, busy),
    busiest: scaled(run, busiest),
  }
  const turns: Turn[] = []
  try {
    await keep(wanted)
    await keepFlows(scaled(run, flows))
    for (let turn = 0; turn < scaled(run, upgrades); turn += 1) {
      const replaced = await replace(run)
      // Sessions first: a look at them ends what is counted as their pause.
      const sessions = await keep(wanted)
      const flowsFound = await keepFlows(scaled(run, flows))
      turns.push({ ...replaced, sessions, flows: flowsFound })
    }
  } finally {
    await keep(nothing)
    await keepFlows(0)
  }
  return sampleOfTurns(turns)
}

interface Turn {
  readonly fresh: LoadAnswer
  readonly goneMs: number | undefined
  readonly sessions: LoadAnswer
  readonly flows: LoadAnswer | undefined
}

/** One upgrade, with new connections all along. */
const replace = async (run: Run): Promise<Pick<Turn, 'fresh' | 'goneMs'>> => {
  let isOver = false
  const replacing = (async () => {
    try {
      await sleep(besideMs)
      const goneMs = await run.running.replace?.()
      await sleep(goneMs === undefined ? withoutUpgradeMs : besideMs)
      return goneMs
    } finally {
      isOver = true
    }
  })()
  // It is waited for at the end only, and may fail before.
  replacing.catch(() => undefined)
  try {
    const fresh = await comeUntil(run, () => isOver)
    return { fresh, goneMs: await replacing }
  } finally {
    // Nothing goes on in the background of what comes next.
    await replacing
  }
}

const comeUntil = async (run: Run, isOver: () => boolean): Promise<LoadAnswer> => {
  let sum: LoadAnswer | undefined
  do {
    const slice = await run.load(
      {
        kind: 'sessions',
        to: run.to('echo'),
        speaks: 'asks first',
        clients: 0,
        pauseMs: 0,
        perSecond: newPerSecond,
        timeoutMs: 5000,
      },
      sliceSeconds,
    )
    sum = sum === undefined ? slice : sumOf(sum, slice)
  } while (!isOver())
  return sum
}

const sumOf = (one: LoadAnswer, other: LoadAnswer): LoadAnswer => ({
  ...one,
  done: one.done + other.done,
  tried: triedOf(one) + triedOf(other),
  seconds: one.seconds + other.seconds,
  errors: sumOfCounts(one.errors, other.errors),
})

const triedOf = ({ done, tried = done }: LoadAnswer): number => tried

const notDone = (answers: readonly LoadAnswer[]): number =>
  answers.reduce((sum, answer) => sum + triedOf(answer) - answer.done, 0)

const sampleOfTurns = (turns: readonly Turn[]): Sample => {
  const sessions = turns.map(turn => turn.sessions)
  const fresh = turns.map(turn => turn.fresh)
  const udp = turns.flatMap(({ flows: found }) => found ?? [])
  const gone = turns.flatMap(({ goneMs }) => goneMs ?? [])
  const pauses = sessions
    .flatMap(({ pauses: found = [] }) => found)
    .toSorted((one, other) => one - other)
  const late = Math.max(...sessions.map(answer => answer.late?.max ?? 0))
  return {
    figures: {
      refused: notDone(fresh),
      cut: notDone(sessions),
      ...(pauses.length > 0 && {
        'pause p50': percentile(pauses, 0.5),
        'pause p99': percentile(pauses, 0.99),
        'pause max': percentile(pauses, 1),
      }),
      ...(udp.length > 0 && { flows: notDone(udp) }),
      ...(gone.length > 0 && { gone: Math.max(...gone) }),
      late,
    },
    errors: sumOfCounts(...[...fresh, ...sessions, ...udp].map(({ errors }) => errors)),
  }
}

/** The least that so large a share of them is not above. */
const percentile = (sorted: readonly number[], share: number): number =>
  sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN

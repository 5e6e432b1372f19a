import { sumOfCounts } from '../load/load.ts'
import type { LoadAnswer } from '../load/question.ts'
import { readUsage } from '../process/usage.ts'
import { type Goal, higher, lower, type Sample } from '../record/record.ts'
import {
  besideThePeers,
  ledClients,
  milliseconds,
  nearThePipe,
  percent,
  rateScenario,
  sampleOf,
  timesOf,
  windowAndSettling,
} from './metrics.ts'
import {
  type Backends,
  notGivenReason,
  type Prepared,
  type Run,
  type RunsOf,
  type Scenario,
} from './scenario.ts'
import type { BenchService } from '../services.ts'

/* What any proxy carries, and finds. */

type Traits = Pick<Scenario, 'quick' | 'goals'>

const path = '/64'

const plural = (count: number, one: string): string =>
  `${count.toLocaleString('en-US')} ${one}${count === 1 ? '' : 's'}`

const requests = (
  connections: number,
  bytes: 64 | 16_384,
  traits: Traits = {},
): Scenario =>
  rateScenario(
    {
      rate: ['req/s', 'Requests'],
      cost: ['us/req', 1],
      of: 1,
      unitsPerSecond: 1e6,
    },
    {
      name: `requests-${connections}${bytes === 64 ? '' : '-16k'}`,
      group: 'requests',
      title: `${plural(connections, 'kept connection')}, answers of ${bytes === 64 ? '64 B' : '16 KiB'}`,
      about:
        'One request at a time on each connection, as fast as answers come: what a relay costs for each message.',
      httpOnly: true,
      traffic: run => ({
        kind: 'requests',
        generator: run.generator,
        to: run.to('http'),
        path: `/${bytes}`,
        connections,
      }),
      ...traits,
    },
  )

/** At a time: more would only wait in queues. */
const parallel = 24

const connecting = `connect, one request, close; ${parallel} at a time`

/** Connections of one request each. */
export const connectionsScenario = (
  own: (title: string) => Omit<Parameters<typeof rateScenario>[1], 'traffic'>,
  dialled = 'http',
): Scenario =>
  rateScenario(
    { rate: ['conn/s', 'Connections'], cost: ['CPU s/100k', 1], of: 1e5 },
    {
      ...own(connecting),
      traffic: run => ({
        kind: 'connections',
        generator: run.generator,
        to: run.to(dialled),
        path,
        parallel,
      }),
    },
  )

/** How long connecting takes, and all that it costs the client, the kernel's work in its name too. */
const connectFigures = {
  besides: [
    milliseconds('connect p50', 'Connect p50'),
    milliseconds('connect p99', 'Connect p99'),
  ],
  last: [lower('cost of client', 'CPU time of the client', 'us/conn', 1)],
  further: ({ cores, seconds, done, connect }: LoadAnswer): Sample['figures'] => ({
    ...(cores?.generator !== undefined &&
      done > 0 && { 'cost of client': (cores.generator * seconds * 1e6) / done }),
    ...timesOf(connect, ['p50', 'p99'], 'connect '),
  }),
}

const connections = connectionsScenario(title => ({
  name: 'connections',
  group: 'connections',
  title,
  about:
    'What a relay costs for each connection. The times of connecting are of a few connections beside the others, under the same load.',
  ...connectFigures,
  goals: [
    ...nearThePipe,
    ...besideThePeers(1, 0.95),
    ...ledClients(0.95),
    {
      target: 'usher-mode-nftables',
      metric: 'rate',
      to: 'usher-mode-iptables',
      atLeast: 0.95,
    },
  ],
  quick: true,
  httpOnly: true,
}))

/** With zeros, so that the last comes last for those who work in the order of names, too. */
const nameOf = (index: number): string => `service-${String(index).padStart(5, '0')}`

/** So many, and one before and one after them. */
const servicesOf = (count: number, { endpoints }: Backends): readonly BenchService[] =>
  Array.from({ length: count + 2 }, (_, index) => ({
    name: nameOf(index),
    protocol: 'TCP',
    endpoints: endpoints('http'),
  }))

/** Beside those that are dialled; they tell that all are there. */
const awaited = (count: number): readonly string[] => [nameOf(0), nameOf(count + 1)]

/** What a new connection costs where there are many other Services. */
const manyServices = (
  count: number,
  targets: readonly string[],
  goals: readonly Goal[],
): Scenario => {
  // In the middle: rules that are walked through are half as long there as they get.
  const dialled = nameOf(count / 2)
  const isDialled = ({ name }: BenchService): boolean => name === dialled
  return connectionsScenario(
    title => ({
      name: `connections-${count}`,
      group: 'connections',
      title: `${title}; to one of ${plural(count, 'Service')}`,
      about:
        'New connections to one Service among many. Beside those of `connections` they tell whether a mode goes through all Services to find it.',
      ...connectFigures,
      goals,
      targets,
      // The first has the address that `connections` dials. For connections to another one, with the
      // same endpoints, the kernel would have to find ports that none of those had.
      services: backends => {
        const all = servicesOf(count, backends)
        return [...all.filter(isDialled), ...all.filter(one => !isDialled(one))]
      },
      awaited: awaited(count),
    }),
    dialled,
  )
}

const modes = ['direct', 'usher-mode-nftables', 'usher-mode-iptables', 'usher-mode-ipvs']

/** 20,000 addresses of the host would take long to assign. */
const leading = ['usher-connect-time', 'usher-connect-time+nftables']

/** Those of iptables mode would take minutes to start with the larger number. */
export const manyServicesScenarios: readonly Scenario[] = [
  manyServices(5000, modes, [
    {
      target: 'usher-mode-nftables',
      metric: 'rate',
      to: 'usher-mode-iptables',
      atLeast: 1.3,
    },
  ]),
  manyServices(
    20_000,
    ['direct', 'usher-mode-nftables', ...leading],
    ledClients(0.95, leading),
  ),
]

const ways = {
  download: 'backend to client',
  upload: 'client to backend',
  both: 'both ways at once',
} as const

const bytesPerGigabit = 1e9 / 8

const bulk = (way: keyof typeof ways, streams: number, traits: Traits = {}): Scenario =>
  rateScenario(
    {
      rate: ['Gbit/s', 'Throughput', 2],
      perUnit: bytesPerGigabit,
      cost: ['CPU s/GB', 3],
      of: 1e9,
    },
    {
      name: `${way}-${streams}`,
      group: 'bulk',
      title: `${plural(streams, 'stream')}${way === 'both' ? ' each way' : ''}, ${ways[way]}`,
      about: 'As many bytes as go through: what a relay costs for each byte.',
      traffic: run => ({
        kind: 'bulk',
        streams,
        ...(way === 'upload' ? {} : { download: run.to('source') }),
        ...(way === 'download' ? {} : { upload: run.to('sink') }),
      }),
      ...traits,
    },
  )

/**
 * splice(2) moves pages where others copy bytes. HAProxy can do so, too, but does not as
 * it comes (haproxy-copy): how far Usher is ahead is given for both.
 */
const besideHaproxy = (haproxy: 'haproxy' | 'haproxy-copy'): readonly Goal[] => [
  { target: 'usher-linux', metric: 'rate', to: haproxy, atLeast: 1.6 },
  { target: 'usher-linux', metric: 'cost', to: haproxy, atMost: 0.6 },
]

const oneStream: readonly Goal[] = [
  ...nearThePipe,
  ...ledClients(0.98),
  ...besideHaproxy('haproxy-copy'),
  ...besideHaproxy('haproxy'),
  { target: 'usher-linux', metric: 'rate', to: 'nginx', atLeast: 1.2 },
]

/**
 * Datagrams on their way at any time, of all flows. Wherever they pile up they fit into a
 * default socket buffer (208 KiB, socket(7)), in which one of 1400 B takes 2304.
 */
const onTheirWay = (bytes: number): number => (bytes > 512 ? 64 : 128)

interface UdpTraits extends Traits {
  /** Each datagram says where it goes. */
  readonly unconnected?: true
}

const udp = (
  bytes: number,
  flows: number,
  { unconnected, ...traits }: UdpTraits = {},
): Scenario =>
  rateScenario(
    {
      rate: ['echo/s', 'Echoes'],
      cost: ['us/echo', 1],
      of: 1,
      unitsPerSecond: 1e6,
    },
    {
      name: `udp-${bytes}-${flows}${unconnected ? '-unconnected' : ''}`,
      group: 'udp',
      title: `echoes of ${bytes} B, ${flows} flows${unconnected ? ', by sockets that are not connected' : ''}`,
      about:
        'Datagrams there and back, so few on their way that none needs to be lost: what a relay costs for each.',
      besides: [percent('lost', 'Lost')],
      traffic: run => ({
        kind: 'udp-echoes',
        to: run.to('udp'),
        flows,
        bytes,
        window: Math.max(1, onTheirWay(bytes) / flows),
        ...(unconnected && { unconnected }),
      }),
      further: ({ errors: { lost = 0 }, done }) => ({
        lost: (lost / Math.max(1, lost + done)) * 100,
      }),
      ...traits,
    },
  )

const udpGoals: readonly Goal[] = [
  ...nearThePipe,
  { target: 'usher-linux', metric: 'rate', to: 'nginx', atLeast: 1.3 },
  { target: 'usher-linux', metric: 'rate', to: 'usher-portable', atLeast: 2 },
]

const latencyConnections = 64
const calibrationSeconds = 1
/** Code that is not compiled yet would make for a low rate. */
const warmUpSeconds = 0.5

/** How many requests a second a target does when it is asked for more and more. */
const capacity = async (run: Run): Promise<number> => {
  const traffic = {
    kind: 'requests',
    generator: 'own',
    to: run.to('http'),
    path,
    connections: latencyConnections,
  } as const
  await run.load(traffic, warmUpSeconds)
  const { done, seconds } = await run.load(traffic, calibrationSeconds)
  return done / seconds
}

/**
 * One rate for all, or their latencies could not be compared: a share of what the slowest
 * proxy can do.
 */
const rateForAll = async (runsOf: RunsOf, share: number): Promise<Prepared> => {
  let slowest = { name: '', perSecond: Infinity }
  for (const run of await runsOf(({ kind }) => kind !== 'direct')) {
    if (run.running.addressOf('http') === undefined) continue
    const perSecond = await capacity(run)
    if (perSecond > 0 && perSecond < slowest.perSecond)
      slowest = { name: run.target.name, perSecond }
  }
  if (slowest.name === '') throw new Error('no proxy served, so there is no capacity')
  const value = Math.round(slowest.perSecond * share)
  return {
    notes: [
      `Offered to all: ${value.toLocaleString('en-US')} requests a second, ${share * 100} % of what the slowest proxy (${slowest.name}) could do just before.`,
    ],
    value,
  }
}

const late = milliseconds('late p99', 'Generator late p99')

const latency = (share: number, traits: Traits = {}): Scenario => ({
  name: `latency-${share * 100}`,
  group: 'latency',
  title: `requests at ${share * 100} % of capacity, over ${latencyConnections} connections`,
  about:
    'Requests come at a fixed rate whether or not earlier ones were answered, and are timed from when they were due: a proxy that stalls is charged for all requests that would have waited.',
  metrics: [
    milliseconds('p99', 'p99'),
    milliseconds('p50', 'p50'),
    milliseconds('p90', 'p90'),
    milliseconds('p999', 'p99.9'),
    late,
  ],
  httpOnly: true,
  prepare: runsOf => rateForAll(runsOf, share),
  expectedSeconds: window =>
    windowAndSettling(window) + (warmUpSeconds + calibrationSeconds) / 3,
  run: async (run, { value: perSecond = 0 }) => {
    const to = run.to('http')
    const plan = { to, path, connections: latencyConnections, perSecond }
    const answer = await run.load({ kind: 'open-loop', ...plan })
    if (answer.latency === undefined) throw new Error('no request was answered')
    return sampleOf(answer, {
      ...timesOf(answer.latency, ['p50', 'p90', 'p99', 'p999']),
      ...timesOf(answer.late, ['p99'], 'late '),
    })
  },
  ...traits,
})

/** Far below what any proxy can do, so that without bulk there are no queues. */
const perSecond = 1000

const mixed: Scenario = {
  name: 'mixed',
  group: 'mixed',
  title: `${perSecond} requests a second beside one download`,
  about:
    'Small requests at a fixed rate, first alone, then beside one stream that takes all it can get through the same proxy: how many times longer the slowest hundredth waits. What the direct path shows is what client, backend and kernel add by themselves.',
  metrics: [
    lower('slowdown', 'p99 beside bulk to p99 alone', 'times', 2),
    milliseconds('p99 beside', 'p99 beside bulk'),
    milliseconds('p99 alone', 'p99 alone'),
    milliseconds('p50 beside', 'p50 beside bulk'),
    higher('download', 'The download', 'Gbit/s', 2),
    late,
  ],
  // Where the processors are all taken, the direct path's requests wait for the download's
  // client and server already: the second goal leaves that out.
  goals: [
    { target: 'usher-linux', metric: 'slowdown', atMost: 3 },
    { target: 'usher-linux', metric: 'p99 beside', to: 'direct', atMost: 3 },
  ],
  quick: true,
  expectedSeconds: window => 2 * windowAndSettling(window),
  run: async run => {
    const small = { to: run.to('http'), path, connections: 16, perSecond }
    const alone = await run.load({ kind: 'open-loop', ...small })
    const download = run.to('source')
    const beside = await run.load({ kind: 'mixed', ...small, download })
    if (alone.latency === undefined || beside.latency === undefined)
      throw new Error('no request was answered')
    const { besideBytes = 0, seconds } = beside
    return sampleOf(
      { ...beside, errors: sumOfCounts(alone.errors, beside.errors) },
      {
        slowdown: beside.latency.p99 / alone.latency.p99,
        'p99 beside': beside.latency.p99,
        'p99 alone': alone.latency.p99,
        'p50 beside': beside.latency.p50,
        download: besideBytes / seconds / bytesPerGigabit,
        ...timesOf(beside.late, ['p99'], 'late '),
      },
    )
  },
}

const idleConnections = 4000

const memoryOf = async (run: Run) => {
  const traffic = { kind: 'idle', path, connections: idleConnections } as const
  const answer = await run.load({ ...traffic, to: run.to('http') })
  if (answer.memory === undefined) throw new Error('memory is read from /proc: not here')
  return { answer, memory: answer.memory }
}

const idle: Scenario = {
  name: 'idle',
  group: 'idle',
  title: `memory for each of ${idleConnections} connections that have nothing to say`,
  about:
    "Growth of the proxy's resident memory, and of the kernel's (sockets, buffers, connection tracking) beyond what client and backend need without a proxy.",
  metrics: [
    lower('user', 'Memory of the proxy', 'kB/conn', 1),
    lower('kernel', "The kernel's for the proxy", 'kB/conn', 1),
  ],
  goals: [
    { target: 'usher-portable', metric: 'user', atMost: 12 },
    { target: 'usher-linux', metric: 'user', atMost: 1 },
  ],
  fresh: true,
  mostRounds: 3,
  leavesOut: target =>
    target.kind === 'direct' ? 'there is no proxy to measure' : notGivenReason(target),
  prepare: async runsOf => {
    const [direct] = await runsOf(({ kind }) => kind === 'direct')
    if (direct === undefined)
      return { notes: ["The kernel's memory is of client, proxy and backend together."] }
    const { memory } = await memoryOf(direct)
    return { notes: [], value: memory.kernelBytes }
  },
  expectedSeconds: () => 6,
  run: async (run, { value: withoutProxy = 0 }) => {
    const { answer, memory } = await memoryOf(run)
    return sampleOf(answer, {
      user: memory.userBytes / 1000,
      kernel: (memory.kernelBytes - withoutProxy) / 1000,
    })
  },
}

/** Of so many Services at most each is dialled once in a run. */
const mostDialled = 200

/** Of fewer dials the 90th percentile is the one or two slowest. */
const fewestForP90 = 50

/** Spread over all, the last among them: rules that are walked through are longest there. */
const dialledOf = (count: number): readonly string[] => {
  const dials = Math.min(count, mostDialled)
  return Array.from({ length: dials }, (_, i) =>
    nameOf(Math.ceil(((i + 1) * count) / dials)),
  )
}

const firstConnection = (count: number): Scenario => ({
  name: `first-${count}`,
  group: 'first',
  title: `${plural(count, 'Service')} configured`,
  about:
    'From dialling to the whole answer, for Services not dialled before: what it costs to find one among many.',
  metrics: [
    milliseconds('p50', 'First answer p50'),
    milliseconds('p90', 'First answer p90'),
    milliseconds('connect p50', 'Connect p50'),
    lower('memory', 'Memory of the proxy', 'MB', 0),
  ],
  services: backends => servicesOf(count, backends),
  awaited: awaited(count),
  fresh: true,
  // A single dial says little, and takes no time.
  ...(count > 1 && { mostRounds: 3 }),
  leavesOut: target =>
    target.kind === 'floor' ? 'it knows no Services' : notGivenReason(target),
  expectedSeconds: () => 2 + count / 1000,
  run: async run => {
    const to = dialledOf(count).map(run.to)
    const answer = await run.load({ kind: 'first-connections', to, path })
    const { latency: found, connect } = answer
    if (found === undefined) throw new Error('none was answered')
    const memory = readUsage(run.running.pids())?.rssBytes
    return sampleOf(answer, {
      ...timesOf(found, found.count >= fewestForP90 ? ['p50', 'p90'] : ['p50']),
      ...timesOf(connect, ['p50'], 'connect '),
      ...(memory && { memory: memory / 1e6 }),
    })
  },
})

/** In the order in which they are measured and reported. */
export const trafficScenarios: readonly Scenario[] = [
  requests(1, 64),
  requests(32, 64, {
    quick: true,
    goals: [...nearThePipe, ...besideThePeers(1.05, 1), ...ledClients(0.98)],
  }),
  requests(256, 64),
  requests(1, 16_384),
  requests(32, 16_384),
  requests(256, 16_384),
  connections,
  ...manyServicesScenarios,
  bulk('download', 1, { quick: true, goals: oneStream }),
  bulk('upload', 1, { goals: oneStream }),
  bulk('both', 1),
  bulk('download', 8),
  bulk('upload', 8),
  bulk('both', 8),
  latency(0.5, {
    quick: true,
    goals: [{ target: 'usher-linux', metric: 'p99', to: 'haproxy', atMost: 1 }],
  }),
  latency(0.8),
  mixed,
  idle,
  udp(64, 4),
  udp(64, 16, { quick: true, goals: udpGoals }),
  udp(64, 16, { unconnected: true, goals: ledClients(0.9) }),
  udp(64, 64),
  udp(1400, 4),
  udp(1400, 64),
]

export const firstConnectionScenarios = [1, 1000, 10_000].map(firstConnection)

import type { Fault, Scope } from '../support/api-server/faults.ts'
import type { ApiServer } from '../support/api-server/server.ts'
import type { Backup } from '../support/api-server/store.ts'
import type { Disturbance } from '../support/api-server/watch.ts'
import type { Random } from './random.ts'

/** What weather is made for. */
export interface Sky {
  readonly server: ApiServer
  /** The last backup that was taken. */
  backup: Backup
  /** The server refuses connections, or takes no notice of them. */
  away: boolean
  /** Makes the proxy read everything anew. */
  readonly reload: () => void
}

/** What was done: its kind is for the table, the rest for the log. */
export interface Gust {
  readonly kind: string
  readonly more: string
  /** Whether what all Services look like may have changed. */
  readonly sweeping?: boolean
}

/**
 * `mild` is what a watch survives: events twice or too late, compaction. `gentle` is what a proxy gets over by itself within seconds. `rough` adds what it can only find
 * out by waiting for a word: silence, half-open connections.
 */
export type Mood = 'mild' | 'gentle' | 'rough'

type Blow = (sky: Sky, random: Random, mood: Mood) => Gust | Promise<Gust>

const scopes: readonly (readonly string[] | undefined)[] = [
  undefined,
  ['services'],
  ['endpointslices', 'endpoints'],
  ['nodes'],
  ['services', 'endpointslices', 'endpoints'],
]

/** A fault that waits for the next requests, which are made to come soon. */
const misanswer: Blow = ({ server, reload }, random, mood) => {
  const fault = random.pick(mood === 'rough' ? roughFaults : gentleFaults)(random)
  const resources = random.pick(scopes)
  const verbs = random.pick([undefined, ['list'], ['watch']] as const)
  const times = random.between(1, 3)
  const scope: Scope = { ...(resources && { resources }), ...(verbs && { verbs }), times }
  server.faults.add(fault, scope)
  const nudge = random.pick(['close', 'rst', 'reload', 'reload'] as const)
  if (nudge === 'reload') reload()
  else server.disturb(nudge, resources?.[0])
  const where = `${verbs?.join() ?? 'all'} of ${resources?.join() ?? 'all'}`
  return {
    kind: nameOf(fault),
    more: `${JSON.stringify(fault)} ${times} times for ${where}, after ${nudge}`,
  }
}

const nameOf = (fault: Fault): string =>
  fault.kind === 'status' ? String(fault.code) : fault.kind

const status =
  (...codes: readonly number[]) =>
  (random: Random): Fault => {
    const code = random.pick(codes)
    const wait = (code === 429 || code === 503) && random.chance(0.5)
    return { kind: 'status', code, ...(wait && { retryAfterSeconds: 1 }) }
  }

const bytes = (random: Random): number => random.pick([0, 1, 100, 1500, 20_000, 60_000])

type Maker = (random: Random) => Fault

const gentleFaults: readonly Maker[] = [
  status(410, 429, 500, 503),
  status(410, 429, 500, 503),
  random => ({ kind: 'delay', ms: random.between(50, 1500) }),
  random => ({
    kind: 'cut',
    how: random.pick(['fin', 'rst'] as const),
    afterBytes: bytes(random),
  }),
  random => ({ kind: 'truncate', afterBytes: bytes(random) }),
  () => ({ kind: 'slow', bytesPerSecond: 100_000 }),
  () => ({ kind: 'garbage' }),
  random => ({ kind: 'huge-line', bytes: random.pick([100_000, 3 << 20, 8 << 20]) }),
  () => ({ kind: 'close' }),
  () => ({ kind: 'duplicate' }),
  () => ({ kind: 'stale' }),
]

const roughFaults: readonly Maker[] = [
  ...gentleFaults,
  status(401, 403),
  status(401, 403),
  () => ({ kind: 'stall' }),
  () => ({ kind: 'silence' }),
  () => ({ kind: 'half-open' }),
  () => ({ kind: 'slow', bytesPerSecond: 2000 }),
]

const gentleDisturbances: readonly Disturbance[] = [
  'close',
  'truncate',
  'fin',
  'rst',
  'garbage',
  'duplicate',
  'duplicate',
  'stale',
  'stale',
  'huge-line',
  'gone',
]

const disturb: Blow = ({ server }, random, mood) => {
  const how = random.pick<Disturbance>(
    mood === 'rough' ? [...gentleDisturbances, 'half-open'] : gentleDisturbances,
  )
  const resource = random.pick(scopes)?.[0]
  const count = server.disturb(how, resource)
  return { kind: `watch ${how}`, more: `${count} of ${resource ?? 'all'}` }
}

/** Events that come twice, or too late. */
const tease: Blow = ({ server }, random) => {
  const how = random.pick(['duplicate', 'stale', 'stale'] as const)
  return { kind: `watch ${how}`, more: `${server.disturb(how)} of all` }
}

const compact: Blow = ({ server }) => {
  server.compact()
  return { kind: 'compaction', more: '' }
}

const behave: Blow = ({ server: { behaviour } }, random, mood) => {
  // A proxy that has once read pages does so for ever: streaming must not end too soon.
  const others = mood === 'rough' ? ['refused', 'ignored'] : ['refused']
  const streaming = random.chance(0.8) ? 'on' : random.pick(others)
  behaviour.streamingLists = streaming as typeof behaviour.streamingLists
  behaviour.goneAs = random.pick(['status', 'event'])
  behaviour.futureWatch = random.pick(['wait', 'gone', 'too-large'])
  behaviour.serviceFields = random.chance(0.8)
  const every = random.pick([100, 1000, 10_000])
  // Where they tell of life each second, an end that never comes is waited for for long.
  behaviour.bookmarkEveryMs = streaming === 'ignored' ? 60_000 : every
  const { off: _, ...rest } = behaviour
  return { kind: 'another behaviour', more: JSON.stringify(rest) }
}

/** As of something on the way that does not find the server: what was read once is no reason to read Endpoints. */
const slices: Blow = ({ server }, random) => {
  const { off } = server.behaviour
  const served = !off.has('endpointslices')
  if (served) off.add('endpointslices')
  else off.delete('endpointslices')
  const how = random.pick(['close', 'rst'] as const)
  server.disturb(how, 'endpointslices')
  return { kind: served ? 'no slices' : 'slices again', more: how }
}

const shut: Blow = async sky => {
  if (sky.away) return comeBack(sky)
  sky.away = true
  sky.server.shut()
  return { kind: 'shut', more: '' }
}

const vanish: Blow = async sky => {
  if (sky.away) return comeBack(sky)
  sky.away = true
  sky.server.vanish()
  return { kind: 'vanish', more: '' }
}

const comeBack = async (sky: Sky): Promise<Gust> => {
  sky.away = false
  await sky.server.reappear()
  return { kind: 'reappear', more: '' }
}

const restart: Blow = async ({ server, away }) => {
  if (away) return { kind: 'nothing', more: 'there is no server to restart' }
  server.shut()
  await server.reappear()
  return { kind: 'restart', more: '' }
}

const rotate: Blow = ({ server }) => {
  server.rotateToken()
  return { kind: 'token rotated', more: '' }
}

const backUp: Blow = sky => {
  sky.backup = sky.server.backup()
  return { kind: 'backup', more: `of version ${sky.backup.version}` }
}

/** As etcd's manual has it: no version is given out twice, and watches of before are told so. */
const restoreByTheBook: Blow = ({ server, backup }) => {
  const { version } = server
  server.restore(backup)
  for (let turn = 0; server.version <= version; turn += 1)
    server.apply({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'bump' },
      data: { turn: String(turn) },
    })
  server.compact()
  const more = `from ${version} to ${backup.version}, bumped`
  return { kind: 'restore, bumped', more, sweeping: true }
}

/** The versions of the backup come again: what old ones meant is not what they mean now. */
export const restorePlain = ({ server, backup }: Sky): Gust => {
  const { version } = server
  server.restore(backup)
  const more = `from ${version} to ${backup.version}`
  return { kind: 'restore, plain', more, sweeping: true }
}

const forceReload: Blow = ({ reload }) => {
  reload()
  return { kind: 'reload', more: '' }
}

const mildBlows: readonly Blow[] = [
  ...Array.from({ length: 15 }, () => tease),
  compact,
  compact,
  behave,
  rotate,
  backUp,
]

const gentleBlows: readonly Blow[] = [
  misanswer,
  misanswer,
  disturb,
  disturb,
  disturb,
  compact,
  behave,
  restart,
  rotate,
  backUp,
  backUp,
  forceReload,
]

const roughBlows: readonly Blow[] = [
  ...gentleBlows,
  misanswer,
  misanswer,
  misanswer,
  misanswer,
  misanswer,
  misanswer,
  slices,
  restoreByTheBook,
  restoreByTheBook,
  shut,
  shut,
  vanish,
]

/** Ends all watches. */
export const cutAll = ({ server }: Sky, random: Random): Gust => {
  const how = random.pick(['close', 'rst'] as const)
  return { kind: `watch ${how}`, more: `${server.disturb(how)} of all` }
}

/** Does something bad to the server, or to who watches it. */
export const blow = async (sky: Sky, random: Random, mood: Mood): Promise<Gust> =>
  random.pick(blows[mood])(sky, random, mood)

const blows = { mild: mildBlows, gentle: gentleBlows, rough: roughBlows } as const

/** Nothing bad waits to happen any more. What was done to watches that run stays done. */
export const clearSky = async (sky: Sky): Promise<void> => {
  sky.server.faults.clear()
  sky.server.behaviour.off.delete('endpointslices')
  if (sky.away) await comeBack(sky)
}

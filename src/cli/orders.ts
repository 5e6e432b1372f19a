import type { OptionsOf } from '../config/options.ts'
import { UsageError } from '../config/usage-error.ts'
import {
  type AnswerOf,
  type GivenRequest,
  heaviest,
} from '../observe/control-protocol.ts'
import { askCommand, exitCodeOf } from './ask-usher.ts'
import { type Io, visible } from './io.ts'
import { bareName } from './listings.ts'

// Commands that have an Usher carry out an order at its control socket. The exit code is 0 where
// everything named is as it was ordered, also if it was before; 1 where something is not.

type Order = 'pause' | 'resume' | 'drain' | 'undrain' | 'weight' | 'close'

/** How the outcomes of an order are printed. */
interface Report<C extends Order, O> {
  readonly outcomesOf: (answer: AnswerOf<C>) => readonly O[]
  /** Whether it has come out as it was ordered. */
  readonly isWanted: (outcome: O) => boolean
  /** The line to print for one that has. */
  readonly describe: (outcome: O) => string
  /** Of one that was carried out, and is so no more: nobody may rely on it. */
  readonly undone: (outcome: O) => string
}

/** Has the Usher at the socket carry out an order; prints its outcomes, one to a line. */
const carryOut = async <C extends Order, O>(
  command: C,
  controlSocket: string,
  request: GivenRequest<C>,
  io: Io,
  { outcomesOf, isWanted, describe, undone }: Report<C, O>,
): Promise<number> => {
  if (controlSocket === '')
    throw new UsageError(
      'no control socket given; give --control-socket PATH, the path that Usher was started with, or set USHER_CONTROL_SOCKET',
      command,
    )
  return exitCodeOf(command, io, async () => {
    const where = { controlSocket, address: '' }
    const answer = await askCommand(where, command, request)
    const outcomes = outcomesOf(answer)
    const others = outcomes.filter(outcome => !isWanted(outcome))
    for (const one of outcomes.filter(isWanted)) io.out(`${visible(describe(one))}\n`)
    const notes = 'notes' in answer ? answer.notes : []
    for (const note of [...notes, ...others.map(undone)])
      io.err(`usher ${command}: ${visible(note)}\n`)
    return others.length === 0 ? 0 : 1
  })
}

type Paused = AnswerOf<'pause'>['routes'][number]

const pauses = {
  outcomesOf: ({ routes }: AnswerOf<'pause'>) => routes,
  describe: ({ route, wasPaused, paused }: Paused): string => {
    if (paused === null) return `${route}: ${wasPaused ? 'resumed' : 'was not paused'}`
    const end = paused.until ?? 'it is resumed'
    return `${route}: ${wasPaused ? 'was already paused; now' : 'paused'} until ${end}`
  },
  undone: ({ route, paused }: Paused): string =>
    paused === null
      ? `${route} is no longer paused: --for expired before it took effect, someone has resumed it, or it is gone`
      : `${route} is paused: someone has paused it again meanwhile`,
}

/** `usher pause` */
export const pause = (options: OptionsOf<'pause'>, io: Io): Promise<number> => {
  const { name, reset, for: ms, controlSocket } = options
  const routes = routeNames(name)
  const request = { routes, reset, ...(ms > 0 && { forMs: ms }) }
  return carryOut('pause', controlSocket, request, io, {
    ...pauses,
    isWanted: ({ paused }) => paused !== null,
  })
}

/** `usher resume` */
export const resume = (options: OptionsOf<'resume'>, io: Io): Promise<number> => {
  const { name, controlSocket } = options
  return carryOut('resume', controlSocket, { routes: routeNames(name) }, io, {
    ...pauses,
    isWanted: ({ paused }) => paused === null,
  })
}

type Drained = AnswerOf<'drain'>['endpoints'][number]

const closes = {
  none: 'open connections stay',
  idle: 'open connections are reset as they become idle',
  all: 'open connections are reset',
} as const

const drains = {
  outcomesOf: ({ endpoints }: AnswerOf<'drain'>) => endpoints,
  describe: ({ route, endpoint, wasDrained, drained }: Drained): string => {
    const what = `${endpoint} of ${route}`
    if (drained === null)
      return `${what}: ${wasDrained ? 'undrained' : 'was not drained'}`
    const how = wasDrained ? 'was already drained; now' : 'drained'
    return `${what}: ${how} until ${drained.until ?? 'it is undrained'}; ${closes[drained.close]}`
  },
  undone: ({ route, endpoint, drained }: Drained): string => {
    const what = `${endpoint} of ${route}`
    if (drained === null)
      return `${what} is no longer drained: --for expired before it took effect, someone has undrained it, or it is gone`
    return `${what} is drained, and ${closes[drained.close]}: someone has drained it again meanwhile`
  },
}

/** `usher drain` */
export const drain = (options: OptionsOf<'drain'>, io: Io): Promise<number> => {
  const { endpoint, route, close: how, for: ms, controlSocket } = options
  const endpoints = endpointNames(endpoint)
  const times = ms > 0 && { forMs: ms }
  const request = { endpoints, ...routesOf(route), close: how, ...times }
  return carryOut('drain', controlSocket, request, io, {
    ...drains,
    isWanted: ({ drained }) => drained?.close === how,
  })
}

/** `usher undrain` */
export const undrain = (options: OptionsOf<'undrain'>, io: Io): Promise<number> => {
  const { endpoint, route, controlSocket } = options
  const request = { endpoints: endpointNames(endpoint), ...routesOf(route) }
  return carryOut('undrain', controlSocket, request, io, {
    ...drains,
    isWanted: ({ drained }) => drained === null,
  })
}

/** Those that are named, or all. */
const routesOf = (route: readonly string[]): { routes?: readonly string[] } =>
  route.length === 0 ? {} : { routes: routeNames(route) }

const routeNames = (given: readonly string[]): readonly string[] =>
  given.map(name => bareName(name, 'services'))

const endpointNames = (given: readonly string[]): readonly string[] =>
  given.map(name => bareName(name, 'endpoints'))

/** `usher weight`: of one endpoint, in all routes that are meant. */
export const weight = async (options: OptionsOf<'weight'>, io: Io): Promise<number> => {
  const { endpoint: given, route, reset, controlSocket } = options
  const { endpoint, wanted } = readWeight(given, reset)
  const request = {
    endpoints: endpointNames([endpoint]),
    ...routesOf(route),
    weight: wanted,
  }
  return carryOut('weight', controlSocket, request, io, {
    outcomesOf: ({ endpoints }) => endpoints,
    isWanted: one =>
      wanted === null ? one.since === null : one.since !== null && one.weight === wanted,
    describe: weightText,
    undone: one => `${weightText(one)}: someone has changed it meanwhile, or it is gone`,
  })
}

const wrong = (reason: string): UsageError => new UsageError(reason, 'weight')

/** `ENDPOINT N`, or `ENDPOINT` alone. Throws UsageError. */
const readWeight = (
  [endpoint = '', given, ...more]: readonly string[],
  reset: boolean,
): { readonly endpoint: string; readonly wanted: number | null } => {
  if (more.length > 0)
    throw wrong(
      `${JSON.stringify(more[0])} is one argument too many; give ENDPOINT and N`,
    )
  if (given === undefined) return { endpoint, wanted: null }
  if (reset) throw wrong('give either a weight or --reset')
  const wanted = /^\d{1,3}$/.test(given) ? Number(given) : Number.NaN
  if (!(wanted <= heaviest))
    throw wrong(
      `${JSON.stringify(given)} is not a weight; give a whole number from 0 to ${heaviest}`,
    )
  return { endpoint, wanted }
}

const weightText = (one: AnswerOf<'weight'>['endpoints'][number]): string => {
  const { route, endpoint, was, weight: now, since } = one
  const whose = since === null ? ', as its source says' : ''
  return `${endpoint} of ${route}: weight ${now}${whose}${was === now ? '' : `, was ${was}`}`
}

/** `usher close`: all of the connections were open, and are no more. */
export const close = (options: OptionsOf<'close'>, io: Io): Promise<number> => {
  const { connection, controlSocket } = options
  const connections = connection.map(name => bareName(name, 'connections'))
  return carryOut('close', controlSocket, { connections }, io, {
    outcomesOf: answer => answer.connections,
    isWanted: ({ closed }) => closed,
    describe: ({ id }) => `${id}: closed`,
    undone: ({ id }) => `${id} is not open: it has ended, or never was`,
  })
}

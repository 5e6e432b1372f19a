import type { OptionsOf } from '../config/options.ts'
import type { AnswerOf } from '../observe/control-protocol.ts'
import { tell } from './tell.ts'
import type { Io } from './io.ts'
import { sayOutcomes } from './outcomes.ts'

type Outcome = AnswerOf<'drain'>['endpoints'][number]

/** `usher drain`: 0 when the endpoints are drained, also when they were before; 1 when one is not. */
export const drain = (options: OptionsOf<'drain'>, io: Io): Promise<number> => {
  const { endpoint: endpoints, route, close, for: ms, controlSocket: path } = options
  const order = { endpoints, ...routesOf(route), close, ...(ms > 0 && { forMs: ms }) }
  return tell({ command: 'drain', path }, 'drain', order, io, answer =>
    sayOutcomes('drain', answer.endpoints, answer.notes, io, {
      isWanted: ({ drained }) => drained !== null && drained.close === close,
      words,
      undone,
    }),
  )
}

/** `usher undrain`: 0 when the endpoints are not drained, also when they were not before; else 1. */
export const undrain = (options: OptionsOf<'undrain'>, io: Io): Promise<number> => {
  const { endpoint: endpoints, route, controlSocket: path } = options
  const order = { endpoints, ...routesOf(route) }
  return tell({ command: 'undrain', path }, 'undrain', order, io, answer =>
    sayOutcomes('undrain', answer.endpoints, answer.notes, io, {
      isWanted: ({ drained }) => drained === null,
      words,
      undone,
    }),
  )
}

/** Those that are named, or all. */
export const routesOf = (route: readonly string[]): { routes?: readonly string[] } =>
  route.length === 0 ? {} : { routes: route }

const closes = {
  none: 'open connections stay',
  idle: 'open connections are reset as they become idle',
  all: 'open connections are reset',
} as const

const words = ({ route, endpoint, wasDrained, drained }: Outcome): string => {
  const what = `${endpoint} of ${route}`
  if (drained === null) return `${what}: ${wasDrained ? 'undrained' : 'was not drained'}`
  const how = wasDrained ? 'was drained before; it is so' : 'drained'
  return `${what}: ${how} until ${drained.until ?? 'it is undrained'}; ${closes[drained.close]}`
}

const undone = ({ route, endpoint, drained }: Outcome): string => {
  const what = `${endpoint} of ${route}`
  if (drained === null)
    return `${what} is not drained any more: --for was over before it could take effect, someone has undrained it, or it is gone`
  return `${what} is drained, and ${closes[drained.close]}: someone has drained it again meanwhile`
}

import type { OptionsOf } from '../config/options.ts'
import type { AnswerOf } from '../observe/control-protocol.ts'
import { tell } from './tell.ts'
import type { Io } from './io.ts'
import { sayOutcomes } from './outcomes.ts'

type Outcome = AnswerOf<'pause'>['routes'][number]

/** `usher pause`: 0 when the routes are paused, also when they were before; 1 when one is not. */
export const pause = (options: OptionsOf<'pause'>, io: Io): Promise<number> => {
  const { name: routes, reset, for: ms, controlSocket: path } = options
  const order = { routes, reset, ...(ms > 0 && { forMs: ms }) }
  return tell({ command: 'pause', path }, 'pause', order, io, answer =>
    sayOutcomes('pause', answer.routes, answer.notes, io, {
      isWanted: ({ paused }) => paused !== null,
      words,
      undone,
    }),
  )
}

/** `usher resume`: 0 when the routes are not paused, also when they were not before; else 1. */
export const resume = (options: OptionsOf<'resume'>, io: Io): Promise<number> => {
  const { name: routes, controlSocket: path } = options
  return tell({ command: 'resume', path }, 'resume', { routes }, io, answer =>
    sayOutcomes('resume', answer.routes, answer.notes, io, {
      isWanted: ({ paused }) => paused === null,
      words,
      undone,
    }),
  )
}

const words = ({ route, wasPaused, paused }: Outcome): string => {
  if (paused === null) return `${route}: ${wasPaused ? 'resumed' : 'was not paused'}`
  const end = paused.until ?? 'it is resumed'
  return `${route}: ${wasPaused ? 'was paused before; it is so' : 'paused'} until ${end}`
}

const undone = ({ route, paused }: Outcome): string =>
  paused === null
    ? `${route} is not paused any more: --for was over before it could take effect, someone has resumed it, or it is gone`
    : `${route} is paused: someone has paused it again meanwhile`

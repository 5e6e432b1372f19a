import type { OptionsOf } from '../config/options.ts'
import { tell } from './tell.ts'
import type { Io } from './io.ts'
import { sayOutcomes } from './outcomes.ts'

/** `usher close`: 0 when all of the connections were open, and are no more; 1 when one was not. */
export const close = (options: OptionsOf<'close'>, io: Io): Promise<number> => {
  const { connection: connections, controlSocket: path } = options
  return tell({ command: 'close', path }, 'close', { connections }, io, answer =>
    sayOutcomes('close', answer.connections, [], io, {
      isWanted: ({ closed }) => closed,
      words: ({ id }) => `${id}: closed`,
      undone: ({ id }) => `${id} is not open: it has ended, or never was`,
    }),
  )
}

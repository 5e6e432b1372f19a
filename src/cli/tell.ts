import type { Command } from '../config/commands.ts'
import { UsageError } from '../config/usage-error.ts'
import type {
  AnswerOf,
  ControlCommand,
  GivenRequest,
} from '../observe/control-protocol.ts'
import { hasCode } from '../util/usher-error.ts'
import { askCommand } from './ask-usher.ts'
import type { Io } from './io.ts'
import { visible } from './words.ts'

/** Where the Usher is that is told. */
export interface Told {
  /** The command of the command line, for what is said. */
  readonly command: Command
  /** Its control socket. */
  readonly path: string
}

/** Has `Told` carry out a command and hands its answer to `show`, whose exit code this is. */
export const tell = async <C extends ControlCommand>(
  { command: said, path: controlSocket }: Told,
  command: C,
  request: GivenRequest<C>,
  io: Io,
  show: (answer: AnswerOf<C>) => number,
): Promise<number> => {
  if (controlSocket === '')
    throw new UsageError(
      'no control socket given; give --control-socket PATH, as Usher was given it, or set USHER_CONTROL_SOCKET',
      said,
    )
  const where = { controlSocket, address: '' }
  return orSayWhyNot(said, io, async () =>
    show(await askCommand(where, command, request)),
  )
}

/**
 * The exit code of what asks an Usher. Without an answer it is 3, and 1 where that is a refusal, or
 * there is nothing of a name; the reason is said.
 */
export const orSayWhyNot = async (
  command: Command,
  io: Io,
  ask: () => Promise<number>,
): Promise<number> => {
  try {
    return await ask()
  } catch (error) {
    if (!hasCode(error, 'NO_ANSWER', 'ORDER_REFUSED', 'NOT_FOUND')) throw error
    io.err(`usher ${command}: ${visible(error.message)}\n`)
    return hasCode(error, 'NO_ANSWER') ? 3 : 1
  }
}

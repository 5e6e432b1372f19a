import type { Command } from '../config/commands.ts'
import type { Io } from './io.ts'
import { visible } from './words.ts'

/** How the outcomes of a command are said. */
interface Saying<O> {
  /** Whether it has come out as it was ordered. */
  readonly isWanted: (outcome: O) => boolean
  /** What there is to say of one that has. */
  readonly words: (outcome: O) => string
  /** Of one that was carried out, and is so no more: nobody may rely on it. */
  readonly undone: (outcome: O) => string
}

/** Says what has become of each, one to a line; the exit code: 1 where one is not as it was ordered. */
export const sayOutcomes = <O>(
  command: Command,
  outcomes: readonly O[],
  notes: readonly string[],
  io: Io,
  { isWanted, words, undone }: Saying<O>,
): number => {
  const others = outcomes.filter(outcome => !isWanted(outcome))
  for (const outcome of outcomes.filter(isWanted)) io.out(`${visible(words(outcome))}\n`)
  for (const note of [...notes, ...others.map(undone)])
    io.err(`usher ${command}: ${visible(note)}\n`)
  return others.length === 0 ? 0 : 1
}

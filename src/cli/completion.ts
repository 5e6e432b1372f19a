import type { OptionsOf } from '../config/options.ts'
import { UsageError } from '../config/usage-error.ts'
import { bashScript } from './completion/bash.ts'
import { fishScript } from './completion/fish.ts'
import { commandLines } from './completion/vocabulary.ts'
import { zshScript } from './completion/zsh.ts'
import type { Io } from './io.ts'

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript } as const

/** `usher completion`: prints the script of one shell. */
export const completion = (
  { shell: shells }: OptionsOf<'completion'>,
  io: Io,
): Promise<number> => {
  const [shell = 'bash', more] = shells
  if (more !== undefined)
    throw new UsageError('give one shell; run the command once for each', 'completion')
  io.out(scripts[shell](commandLines()))
  return Promise.resolve(0)
}

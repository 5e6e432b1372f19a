import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { tempDirectory } from '../../../support/net/temp-directory.ts'
import type { IptablesBackEnd } from './foreign.ts'

const commands = ['iptables', 'ip6tables'] as const
const suffixes = ['', '-save', '-restore'] as const

/**
 * A directory in which `iptables` is the one of this back end, as on a system that has
 * chosen it.
 */
export const iptablesTools = async (
  t: Test,
  backEnd: IptablesBackEnd,
): Promise<string> => {
  const directory = await tempDirectory(t)
  for (const command of commands)
    for (const suffix of suffixes)
      await symlink(
        `/usr/sbin/xtables-${backEnd}-multi`,
        join(directory, `${command}${suffix}`),
      )
  return directory
}

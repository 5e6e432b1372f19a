import { existsSync } from 'node:fs'
import { rename, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { tempDirectory } from '../../support/net/temp-directory.ts'
import type { IptablesBackEnd } from './foreign.ts'

const commands = ['iptables', 'ip6tables'] as const
const suffixes = ['', '-save', '-restore'] as const

/** All that are called `iptables`. */
export const iptablesTools: readonly string[] = commands.flatMap(command =>
  suffixes.map(suffix => `${command}${suffix}`),
)

const otherTools = ['ip', 'nft', 'conntrack', 'ipset', 'ipvsadm']
const systems = '/usr/sbin'

/**
 * A directory with the tools that Usher may call, in which `iptables` is the one of this
 * back end, as on a system that has chosen it.
 */
export const nodeTools = async (t: Test, backEnd: IptablesBackEnd): Promise<string> => {
  const directory = await tempDirectory(t)
  const link = (name: string, tool: string): Promise<void> =>
    symlink(join(systems, tool), join(directory, name))
  for (const name of iptablesTools) await link(name, `xtables-${backEnd}-multi`)
  for (const name of otherTools)
    if (existsSync(join(systems, name))) await link(name, name)
  return directory
}

/** Another tool in one's place, in one step: a shell that reads it meanwhile would run what it finds. */
export const placeTool = async (
  tools: string,
  name: string,
  body: string,
): Promise<void> => {
  await writeFile(join(tools, 'new'), `#!/bin/sh\n${body}\n`, { mode: 0o755 })
  await rename(join(tools, 'new'), join(tools, name))
}

/** As nft does when it meets rules that a newer one has written. */
export const crashes = 'kill -SEGV $$'

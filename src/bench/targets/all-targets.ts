import { direct } from './direct.ts'
import { haproxyProgram, haproxyTarget } from './haproxy.ts'
import { nginxProgram, nginxTarget } from './nginx.ts'
import { pipeTarget } from './pipe.ts'
import { versionOf } from './program.ts'
import type { Target } from './target.ts'
import { usherTarget } from './usher.ts'

/** All that the bench can start itself, in the order of a report. */
export const allTargets = (workDir: string): readonly Target[] => [
  direct,
  usherTarget({ name: 'usher', capture: 'listen', workDir }),
  usherTarget({ name: 'usher-nftables', capture: 'nftables', workDir }),
  usherTarget({ name: 'usher-iptables', capture: 'iptables', workDir }),
  usherTarget({ name: 'usher-local', capture: 'local', workDir }),
  haproxyTarget({ workDir }),
  nginxTarget({ workDir }),
  pipeTarget(workDir),
]

const versioned = {
  haproxy: haproxyProgram,
  nginx: nginxProgram,
  nft: { command: 'nft', versionArgs: ['--version'], packageName: 'nftables' },
  iptables: { command: 'iptables', versionArgs: ['--version'], packageName: 'iptables' },
} as const

/** Versions of the programs that targets need, by name; those that are installed. */
export const versions = async (): Promise<Record<string, string>> => {
  const found: Record<string, string> = { node: process.versions.node }
  for (const [name, program] of Object.entries(versioned)) {
    const version = await versionOf(program)
    if (version !== undefined) found[name] = version
  }
  return found
}

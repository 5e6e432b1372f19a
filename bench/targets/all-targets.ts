import { direct } from './direct.ts'
import { haproxyChecksTarget } from './haproxy-checks.ts'
import { haproxyProgram, haproxyTarget } from './haproxy.ts'
import { loggedHaproxy, loggedSidecar } from './logged.ts'
import { nginxProgram, nginxTarget } from './nginx.ts'
import { pipeTarget } from './pipe.ts'
import { versionOf } from './program.ts'
import type { Target } from './target.ts'
import { connectTimeTarget } from './usher-connect-time.ts'
import { usherModeTarget } from './usher-mode.ts'
import { sidecarTarget } from './usher-sidecar.ts'
import { usherTarget } from './usher.ts'

/** Rules cost connections, not bytes: these scenarios tell what a capture costs. */
const whereRulesTell = ['requests-32', 'connections', 'first']

/** Where a second thread has something to do that the first one can't. */
const whereThreadsTell = [
  'requests-32',
  'requests-256',
  'connections',
  'download-8',
  'udp-64-64',
]

/** `usher` takes the Linux relay with a thread for each core: elsewhere its siblings tell. */
const whereTheDefaultTells = [
  'requests-32',
  'connections',
  'download-1',
  'latency-50',
  'idle',
  'udp-64-16',
  'retry',
  'churn',
  'first',
]

/** Where the portable relay tells more than beside one more number of streams or flows. */
const wherePortableTells = [
  'requests',
  'connections',
  'download-1',
  'upload-1',
  'download-8',
  'latency-50',
  'mixed',
  'idle',
  'udp-64-16',
  'udp-64-64',
  'udp-1400-64',
  'failure',
  'first-1',
  'first-1000',
]

/** The least that a relay costs for what it carries: it has nothing else. */
const whereThePipeTells = [
  'requests-1',
  'requests-32',
  'requests-256',
  'requests-32-16k',
  'connections',
  'download-1',
  'upload-1',
  'both-1',
  'download-8',
  'latency-50',
  'udp-64-16',
  'udp-64-64',
  'udp-1400-64',
]

/** Only bulk shows whether bytes are spliced or copied, and who is beside it. */
const whereSplicingTells = ['download-1', 'upload-1', 'mixed']

/** What a connect costs, and that nothing of it is left in the way afterwards. */
const whereConnectTimeTells = [
  'requests-1',
  'requests-32',
  'connections',
  'download-1',
  'upload-1',
  'udp-64-16',
  'udp-64-16-unconnected',
  'first',
]

/** All that the bench can start itself, in the order of a report. */
export const allTargets = (workDir: string): readonly Target[] => [
  direct,
  ...usherTargets(workDir),
  usherModeTarget({ mode: 'nftables', workDir }),
  usherModeTarget({ mode: 'iptables', workDir }),
  usherModeTarget({ mode: 'ipvs', workDir }),
  ...([undefined, 'local', 'nftables'] as const).map(beside =>
    connectTimeTarget({
      workDir,
      ...(beside && { beside }),
      mainlyFor: whereConnectTimeTells,
    }),
  ),
  haproxyTarget({ workDir }),
  haproxyTarget({ workDir, copies: true, mainlyFor: whereSplicingTells }),
  haproxyChecksTarget({ workDir }),
  haproxyChecksTarget({ workDir, onlyTcp: true }),
  nginxTarget({ workDir }),
  { ...pipeTarget(workDir), mainlyFor: whereThePipeTells },
  ...(['file', 'syslog'] as const).flatMap(to => [
    loggedSidecar(workDir, to),
    loggedHaproxy(workDir, to),
  ]),
]

/** First the one that is in everything: pictures are of it. */
const usherTargets = (workDir: string): readonly Target[] => {
  const plain = { capture: 'listen', workDir } as const
  const captures = ['nftables', 'iptables', 'local'] as const
  return [
    usherTarget({ ...plain, name: 'usher-linux', relay: { kind: 'linux', workers: 1 } }),
    usherTarget({ ...plain, name: 'usher', mainlyFor: whereTheDefaultTells }),
    usherTarget({
      ...plain,
      name: 'usher-linux-2',
      relay: { kind: 'linux', workers: 2 },
      mainlyFor: whereThreadsTell,
    }),
    usherTarget({
      ...plain,
      name: 'usher-portable',
      relay: { kind: 'portable' },
      mainlyFor: wherePortableTells,
    }),
    ...captures.map(capture =>
      usherTarget({
        name: `usher-${capture}`,
        capture,
        workDir,
        mainlyFor: whereRulesTell,
      }),
    ),
    sidecarTarget({ name: 'sidecar', workDir }),
    sidecarTarget({ name: 'sidecar-passive', workDir, passive: true }),
    sidecarTarget({ name: 'sidecar-hold', workDir, holds: true }),
    sidecarTarget({ name: 'sidecar-4', workDir, workers: 4 }),
    sidecarTarget({ name: 'sidecar-lists', workDir, denied: 100_000 }),
  ]
}

const versioned = {
  haproxy: haproxyProgram,
  nginx: nginxProgram,
  nft: { command: 'nft', versionArgs: ['--version'], packageName: 'nftables' },
  iptables: { command: 'iptables', versionArgs: ['--version'], packageName: 'iptables' },
  ipvsadm: { command: 'ipvsadm', versionArgs: ['--version'], packageName: 'ipvsadm' },
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

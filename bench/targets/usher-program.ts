import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { programFile } from '../../src/util/own-files.ts'
import type { Endpoint } from '../services.ts'
import { startProxy } from './start-proxy.ts'
import type { Order, RunningTarget } from './target.ts'
import { shownPart, targetDirectory } from './target-directory.ts'
import { UsherManifests } from './usher-manifests.ts'

export interface UsherProgram {
  readonly name: string
  /** A directory of it is made under this. */
  readonly workDir: string
  /** Program and first arguments of another build; this installation's by default. */
  readonly command?: readonly string[]
}

/** What differs between the ways in which Usher is measured. */
export interface UsherTraits {
  /** Flags of `usher run` beside those that all have; the directory is the target's own. */
  readonly flags: (directory: string) => readonly string[]
  /** Where clients dial which service. */
  readonly vips: ReadonlyMap<string, Endpoint>
}

/** The program of this installation, for sources that of the last build. */
export const ownCommand = (): readonly string[] => [
  process.execPath,
  fileURLToPath(programFile('usher')),
]

/** Why it can't be started; '' when it can. */
export const usherProblem = ({ command }: Pick<UsherProgram, 'command'>): string => {
  const program = ownCommand()[1] ?? ''
  return command === undefined && !existsSync(program)
    ? `${program} is missing: build it with \`npm run build\``
    : ''
}

/** `usher run` with manifests that it follows. */
export const startUsher = async (
  { name, workDir, command }: UsherProgram,
  order: Order,
  { flags, vips }: UsherTraits,
): Promise<RunningTarget> => {
  const directory = await targetDirectory(workDir, name)
  const manifestsIn = join(directory, 'manifests')
  await mkdir(manifestsIn)
  const manifests = new UsherManifests(manifestsIn, order.services, vips)
  await manifests.writeAll()
  const given = ['run', `--manifests=${manifestsIn}`, ...sharedFlags, ...flags(directory)]
  return startProxy(order, {
    name,
    argv: [...(command ?? ownCommand()), ...given],
    // The path of this installation means nothing on another machine.
    command: [...(command ?? ['usher']), ...given].join(' '),
    config: shownPart(manifests.sample()),
    addresses: vips,
    directory,
    setEndpoints: async (service, endpoints, process) => {
      await manifests.setEndpoints(service, endpoints)
      // It watches its files, too, but waits until they have been quiet for 50 ms, which
      // with 20 changes a second they never are.
      process.signal('SIGHUP')
    },
  })
}

const sharedFlags = [
  '--hostname-override=bench-node',
  '--healthz-bind-address=off',
  '--min-sync-period=0s',
  '--drain-timeout=0s',
  '--log-level=warn',
  '--log-format=json',
]

/** ClusterIPs: unassigned addresses. */
export const clusterIps = ({ lane, services }: Order): ReadonlyMap<string, Endpoint> => {
  const { clusterIp } = lane
  if (clusterIp === undefined) throw new Error('this node has no ClusterIPs')
  return new Map(
    services.map(({ name }, index) => [name, { address: clusterIp(index), port: 80 }]),
  )
}

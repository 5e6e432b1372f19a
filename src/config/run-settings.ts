import type { ModeRequest } from '../mode/fallback-mode.ts'
import type { ModeName, Periods, KernelOptions } from '../mode/mode.ts'
import type { ClusterAccess as Access } from '../source/kubernetes/cluster-access.ts'
import type { OptionsOf } from './options.ts'
import { readOptions, rejectConflicts } from './parse.ts'
import { type KubeProxyConfiguration, withDefaults } from './kube-proxy/configuration.ts'
import { validate } from './kube-proxy/validate.ts'
import {
  effectiveOptions,
  type Decision,
  periods,
  kernelOptions,
} from './settings/effective.ts'
import { treeFromFile, treeFromFlags } from './settings/from-flags.ts'
import { loadFile, type LoadedFile } from './settings/load-file.ts'
import { modeRequest } from './settings/modes.ts'
import { warningsOf } from './settings/warnings.ts'
import { splitAtCommas } from './types/basic.ts'
import { UsageError } from './usage-error.ts'
import { messageOf } from '../util/usher-error.ts'

/** The way to the API server. */
export type ClusterAccess = Omit<Access, 'version'>

/** Which clients count as on this node, besides its own processes. */
export interface LocalClients {
  readonly clusterCidrs: readonly string[]
  /** The podCIDRs of the Node count too. */
  readonly nodeCidrs: boolean
}

export interface RunSettings {
  /** What to go by: a field of the file, or a flag, or its default. */
  readonly options: OptionsOf<'run'>
  /** With every default, for /configz and --write-config-to. JSON as kube-proxy has it. */
  readonly configuration: KubeProxyConfiguration
  /** Each to be logged once. */
  readonly warnings: readonly string[]
  /** Undefined when Services come from manifests. */
  readonly cluster: ClusterAccess | undefined
  /** `--bind-address` or `bindAddress`; '' where neither is given: loopback, of either IP family. */
  readonly proxyPortAddress: string
  readonly localClients: LocalClients
  /** Which mode is asked for; '' leaves it to the Node's annotation, and to what works. */
  readonly mode: ModeRequest
  readonly kernel: KernelOptions
  readonly periods: Readonly<Record<ModeName, Periods>>
}

type NodeCommand = 'run' | 'check'

const loaded = async (
  command: NodeCommand,
  path: string,
  readFile: (path: string) => Promise<string>,
): Promise<LoadedFile | undefined> => {
  if (path === '') return undefined
  try {
    return await loadFile(path, readFile)
  } catch (error) {
    const reason = messageOf(error)
    throw new UsageError(`--config ${path}: ${reason}`, command)
  }
}

const localClients = (configuration: KubeProxyConfiguration): LocalClients => {
  const { detectLocalMode, clusterCIDR } = configuration
  const byCluster = detectLocalMode === '' || detectLocalMode === 'ClusterCIDR'
  return {
    clusterCidrs: byCluster ? splitAtCommas(clusterCIDR) : [],
    nodeCidrs: detectLocalMode === 'NodeCIDR',
  }
}

const clusterAccess = (options: OptionsOf<'run'>): ClusterAccess | undefined =>
  options.manifests.length > 0
    ? undefined
    : {
        kubeconfig: options.kubeconfig,
        master: options.master,
        qps: options.kubeApiQps,
        burst: options.kubeApiBurst,
      }

/**
 * Everything that the arguments of `usher run` (or `usher check`) say, and the file of
 * --config, which is read with `readFile`. Throws UsageError with all that is wrong.
 */
export const runSettings = async (
  args: readonly string[],
  readFile: (path: string) => Promise<string>,
  command: NodeCommand = 'run',
): Promise<RunSettings> => {
  const { given, options } = readOptions(command, args)
  const file = await loaded(command, options.config, readFile)
  const tree = file === undefined ? treeFromFlags(given) : treeFromFile(file.tree, given)
  const configuration = withDefaults(tree)
  const fault = validate(configuration)
  if (fault !== '')
    throw new UsageError(
      file === undefined ? fault : `--config ${options.config}: ${fault}`,
      command,
    )
  const hasFile = file !== undefined
  const decision: Decision = { given, options, hasFile, tree, configuration }
  const effective = effectiveOptions(decision)
  const { minSyncPeriod } = options
  rejectConflicts({ ...effective, minSyncPeriod }, command, given)
  const mode = modeRequest(
    configuration.mode,
    given,
    file === undefined ? undefined : `mode in ${options.config}`,
  )
  return {
    options: effective,
    configuration,
    warnings: [...(file?.warnings ?? []), ...warningsOf(decision, mode.mode)],
    cluster: clusterAccess(effective),
    proxyPortAddress: tree['bindAddress'] === undefined ? '' : configuration.bindAddress,
    localClients: localClients(configuration),
    mode,
    kernel: kernelOptions(configuration, effective),
    periods: periods(decision, effective),
  }
}

import type { RunSettings } from '../config/run-settings.ts'
import type { NodeProxy } from '../kernel/cleanup/node-proxy.ts'
import { permissionAdvice } from '../kernel/permission-advice.ts'
import { type Finding, type NodeFindings, relaysOf } from './check-node.ts'
import { quoted } from './io.ts'

// The last lines of `usher check`: the command to run now, and what there is to say to it.

/** What was asked for. */
type Asked = Pick<RunSettings, 'options' | 'mode'>

/** Words as a shell takes them. */
const line = (...words: readonly string[]): string =>
  words.map(word => (/^[\w@%+=:,./-]+$/.test(word) ? word : quoted(word))).join(' ')

const firstUsable = (list: readonly Finding[]): string | undefined =>
  list.find(({ usable }) => usable)?.name

/** What was asked for and does not work here. */
export interface Lack {
  /** `mode ipvs`, as the report of a node has it. */
  readonly what: string
  readonly reason: string
  /** What to give in its place, or how it may work. */
  readonly advice: string
}

export const lacking = (
  { options, mode }: Asked,
  { modes, captures, connectTime, relay }: NodeFindings,
): readonly Lack[] => {
  const { capture, connectTime: wanted } = options
  const byFlag = mode.by.startsWith('--')
  const instead = firstUsable(modes.filter(({ name }) => name !== 'ipvs')) ?? 'userspace'
  return [
    ...lack(
      `mode ${mode.mode}`,
      problemOf(modes, mode.mode),
      `${mode.by}${byFlag ? '' : ':'} ${mode.mode}`,
      `give ${instead}`,
    ),
    ...lack(
      `capture ${capture}`,
      problemOf(captures, capture),
      `--capture ${capture}`,
      `give ${firstUsable(captures) ?? 'listen'}`,
    ),
    ...lack(
      'relay linux',
      options.relay === 'linux' ? problemOf(relaysOf(relay), 'linux') : undefined,
      '--relay linux',
      'leave it out',
    ),
    ...lack(
      'connect-time on',
      ['on', 'host'].includes(wanted) && !connectTime.usable
        ? connectTime.detail
        : undefined,
      `--connect-time ${wanted}`,
      'leave it out',
    ),
  ]
}

/** `reason`: why it does not work; undefined: it does, or is not asked for. */
const lack = (
  what: string,
  reason: string | undefined,
  asked: string,
  give: string,
): readonly Lack[] =>
  reason === undefined
    ? []
    : [
        {
          what,
          reason,
          advice:
            permissionAdvice(reason) === ''
              ? `${asked} does not work here; ${give}, or fix what its line says`
              : `${asked} does not work without privileges: check again as root`,
        },
      ]

const problemOf = (list: readonly Finding[], name: string): string | undefined => {
  const found = list.find(each => each.name === name)
  return found?.usable === false ? found.detail : undefined
}

/** With these it takes over nothing, and no port that kube-proxy has. */
const toInspect = [
  ['--capture', 'none'],
  ['--metrics-bind-address', 'off'],
  ['--healthz-bind-address', 'off'],
].flat()

interface CheckedNode extends Asked {
  /** The flags that were checked. */
  readonly args: readonly string[]
  readonly findings: NodeFindings
  /** What serves the node now. */
  readonly beside: NodeProxy | undefined
  /** Which has a way to the API server of its own. */
  readonly inPod: boolean
}

export const nextOfNode = ({
  args,
  findings,
  beside,
  inPod,
  ...asked
}: CheckedNode): readonly string[] => {
  const [first] = lacking(asked, findings)
  if (first !== undefined) return [first.advice]
  if (beside?.usher !== undefined) return ['usher status (an Usher serves this node)']
  const { kubeconfig, master } = asked.options
  const isGiven = kubeconfig !== '' || master !== '' || inPod
  const source = isGiven ? [] : ['--kubeconfig', 'FILE']
  if (beside !== undefined)
    return [
      line('usher', 'run', ...source, ...toInspect),
      `looks, beside ${beside.mode === '' ? 'a program on port 10249 that does not answer' : `the proxy in ${beside.mode} mode that serves this node`}; to replace that, end it first`,
    ]
  const denied = [...findings.modes, ...findings.captures].some(
    ({ usable, detail }) => !usable && permissionAdvice(detail) !== '',
  )
  return [
    line('usher', 'run', ...source, ...args),
    ...(isGiven ? [] : ['without a cluster: --manifests PATH in place of --kubeconfig']),
    ...(denied ? ['more works as root: check again as root'] : []),
  ]
}

/** Of manifests, or of a configuration file, that are in order. */
export const nextOfRun = (
  args: readonly string[],
  { options, mode }: Asked,
): readonly string[] => {
  const { manifests, capture } = options
  // A path may have been given without its flag.
  const named = args.flatMap((arg, i) =>
    manifests.includes(arg) && args[i - 1] !== '--manifests'
      ? ['--manifests', arg]
      : [arg],
  )
  if (manifests.length === 0 || capture !== 'auto' || mode.mode !== '')
    return [line('usher', 'run', ...named)]
  return [
    line('usher', 'run', ...named, '--capture', 'listen'),
    'changes nothing on the host; as root and without --capture it programs the kernel',
  ]
}

/** Of a file of routes that is in order. */
export const nextOfRoutes = (flags: readonly string[]): string =>
  line('usher', 'sidecar', ...flags)

export const nextOfProblems = (paths: readonly string[]): readonly string[] => [
  `fix the problems above, then run: ${line('usher', 'check', ...paths)}`,
]

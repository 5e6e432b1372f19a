import type { RunSettings } from '../config/run-settings.ts'
import type { NodeProxy } from '../kernel/cleanup/node-proxy.ts'
import { permissionAdvice } from '../kernel/permission-advice.ts'
import type { Finding, NodeFindings } from './check-node.ts'

// The last lines of `usher check`: the command to run now, and what there is to say to it.

/** What was asked for. */
type Asked = Pick<RunSettings, 'options' | 'mode'>

/** Words as a shell takes them. */
const line = (...words: readonly string[]): string =>
  words
    .map(word =>
      /^[\w@%+=:,./-]+$/.test(word)
        ? word
        : `'${word.replaceAll("'", String.raw`'\''`)}'`,
    )
    .join(' ')

const lacks = (list: readonly Finding[], name: string): boolean =>
  list.find(each => each.name === name)?.usable === false

const firstUsable = (list: readonly Finding[]): string | undefined =>
  list.find(({ usable }) => usable)?.name

/** What was asked for and does not work here, each with what to give in its place. */
export const lacking = (
  { options, mode }: Asked,
  { modes, captures, connectTime, relay }: NodeFindings,
): readonly string[] => {
  const found = [
    lacks(modes, mode.mode) &&
      `--proxy-mode ${mode.mode} does not work here; give ${firstUsable(modes.filter(({ name }) => name !== 'ipvs')) ?? 'userspace'}`,
    lacks(captures, options.capture) &&
      `--capture ${options.capture} does not work here; give ${firstUsable(captures) ?? 'listen'}`,
    options.relay === 'linux' &&
      relay.name !== 'linux' &&
      '--relay linux does not work here; leave it out',
    ['on', 'host'].includes(options.connectTime) &&
      !connectTime.usable &&
      `--connect-time ${options.connectTime} does not work here; leave it out`,
  ]
  return found.filter(text => text !== false)
}

/** With these it takes over nothing, and no port that kube-proxy has. */
const toLook = [
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
  if (first !== undefined) return [`${first}, or mend what its line says`]
  if (beside?.usher !== undefined) return ['usher status (an Usher serves this node)']
  const { kubeconfig, master } = asked.options
  const isGiven = kubeconfig !== '' || master !== '' || inPod
  const source = isGiven ? [] : ['--kubeconfig', 'FILE']
  if (beside !== undefined)
    return [
      line('usher', 'run', ...source, ...toLook),
      `looks, beside the proxy in ${beside.mode} mode that serves this node; to replace that, end it first`,
    ]
  const denied = [...findings.modes, ...findings.captures].some(
    ({ usable, detail }) => !usable && permissionAdvice(detail) !== '',
  )
  return [
    line('usher', 'run', ...source, ...args),
    ...(isGiven ? [] : ['without a cluster: --manifests PATH in place of --kubeconfig']),
    ...(denied ? ['as root more works: check again as root'] : []),
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
export const nextOfRoutes = (path: string): string =>
  line('usher', 'sidecar', '--config', path)

export const nextOfProblems = (paths: readonly string[]): readonly string[] => [
  `mend the first problem, then ${line('usher', 'check', ...paths)}`,
]

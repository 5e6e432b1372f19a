import {
  defaultListeners,
  healthzPort,
  metricsPort,
  type Tree,
  withPort,
  withValue,
} from '../kube-proxy/configuration.ts'
import { acceptedBy } from '../options.ts'
import { fieldValue } from '../parse.ts'
import type { Given } from '../tokens.ts'

/** The flags of `usher run` that have a field in the configuration. */
export const flagsWithField = acceptedBy('run').flatMap(([flag, row]) =>
  row.field === undefined ? [] : [{ flag, row, field: row.field }],
)

/** `tree` with what these flags set, if they were given. */
const withFlags = (tree: Tree, given: Given, rows: typeof flagsWithField): Tree => {
  let result = tree
  for (const { flag, row, field } of rows) {
    const texts = given.get(flag)
    const value = texts && fieldValue(row.type, texts)
    // An empty name is none: it does not overrule that of the file.
    const isSet = texts !== undefined && !(flag === 'hostname-override' && value === '')
    if (isSet) result = withValue(result, field, value)
  }
  return result
}

const listeners = [
  { name: 'healthz', field: 'healthzBindAddress', usual: healthzPort },
  { name: 'metrics', field: 'metricsBindAddress', usual: metricsPort },
] as const

/** An empty address means "off" to kube-proxy's flags, and the default to its file. */
const withListeners = (tree: Tree, given: Given): Tree => {
  let result = tree
  for (const { name, field, usual } of listeners) {
    const address = given.get(`${name}-bind-address`)?.at(-1)
    const port = given.get(`${name}-port`)?.at(-1)
    const byDefault = defaultListeners(tree['bindAddress'])[field]
    if (address === '' || Number(port ?? usual) === 0)
      result = withValue(result, field, 'off')
    else if (address !== undefined)
      result = withValue(result, field, withPort(address, Number(port ?? usual)))
    else if (port !== undefined)
      result = withValue(result, field, byDefault.replace(/:\d+$/, `:${Number(port)}`))
  }
  return result
}

/** What flags set, and what decides without --config. */
export const treeFromFlags = (given: Given): Tree => {
  const tree = withListeners(withFlags({}, given, flagsWithField), given)
  const udpTimeout = given.get('udp-timeout')?.at(-1)
  return udpTimeout === undefined ? tree : withValue(tree, 'udpIdleTimeout', udpTimeout)
}

/** What a file sets, with the few flags that beat it. */
export const treeFromFile = (tree: Tree, given: Given): Tree =>
  withFlags(
    tree,
    given,
    flagsWithField.filter(({ row }) => row.beatsFile),
  )

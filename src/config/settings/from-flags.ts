import { leafAt, type Tree, withValue } from '../kube-proxy/fields.ts'
import { withDefaults, withPort } from '../kube-proxy/defaults.ts'
import type { KubeProxyConfiguration } from '../kube-proxy/shape.ts'
import { acceptedBy } from '../typed.ts'

export type Given = ReadonlyMap<string, readonly string[]>

/** The flags of `usher run` that have a field in the configuration. */
export const flagsWithField = acceptedBy('run').flatMap(([flag, row]) =>
  row.field === undefined ? [] : [{ flag, row, field: row.field }],
)

const listeners = [
  { flag: 'healthz-bind-address', portFlag: 'healthz-port', field: 'healthzBindAddress' },
  { flag: 'metrics-bind-address', portFlag: 'metrics-port', field: 'metricsBindAddress' },
] as const

/** An empty address means "off" to kube-proxy's flags, and the default to its file. */
const address = (texts: readonly string[], port: number): string => {
  const text = texts.at(-1) ?? ''
  return text === '' ? 'off' : withPort(text, port)
}

const withListeners = (tree: Tree, given: Given): Tree => {
  let result = tree
  for (const { flag, portFlag, field } of listeners) {
    const byDefault = portFlag === 'healthz-port' ? 10_256 : 10_249
    const texts = given.get(flag)
    const port = given.get(portFlag)?.at(-1)
    const number = Number(port ?? byDefault)
    if (texts !== undefined) result = withValue(result, field, address(texts, number))
    else if (port !== undefined) {
      const before = String(result[field])
      result = withValue(result, field, before.replace(/:\d+$/, `:${number}`))
    }
    if (port !== undefined && number === 0) result = withValue(result, field, 'off')
  }
  return result
}

/** A name of a Node is lower-case; one that is not given beats nothing. */
const hostName = (
  texts: readonly string[] | undefined,
): readonly string[] | undefined => {
  const name = texts?.at(-1)?.trim().toLowerCase() ?? ''
  return name === '' ? undefined : [name]
}

const withFlags = (tree: Tree, given: Given, rows: typeof flagsWithField): Tree => {
  let result = tree
  for (const { flag, field } of rows) {
    const all = given.get(flag)
    const texts = flag === 'hostname-override' ? hostName(all) : all
    if (texts !== undefined)
      result = withValue(result, field, leafAt(field).fromTexts(texts))
  }
  return result
}

/** The configuration that flags without --config amount to. */
export const configurationFromFlags = (given: Given): KubeProxyConfiguration => {
  const bind = given.get('bind-address')?.at(-1)
  // The defaults of the other addresses follow its family.
  const start: Tree = withDefaults(bind === undefined ? {} : { bindAddress: bind })
  const plain = flagsWithField.filter(
    ({ field }) => !/(?:healthz|metrics)Bind/.test(field),
  )
  const tree = withListeners(withFlags(start, given, plain), given)
  const udp = given.get('udp-timeout')
  return (
    udp === undefined
      ? tree
      : withValue(tree, 'udpIdleTimeout', leafAt('udpIdleTimeout').fromTexts(udp))
  ) as KubeProxyConfiguration
}

/** The configuration of a file, with the few flags that beat it. */
export const configurationFromFile = (
  tree: Tree,
  given: Given,
): KubeProxyConfiguration => {
  const beating = flagsWithField.filter(({ row }) => row.beatsFile)
  return withDefaults(withFlags(tree, given, beating))
}

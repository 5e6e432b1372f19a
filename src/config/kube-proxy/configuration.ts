import * as v from 'valibot'
import type { DeepReadonly } from '../../util/deep-readonly.ts'
import { canonicalIp, familyOf, joinHostPort, splitHostPort } from '../../util/ip.ts'
import {
  type Entries,
  featureGates,
  type Field,
  int32,
  isMapping,
  keepZero,
  number,
  onOff,
  optional,
  quantity,
  section,
  span,
  spanOrNanoseconds,
  strings,
  text,
  vmodule,
} from './field-kinds.ts'

export const apiVersion = 'kubeproxy.config.k8s.io/v1alpha1'
export const kind = 'KubeProxyConfiguration'

/** Where kube-proxy listens itself, besides for Services. */
export const healthzPort = 10_256
export const metricsPort = 10_249

const output = section({
  infoBufferSize: quantity(),
  splitStream: optional(onOff()),
})

/**
 * The fields of KubeProxyConfiguration v1alpha1 with their defaults, in the order they are
 * written: kube 1.36's, and those that older versions had, which are only read.
 */
const shape = section({
  apiVersion: text(apiVersion),
  bindAddress: text('0.0.0.0'),
  bindAddressHardFail: onOff(),
  clientConnection: section({
    acceptContentTypes: text(),
    burst: int32(10),
    contentType: text('application/vnd.kubernetes.protobuf'),
    kubeconfig: text(),
    qps: number(5),
  }),
  clusterCIDR: text(),
  configSyncPeriod: span('15m'),
  conntrack: section({
    max: optional(int32()), // until 1.16
    maxPerCore: keepZero(int32(32_768)),
    min: keepZero(int32(131_072)),
    tcpBeLiberal: onOff(),
    tcpCloseWaitTimeout: keepZero(span('1h')),
    tcpEstablishedTimeout: keepZero(span('24h')),
    udpStreamTimeout: span(),
    udpTimeout: span(),
  }),
  detectLocal: section({ bridgeInterface: text(), interfaceNamePrefix: text() }),
  detectLocalMode: text(),
  enableProfiling: onOff(),
  featureGates: featureGates(),
  // This and that of metrics are others where bindAddress is IPv6; see defaultListeners.
  healthzBindAddress: text(joinHostPort('0.0.0.0', healthzPort)),
  hostnameOverride: text(),
  iptables: section({
    localhostNodePorts: keepZero(onOff(true)),
    masqueradeAll: onOff(),
    masqueradeBit: keepZero(int32(14)),
    minSyncPeriod: span('1s'),
    syncPeriod: span('30s'),
  }),
  ipvs: section({
    excludeCIDRs: strings(),
    minSyncPeriod: span(),
    scheduler: text(),
    strictARP: onOff(),
    syncPeriod: span('30s'),
    tcpFinTimeout: span(),
    tcpTimeout: span(),
    udpTimeout: span(),
  }),
  kind: text(kind),
  logging: section({
    flushFrequency: spanOrNanoseconds('5s'),
    format: text('text'),
    options: section({ json: output, text: output }),
    verbosity: int32(),
    vmodule: vmodule(),
  }),
  metricsBindAddress: text(joinHostPort('127.0.0.1', metricsPort)),
  mode: text(),
  nftables: section({
    masqueradeAll: onOff(),
    masqueradeBit: keepZero(int32(14)),
    minSyncPeriod: span('1s'),
    syncPeriod: span('30s'),
  }),
  nodePortAddresses: strings(),
  oomScoreAdj: keepZero(int32(-999)),
  portRange: text(),
  resourceContainer: optional(text()), // until 1.15
  showHiddenMetricsForVersion: text(),
  udpIdleTimeout: optional(span()), // until 1.25
  udpTimeoutMilliseconds: optional(span()), // the same, until 1.9
  windowsRunAsService: optional(onOff()),
  winkernel: section({
    enableDSR: onOff(),
    forwardHealthCheckVip: onOff(),
    networkName: text(),
    rootHnsEndpointName: text(),
    sourceVip: text(),
  }),
})

/** The configuration of kube-proxy as its file has it, with every default filled in. */
export type KubeProxyConfiguration = DeepReadonly<v.InferOutput<typeof shape>>

type PathOf<E> = {
  [K in keyof E & string]: E[K] extends { readonly entries: infer F }
    ? `${K}.${PathOf<F>}`
    : K
}[keyof E & string]

/** The place of one field: `iptables.syncPeriod`. */
export type FieldPath = PathOf<typeof shape.entries>

/** What flags or a file set: objects in objects, without fields that are not set. */
export interface Tree {
  readonly [name: string]: unknown
}

/** The fields at the top; those of a section are its `entries`. */
export const fields: Entries = shape.entries

const fieldsIn = (entries: Entries, before: string): [string, Field<unknown>][] =>
  Object.entries(entries).flatMap(([name, node]) =>
    'entries' in node
      ? fieldsIn(node.entries, `${before}${name}.`)
      : [[before + name, node]],
  )

const byPath: ReadonlyMap<string, Field<unknown>> = new Map(fieldsIn(fields, ''))

export const fieldPaths = [...byPath.keys()] as readonly FieldPath[]

/** The default of a field as a user would type it for a flag. */
export const defaultTextOf = (path: FieldPath): string =>
  byPath.get(path)?.defaultText ?? ''

/** The value of a field; undefined where it is not set. */
export const valueAt = (tree: Tree | KubeProxyConfiguration, path: FieldPath): unknown =>
  path
    .split('.')
    .reduce<unknown>((value, name) => (isMapping(value) ? value[name] : undefined), tree)

const withNames = (tree: Tree, names: readonly string[], value: unknown): Tree => {
  const [name = '', ...rest] = names
  const inner = tree[name]
  const set =
    rest.length === 0 ? value : withNames(isMapping(inner) ? inner : {}, rest, value)
  return { ...tree, [name]: set }
}

/** The same tree with another value for one field. */
export const withValue = (tree: Tree, path: FieldPath, value: unknown): Tree =>
  withNames(tree, path.split('.'), value)

/** A bare IP gets the port; anything else stays what it is, for validation to see. */
export const withPort = (address: string, port: number): string => {
  if (splitHostPort(address, 0) !== undefined) return address
  const bare = address.replace(/^\[(.*)\]$/, '$1')
  return canonicalIp(bare) === undefined ? address : joinHostPort(bare, port)
}

/** Where it listens by default, by the family of `bindAddress`. */
export const defaultListeners = (bindAddress: unknown) => {
  const v6 = familyOf(String(bindAddress)) === 'IPv6'
  return {
    healthzBindAddress: joinHostPort(v6 ? '::' : '0.0.0.0', healthzPort),
    metricsBindAddress: joinHostPort(v6 ? '::1' : '127.0.0.1', metricsPort),
  }
}

/** What is wrong with the types of what a file sets, each by its path; all at once. */
export const typeFaults = (tree: Tree): readonly string[] => {
  const { issues = [] } = v.safeParse(shape, tree)
  return issues.map(issue => `${v.getDotPath(issue) ?? ''}: ${issue.message}`)
}

/** A configuration with every field. Throws where typeFaults has one. */
export const withDefaults = (tree: Tree): KubeProxyConfiguration => {
  const all = v.parse(shape, { ...defaultListeners(tree['bindAddress']), ...tree })
  return {
    ...all,
    healthzBindAddress: withPort(all.healthzBindAddress, healthzPort),
    metricsBindAddress: withPort(all.metricsBindAddress, metricsPort),
  }
}

import {
  featureGates,
  int32,
  keepZero,
  type Leaf,
  number,
  onOff,
  optional,
  type OptionalLeaf,
  quantity,
  span,
  spanOrNanoseconds,
  strings,
  text,
  vmodule,
} from './leaf.ts'

export interface Section<F extends Fields = Fields> {
  readonly kind: 'section'
  readonly fields: F
}

export interface Fields {
  readonly [name: string]: Leaf<unknown> | Section
}

const section = <const F extends Fields>(fields: F): Section<F> => ({
  kind: 'section',
  fields,
})

export const apiVersion = 'kubeproxy.config.k8s.io/v1alpha1'
export const kind = 'KubeProxyConfiguration'

const output = section({
  infoBufferSize: quantity(),
  splitStream: optional(onOff()),
})

/**
 * The fields of KubeProxyConfiguration v1alpha1 with their defaults, in the order they are
 * written: kube 1.36's, and those that older versions had, which are only read.
 */
export const shape = {
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
  configSyncPeriod: span('15m0s'),
  conntrack: section({
    max: optional(int32()), // until 1.16
    maxPerCore: keepZero(int32(32_768)),
    min: keepZero(int32(131_072)),
    tcpBeLiberal: onOff(),
    tcpCloseWaitTimeout: keepZero(span('1h0m0s')),
    tcpEstablishedTimeout: keepZero(span('24h0m0s')),
    udpStreamTimeout: span(),
    udpTimeout: span(),
  }),
  detectLocal: section({ bridgeInterface: text(), interfaceNamePrefix: text() }),
  detectLocalMode: text(),
  enableProfiling: onOff(),
  featureGates: optional(featureGates()),
  // These two depend on bindAddress; see defaults.ts.
  healthzBindAddress: text(),
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
    vmodule: optional(vmodule()),
  }),
  metricsBindAddress: text(),
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
} as const satisfies Fields

type ValueOf<N> =
  N extends Section<infer F> ? ConfigurationOf<F> : N extends Leaf<infer T> ? T : never

type OptionalKey<F extends Fields> = {
  [K in keyof F]: F[K] extends OptionalLeaf<unknown> ? K : never
}[keyof F]

type ConfigurationOf<F extends Fields> = {
  readonly [K in Exclude<keyof F, OptionalKey<F>>]: ValueOf<F[K]>
} & { readonly [K in OptionalKey<F>]?: ValueOf<F[K]> }

/** The configuration of kube-proxy as its file has it, with every default filled in. */
export type KubeProxyConfiguration = ConfigurationOf<typeof shape>

type PathOf<F extends Fields> = {
  [K in keyof F & string]: F[K] extends Section<infer G> ? `${K}.${PathOf<G>}` : K
}[keyof F & string]

/** The place of one field: `iptables.syncPeriod`. */
export type FieldPath = PathOf<typeof shape>

import type { ChildProcess } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { here, program, versions } from './programs.ts'
import { output } from './run-command.ts'

/** What the parts of a cluster have in common. */
export interface Cluster {
  /** What is made for each run. */
  readonly state: string
  readonly pki: string
  /** Where images are said to come from. */
  readonly registry: string
  readonly daemons: Map<string, ChildProcess>
}

export const serviceCidrs = '10.96.0.0/16,fd00:96::/112'
export const podsCidrs = '10.244.0.0/16,fd00:244::/56'
export const controlAddresses = { ipv4: '10.199.0.1', ipv6: 'fd00:199::1' }
export const nodeNames = ['kn1', 'kn2', 'kn3'] as const
export type NodeName = (typeof nodeNames)[number]

export const nodeAddresses = (name: NodeName): { ipv4: string; ipv6: string } => {
  const serial = 1 + nodeNames.indexOf(name)
  return { ipv4: `10.199.0.${10 + serial}`, ipv6: `fd00:199::1${serial}` }
}

export const adminConfig = ({ pki }: Cluster): string => join(pki, 'admin.conf')
export const proxyConfig = ({ pki }: Cluster): string => join(pki, 'proxy.conf')

export const kubectl = (cluster: Cluster, ...args: readonly string[]): Promise<string> =>
  output([program('kubectl'), `--kubeconfig=${adminConfig(cluster)}`, ...args])

export const apply = (cluster: Cluster, manifest: string): Promise<string> =>
  output(
    [program('kubectl'), `--kubeconfig=${adminConfig(cluster)}`, 'apply', '-f', '-'],
    { input: manifest },
  )

/** The first one, of a Service in the namespace default. */
export const clusterIpOf = (cluster: Cluster, service: string): Promise<string> =>
  kubectl(cluster, 'get', 'service', service, '-o', 'jsonpath={.spec.clusterIP}')

/** Needs a service proxy: CoreDNS asks the API server by its ClusterIP. */
export const startDns = async (cluster: Cluster): Promise<void> => {
  const manifest = await readFile(join(here, 'coredns.yaml'), 'utf8')
  await apply(
    cluster,
    manifest
      .replace('@REGISTRY@', cluster.registry)
      .replace('@VERSION@', versions.coredns),
  )
  const waiting = '-n kube-system rollout status deployment/coredns --timeout=90s'
  await kubectl(cluster, ...waiting.split(' '))
}

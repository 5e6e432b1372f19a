import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { RelayEndpoint } from '../../src/relay/relay.ts'

export interface PortFields {
  readonly name: string
  readonly protocol?: string
  readonly port: number
  readonly nodePort?: number
}

/** A v1 Service with the address `vip`. */
export const service = (
  name: string,
  vip: string,
  ports: readonly PortFields[],
  more: object = {},
): object => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name },
  spec: { clusterIP: vip, ports, ...more },
})

/** An EndpointSlice of one port, all of whose endpoints have the same port number. */
export const slice = (
  owner: string,
  endpoints: readonly RelayEndpoint[],
  { name, protocol = 'TCP' }: Pick<PortFields, 'name' | 'protocol'> = { name: 'p' },
): object[] =>
  endpoints.map(({ address, port }) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: `${owner}-${name}-${port}`,
      labels: { 'kubernetes.io/service-name': owner },
    },
    addressType: 'IPv4',
    endpoints: [{ addresses: [address] }],
    ports: [{ name, protocol, port }],
  }))

export interface ManifestFile {
  readonly path: string
  /** Replaces the file in one step. */
  readonly write: (...objects: readonly object[]) => Promise<void>
  readonly writeText: (text: string) => Promise<void>
}

/** A file of manifests, removed when the test ends. */
export const manifestFile = async (
  t: Test,
  ...objects: readonly object[]
): Promise<ManifestFile> => {
  const path = join(t.testdir({}), 'manifests.yaml')
  const writeText = async (text: string): Promise<void> => {
    await writeFile(`${path}.new`, text)
    await rename(`${path}.new`, path)
  }
  // JSON is YAML.
  const write = (...all: readonly object[]): Promise<void> =>
    writeText(all.map(object => `${JSON.stringify(object, null, 2)}\n`).join('---\n'))
  await write(...objects)
  return { path, write, writeText }
}

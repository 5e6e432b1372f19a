import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { BenchService, Endpoint } from '../services.ts'

/** So many Services share a file: one change rewrites one file, and 10 000 are not as many. */
const servicesInFile = 100

/**
 * Services as manifest files, JSON because it is read fastest: a v1 Service each with
 * the VIP that `vips` has for it, and a discovery.k8s.io/v1 EndpointSlice for each
 * port that its endpoints have.
 */
export class UsherManifests {
  readonly #directory: string
  readonly #vips: ReadonlyMap<string, Endpoint>
  readonly #services: BenchService[]

  constructor(
    directory: string,
    services: readonly BenchService[],
    vips: ReadonlyMap<string, Endpoint>,
  ) {
    this.#directory = directory
    this.#services = [...services]
    this.#vips = vips
  }

  async writeAll(): Promise<void> {
    for (let at = 0; at < this.#services.length; at += servicesInFile)
      await this.#write(at)
  }

  /** Rejects for a service that there is not. */
  async setEndpoints(name: string, endpoints: readonly Endpoint[]): Promise<void> {
    const index = this.#services.findIndex(service => service.name === name)
    const service = this.#services[index]
    if (service === undefined) throw new Error(`there is no service ${name}`)
    this.#services[index] = { ...service, endpoints }
    await this.#write(index - (index % servicesInFile))
  }

  /** The first of the files, for a report. */
  sample(): string {
    return this.#text(0)
  }

  /** Under a name that Usher ignores, then renamed: half of it is never read. */
  async #write(from: number): Promise<void> {
    const name = `services-${from / servicesInFile}.json`
    const draft = join(this.#directory, `.${name}`)
    await writeFile(draft, this.#text(from))
    await rename(draft, join(this.#directory, name))
  }

  #text(from: number): string {
    const items = this.#services
      .slice(from, from + servicesInFile)
      .flatMap(service => objectsOf(service, this.#vips.get(service.name)))
    const lines = items.map(item => JSON.stringify(item)).join(',\n')
    return `{"apiVersion":"v1","kind":"List","items":[\n${lines}\n]}\n`
  }
}

const objectsOf = (
  service: BenchService,
  vip: Endpoint | undefined,
): readonly object[] =>
  vip === undefined ? [] : [serviceObject(service, vip), ...slicesOf(service)]

const serviceObject = ({ name, protocol }: BenchService, vip: Endpoint): object => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name },
  spec: { clusterIP: vip.address, ports: [{ protocol, port: vip.port }] },
})

const slicesOf = ({ name, protocol, endpoints }: BenchService): readonly object[] =>
  [...byPort(endpoints)].map(([port, addresses]) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: `${name}-${port}`,
      labels: { 'kubernetes.io/service-name': name },
    },
    addressType: 'IPv4',
    ports: [{ protocol, port }],
    endpoints: addresses.map(address => ({ addresses: [address] })),
  }))

const byPort = (
  endpoints: readonly Endpoint[],
): ReadonlyMap<number, readonly string[]> => {
  const ports = new Map<number, string[]>()
  for (const { address, port } of endpoints) {
    const addresses = ports.get(port)
    if (addresses === undefined) ports.set(port, [address])
    else addresses.push(address)
  }
  return ports
}

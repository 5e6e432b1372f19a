import type { Protocol } from '../../../src/model/service.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import type { NodeUsher } from '../../support/net/node-usher.ts'

/** Where Usher listens for what rules lead to it. */
export interface ProxyPort {
  readonly servicePort: string
  readonly family: IpFamily
  readonly protocol: Protocol
  readonly address: string
  readonly port: number
}

/** Those of all ServicePorts, as the status has them. */
export const proxyPortsOf = async (usher: NodeUsher): Promise<ProxyPort[]> => {
  const { servicePorts } = await usher.status()
  return servicePorts.flatMap(({ servicePort, family, protocol, vips }) => {
    const captured = vips.filter(({ capture }) => capture !== 'local')
    const listens = new Set(captured.flatMap(({ listen }) => listen.split(', ')))
    return [...listens].filter(Boolean).map(listen => {
      const at = listen.lastIndexOf(':')
      const address = listen.slice(0, at).replaceAll(/[[\]]/g, '')
      return {
        servicePort,
        family,
        protocol,
        address,
        port: Number(listen.slice(at + 1)),
      }
    })
  })
}

import { createHash } from 'node:crypto'
import { isServiceChain, modeOwner, iptablesChains } from '../xtables/kube-chains.ts'

/** Of one ServicePort. */
export interface ServiceChainNames {
  /** Leads to all endpoints that policy Cluster allows. */
  readonly cluster: string
  /** Leads to those of this node. */
  readonly local: string
  /** What comes to external addresses. */
  readonly external: string
  /** loadBalancerSourceRanges. */
  readonly firewall: string
}

/** `name` is `namespace/name:port`, without the colon when the port is unnamed. */
export const serviceChainNames = (name: string, protocol: string): ServiceChainNames => {
  const hash = hashed(name + protocol)
  return {
    cluster: `KUBE-SVC-${hash}`,
    local: `KUBE-SVL-${hash}`,
    external: `KUBE-EXT-${hash}`,
    firewall: `KUBE-FW-${hash}`,
  }
}

/** `endpoint` is `10.0.0.1:80` or `[2001:db8::1]:80`. */
export const endpointChainName = (
  name: string,
  protocol: string,
  endpoint: string,
): string => `KUBE-SEP-${hashed(name + protocol + endpoint)}`

/** The start of a SHA-256 in base32 (RFC 4648): chains have at most 28 characters. */
const hashed = (text: string): string => {
  const digest = createHash('sha256').update(text).digest()
  let name = ''
  for (let at = 0; at < 10; at += 5) name += base32(digest, at)
  return name
}

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** Five bytes as eight letters. */
const base32 = (bytes: Buffer, at: number): string => {
  const high = bytes.readUIntBE(at, 3)
  const low = bytes.readUIntBE(at + 2, 3)
  const [first, last] = [high >>> 4, low & 0xf_ffff]
  return (
    letter(first, 15) +
    letter(first, 10) +
    letter(first, 5) +
    letter(first, 0) +
    letter(last, 15) +
    letter(last, 10) +
    letter(last, 5) +
    letter(last, 0)
  )
}

const letter = (bits: number, shift: number): string =>
  letters.charAt((bits >>> shift) & 31)

const fixed: Readonly<Record<string, readonly string[]>> = {
  mangle: [iptablesChains.canary],
  filter: [
    iptablesChains.services,
    iptablesChains.externalServices,
    iptablesChains.nodePorts,
    iptablesChains.forward,
    iptablesChains.proxyFirewall,
    iptablesChains.canary,
  ],
  nat: [
    iptablesChains.services,
    iptablesChains.nodePorts,
    iptablesChains.postrouting,
    iptablesChains.markMasq,
    iptablesChains.canary,
  ],
}

/** Whether this mode writes a chain of this name, by whole names. */
export const isModeChain = (table: string, chain: string): boolean =>
  fixed[table]?.includes(chain) === true || (table === 'nat' && isServiceChain(chain))

export const iptablesOwner = modeOwner(isModeChain)

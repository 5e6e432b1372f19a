import { hash as digest } from 'node:crypto'
import { constants } from 'node:os'
import type { Protocol } from '../../model/service.ts'
import type { ServicePort, Target, Vip } from '../../model/snapshot.ts'
import { specialRange } from '../../util/special-address.ts'
import type { Element } from '../elements/element-changes.ts'
import { guards } from '../nft/clients.ts'
import { addressOf } from './addresses.ts'
import { address, type WrittenTable } from './tables.ts'

/** An element of one of the tables. */
export interface Entry extends Element {
  readonly set: WrittenTable
}

/** What clients of a ServicePort are led by. */
export type LedServicePort = Pick<
  ServicePort,
  | 'key'
  | 'family'
  | 'protocol'
  | 'vips'
  | 'affinityMs'
  | 'relayed'
  | 'sourceRanges'
  | 'internal'
  | 'externalFromNode'
>

/**
 * All that the tables have of one ServicePort; keys and values are bytes as latin1. Pure: the same
 * for the same. What the relay is asked for, source ranges (the source is not chosen yet at a
 * connect), VIPs that mean something else to each client (loopback, link-local) and SCTP are left to the proxy mode.
 */
export const compile = (servicePort: LedServicePort): readonly Entry[] => {
  const { protocol, relayed, vips } = servicePort
  if (protocol === 'SCTP' || relayed) return []
  const elements: Entry[] = []
  const leads = new Map<Target, string>()
  for (const vip of vips) {
    if (isGuarded(vip, servicePort) || specialRange(vip.address) !== '') continue
    const isInside = vip.kind === 'ClusterIP'
    const target = isInside ? servicePort.internal : servicePort.externalFromNode
    let lead = leads.get(target)
    if (lead === undefined)
      leads.set(target, (lead = leadOf(servicePort, isInside, target, elements)))
    elements.push(element('services', vipKey(vip, protocol), lead))
  }
  return elements
}

/** That node ports answer on an address of the node's. Processes of pods have a loopback, and links, of their own. */
export const compileNodeAddress = (ip: string): Entry => {
  const key = addressOf(ip, 0).slice(0, address.port)
  return element('addresses', key, `${number(specialRange(ip) === '' ? 0 : 1)}${padding}`)
}

/** The entry by which clients of a VIP are led; undefined: they are not. */
export const entryOf = (servicePort: LedServicePort, vip: Vip): Entry | undefined => {
  const wanted = vipKey(vip, servicePort.protocol)
  return compile(servicePort).find(({ set, key }) => set === 'services' && key === wanted)
}

const vipKey = ({ kind, address: ip, port }: Vip, protocol: Protocol): string => {
  const key = addressOf(ip, port, protocol)
  if (kind !== 'NodePort') return key
  return `${key.slice(0, address.isNodePort)}\x01${key.slice(address.isNodePort + 1)}`
}

/** Also by an external IP that is the same address. */
export const isGuarded = (
  vip: Vip,
  { sourceRanges, vips }: Pick<LedServicePort, 'sourceRanges' | 'vips'>,
): boolean =>
  guards(sourceRanges) &&
  vips.some(each => each.kind === 'LoadBalancerIP' && each.address === vip.address)

const element = (set: WrittenTable, key: string, value: string): Entry => ({
  set,
  key,
  value,
})

/** Enters the endpoints of a target, and gives what VIPs are entered with. */
const leadOf = (
  servicePort: LedServicePort,
  isInside: boolean,
  { verdict, endpoints }: Target,
  into: Entry[],
): string => {
  const { key, family, protocol, affinityMs } = servicePort
  const group = groupOf({ key, family }, isInside ? 'internal' : 'external')
  const addresses = endpoints.map(({ address: ip, port }) => addressOf(ip, port))
  const generation = hash(`${group}${addresses.join('')}`)
  if (verdict === 'forward') {
    for (const [slot, bytes] of addresses.entries())
      into.push(element('slots', `${generation}${number(slot)}${padding}`, bytes))
    if (affinityMs > 0 || protocol === 'UDP')
      for (const bytes of new Set(addresses))
        into.push(element('members', `${group}${bytes}`, '\0'.repeat(8)))
  }
  const count = verdict === 'forward' ? endpoints.length : 0
  // Whole seconds, of which there is at least one.
  const affinitySeconds = Math.ceil(affinityMs / 1000)
  const numbers = [count, affinitySeconds, refusals[verdict]].map(number)
  return `${group}${generation}${numbers.join('')}${padding}`
}

/** 32 bits, in the host's byte order: bpf(2) through koffi is for x86-64 and arm64. */
const number = (value: number): string =>
  String.fromCharCode(
    value & 0xff,
    (value >> 8) & 0xff,
    (value >> 16) & 0xff,
    value >>> 24,
  )

/** After a number, to 64 bits. */
const padding = '\0'.repeat(4)

/** What counts and what is remembered of clients goes by. */
export const groupOf = (
  { key, family }: Pick<ServicePort, 'key' | 'family'>,
  role: 'internal' | 'external',
): string => hash(`${key} ${family} ${role}`)

/** What a client is told where nobody serves; the other modes drop what has no endpoint here. */
const refusals: Readonly<Record<Target['verdict'], number>> = {
  forward: 0,
  reject: constants.errno.ECONNREFUSED,
  drop: constants.errno.EHOSTUNREACH,
}

/** In one call: with an object for each, hashes were a quarter of a first sync. */
const hash = (text: string): string =>
  digest('sha256', Buffer.from(text, 'latin1'), 'binary').slice(0, 8)

import type { Placement, VipPlacement } from '../../capture/capture.ts'
import { isOwnAddress } from '../../capture/local-addresses.ts'
import type { Protocol } from '../../model/service.ts'
import type { ServicePort, Vip } from '../../model/snapshot.ts'
import { type AddressPort, familyOf, isWildcard, joinHostPort } from '../../util/ip.ts'
import { isUnix, unixPlace } from '../../util/unix-address.ts'
import { Refusal } from './carry-out.ts'
import { shortName } from './named-service-ports.ts'

/** An address that is served, as a client dials it. */
export interface DialledVip {
  readonly servicePort: ServicePort
  readonly listenerId: string
  readonly placed: VipPlacement
}

const mostNamed = 5

/** What is at an address; an own address of a VIP goes before node ports. Throws a Refusal with what is near it. */
export const dialledVip = (
  placements: readonly Placement[],
  dialled: AddressPort,
  protocol: Protocol,
): DialledVip => {
  const all = placements.flatMap(({ servicePort, listenerId, vips }) =>
    vips.map((placed): DialledVip => ({ servicePort, listenerId, placed })),
  )
  const ofProtocol = all.filter(({ servicePort }) => servicePort.protocol === protocol)
  const isAt = ({ placed: { vip } }: DialledVip): boolean =>
    vip.port === dialled.port && unixPlace(vip.address) === unixPlace(dialled.address)
  const onAny = ({ placed: { vip } }: DialledVip): boolean =>
    vip.port === dialled.port &&
    isWildcard(vip.address) &&
    familyOf(vip.address) === familyOf(dialled.address) &&
    isOwnAddress(dialled.address)
  const found = ofProtocol.find(isAt) ?? ofProtocol.find(onAny)
  if (found !== undefined) return found
  const text = `${joinHostPort(dialled.address, dialled.port)} (${protocol})`
  const near = nearest(all, dialled)
  throw new Refusal(404, 'UNKNOWN_ADDRESS', `nothing is served at ${text}; ${near}`)
}

const nearest = (all: readonly DialledVip[], { address, port }: AddressPort): string => {
  const there = all.filter(
    ({ placed: { vip } }) => unixPlace(vip.address) === unixPlace(address),
  )
  if (there.length > 0) return `${address} has ${namesOf(there)}`
  const isNear = ({ kind, ...vip }: Vip): boolean =>
    vip.port === port && (kind === 'NodePort' || isWildcard(vip.address))
  const wild = all.filter(({ placed: { vip } }) => isNear(vip))
  if (wild.length > 0)
    return isOwnAddress(address)
      ? `${port} is ${namesOf(wild)}`
      : `${port} is ${namesOf(wild)}, and ${address} is no address of this node`
  return 'no Service or route has this address; usher get listeners lists those that are served'
}

const namesOf = (some: readonly DialledVip[]): string => {
  const names = some.map(({ servicePort, placed: { vip } }) => {
    const what = vip.kind === 'NodePort' ? 'the node port' : 'port'
    const at = isUnix(vip.address) ? vip.address : `${what} ${vip.port}`
    return `${at} (${servicePort.protocol}) of ${shortName(servicePort.name)}`
  })
  const more = names.length - mostNamed
  return names.slice(0, mostNamed).join(', ') + (more > 0 ? ` and ${more} more` : '')
}

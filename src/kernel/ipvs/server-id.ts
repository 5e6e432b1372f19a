import type { Protocol } from '../../model/service.ts'
import { joinHostPort, splitHostPort } from '../../util/ip.ts'

/**
 * What names a virtual server, in the words of ipvsadm(8): `-t 10.96.0.1:443`,
 * `-u [2001:db8::1]:53`, `--sctp-service 10.96.0.1:3868`. Canonical, so that it is a key.
 */
export type ServerId = string

const flags: Readonly<Record<Protocol, string>> = {
  TCP: '-t',
  UDP: '-u',
  SCTP: '--sctp-service',
}

export const serverId = (protocol: Protocol, address: string, port: number): ServerId =>
  `${flags[protocol]} ${joinHostPort(address, port)}`

/** For UDP a destination that is gone is taken out at once: nothing ends a flow. */
export const isUdp = (id: ServerId): boolean => id.startsWith('-u ')

export const addressOf = (id: ServerId): string => placeOf(id)?.host ?? ''

export const portOf = (id: ServerId): number => placeOf(id)?.port ?? 0

export const protocolOf = (id: ServerId): Protocol =>
  id.startsWith('-t ') ? 'TCP' : isUdp(id) ? 'UDP' : 'SCTP'

/** `TCP 10.96.0.1:443`. */
export const serverText = (id: ServerId): string => `${protocolOf(id)} ${serverPlace(id)}`

/** `10.96.0.1:443`. */
export const serverPlace = (id: ServerId): string => id.slice(id.indexOf(' ') + 1)

const placeOf = (id: ServerId): ReturnType<typeof splitHostPort> =>
  splitHostPort(serverPlace(id))

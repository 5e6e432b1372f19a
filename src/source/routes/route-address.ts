import type { Protocol } from '../../model/service.ts'
import {
  type AddressPort,
  bracketsAdvice,
  canonicalIp,
  isGroup,
  splitHostPort,
} from '../../util/ip.ts'
import { show } from '../../util/printable.ts'
import { canonicalUnix, isUnix, unixFault } from '../../util/unix-address.ts'
import { addressFault } from '../decode/fields.ts'

/** Where a route listens. */
export interface Listen extends AddressPort {
  readonly protocol: Protocol
}

/** Where it goes: a canonical address, a unix socket, or a host name in lower case. */
export interface Target {
  readonly host: string
  /** 0 with `srv`, whose records have the ports, and of a unix socket. */
  readonly port: number
  readonly srv?: true
  /** Its share of the connections, beside others of its tier: 0 to 256; 1 when it is not said. */
  readonly weight?: number
}

export const listenForm =
  'tcp://ADDRESS:PORT, udp://ADDRESS:PORT or unix:/PATH, like tcp://127.0.0.1:15432'

export const targetForm =
  'HOST:PORT with a port from 1 to 65535, like 10.0.0.5:5432, [fd00::5]:5432, db.example:5432, srv:NAME for a name with SRV records, or unix:/PATH'

const protocols: ReadonlyMap<string, Protocol> = new Map([
  ['tcp', 'TCP'],
  ['udp', 'UDP'],
])

/**
 * Reads `tcp://127.0.0.1:15432`: a literal address, a wildcard is allowed, IPv6 stands in
 * brackets. Or `unix:/run/db.sock`. A text is what is wrong with it, and what would be right.
 */
export const readListen = (text: string): Listen | string => {
  const socket = readUnix(text)
  if (typeof socket === 'object') return { protocol: 'TCP', ...socket }
  if (socket !== undefined) return socket
  const [whole, scheme = '', place = ''] = /^([a-z]+):\/\/(.*)$/is.exec(text) ?? []
  if (whole === undefined) return `${show(text)} is not ${listenForm}`
  const protocol = protocols.get(scheme.toLowerCase())
  if (protocol === undefined)
    return `protocol ${show(scheme)} is not tcp or udp; give ${listenForm}`
  const part = `address ${show(place)}`
  const split = splitHostPort(place)
  if (split === undefined && place.includes(','))
    return `${part} has a comma; of several addresses each has its own scheme, like tcp://127.0.0.1:15432,tcp://[::1]:15432`
  if (split === undefined)
    return `${part} ${bracketsAdvice(place) || 'is not ADDRESS:PORT with a port from 1 to 65535, like 127.0.0.1:15432 or [::1]:15432'}`
  const address = canonicalIp(split.host)
  if (address === undefined)
    return `${part} is not an IP address; give one like 127.0.0.1, or 0.0.0.0 for all`
  if (isGroup(address))
    return `${part} is a multicast or broadcast address; give one of this host, like 127.0.0.1, or 0.0.0.0 for all`
  return { protocol, address, port: split.port }
}

/** `unix:/run/db.sock`; undefined for what is none. */
const readUnix = (text: string): AddressPort | string | undefined => {
  if (!isUnix(text)) return undefined
  const address = canonicalUnix(text)
  const fault = unixFault(address)
  return fault === '' ? { address, port: 0 } : `${show(text)} ${fault}`
}

/** `srv:_pg._tcp.example`; undefined for what is none, as `srv:5432` on a host named srv. */
const readSrv = (text: string): Target | string | undefined => {
  const [, name] = /^srv:(?!\d+$)(.*)$/is.exec(text) ?? []
  if (name === undefined) return undefined
  if (isHostName(name)) return { host: name.toLowerCase(), port: 0, srv: true }
  return `${show(text)} is not srv:NAME with a name that has SRV records, like srv:_pg._tcp.example; they have the port`
}

const mostWeight = 256

/**
 * Reads `10.0.0.5:5432`, `db.example:5432`, `srv:_pg._tcp.example` or `unix:/run/db.sock`, with `weight=3` behind it or
 * not; a text is as for `readListen`.
 */
export const readTarget = (text: string): Target | string => {
  const [, place = text, given] = /^(.*?) +weight=(.*)$/s.exec(text) ?? []
  const target = readPlace(place)
  if (given === undefined || typeof target === 'string') return target
  const weight = /^\d{1,3}$/.test(given) ? Number(given) : Infinity
  return weight <= mostWeight
    ? { ...target, weight }
    : `${show(text)} has a weight that is not a number from 0 to 256, like 10.0.0.5:5432 weight=3`
}

const readPlace = (text: string): Target | string => {
  const socket = readUnix(text)
  if (typeof socket === 'object') return { host: socket.address, port: socket.port }
  if (socket !== undefined) return socket
  const srv = readSrv(text)
  if (srv !== undefined) return srv
  if (/^\S+:\d+ +[a-z]/i.test(text))
    return `${show(text)} has a word behind the address that is not weight=NUMBER; options are of the route`
  const split = splitHostPort(text)
  if (split === undefined)
    return `${show(text)} ${bracketsAdvice(text) || `is not ${targetForm}`}`
  const { host, port } = split
  const address = canonicalIp(host)
  if (address === undefined)
    return isHostName(host)
      ? { host: host.toLowerCase(), port }
      : `${show(text)} is neither an IP address nor a host name; give one like 10.0.0.5:5432 or db.example:5432`
  if (addressFault(address) !== '')
    return `${show(text)} is not the address of one host; give one like 10.0.0.5:5432`
  return { host: address, port }
}

// Underscores are no part of a host name (RFC 952) and are in names people resolve.
const label = /^[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?$/i

/**
 * Whether a text can be resolved as a host name. One whose last label is a number is
 * refused: resolvers take `10.0.0.256`, `127.1` or `0x7f.1` for addresses, each in its
 * own way (WHATWG URL, "ends in a number").
 */
export const isHostName = (text: string): boolean => {
  const name = text.endsWith('.') ? text.slice(0, -1) : text
  const labels = name.split('.')
  const last = labels.at(-1) ?? ''
  return (
    name.length <= 253 &&
    labels.every(part => label.test(part)) &&
    !/^(?:\d+|0x[\da-f]*)$/i.test(last)
  )
}

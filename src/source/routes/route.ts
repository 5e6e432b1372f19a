import { parseDuration } from '../../util/duration.ts'
import type { Protocol } from '../../model/service.ts'
import {
  canonicalIp,
  familyOf,
  isGroup,
  isLoopback,
  isWildcard,
  joinHostPort,
  splitHostPort,
} from '../../util/ip.ts'
import { addressFault } from '../decode/fields.ts'
import { printable, show } from '../../util/printable.ts'

export interface RouteBackend {
  /** A canonical address, or a host name in lower case. */
  readonly host: string
  /** 0 with `srv`: the name's SRV records have the ports. */
  readonly port: number
  readonly srv?: true
}

/** As it is given: `db.example:5432`, `srv:_pg._tcp.example`. */
export const backendText = ({ host, port, srv }: RouteBackend): string =>
  srv === true ? `srv:${host}` : joinHostPort(host, port)

/** One `--route` of a sidecar. */
export interface Route {
  /** As it was given. */
  readonly text: string
  readonly protocol: Protocol
  readonly listen: { readonly address: string; readonly port: number }
  readonly backends: readonly RouteBackend[]
  /** 0 for none. */
  readonly affinityMs: number
}

const form = 'PROTOCOL://ADDRESS:PORT=HOST:PORT[,HOST:PORT...][?affinity=DURATION]'
const example = 'tcp://127.0.0.1:15432=10.0.0.5:5432,10.0.0.6:5432'

const protocols: Readonly<Record<string, Protocol>> = { tcp: 'TCP', udp: 'UDP' }

const shape = /^([a-z]+):\/\/([^=?]*)=([^?]*)(?:\?(.*))?$/i

/** The same bounds as a Service's `timeoutSeconds`: one second to one day. */
const affinityBounds = { lowest: 1000, highest: 86_400_000 }

/**
 * Reads a route: `tcp://127.0.0.1:15432=10.0.0.5:5432,db.example:5432`, `udp://[::]:53=...`.
 * The listen address is literal (a wildcard is allowed), backends may be host names, IPv6
 * stands in brackets. `?affinity=3h` at the end keeps a client on its backend until it
 * has been away for that long. Throws an Error that names the route, the part, and what
 * would be right.
 */
export const parseRoute = (text: string): Route => {
  const fault = (part: string, message: string): Error =>
    new Error(`route ${show(text)}: ${part}${part === '' ? '' : ' '}${message}`)
  const [whole, scheme = '', listenText = '', backendsText = '', query] =
    shape.exec(text) ?? []
  if (whole === undefined) throw fault('', `is not ${form}; give one like ${example}`)
  const protocol = protocols[scheme.toLowerCase()]
  if (protocol === undefined) throw fault(`protocol ${show(scheme)}`, 'is not tcp or udp')
  const listen = parseListen(listenText, fault)
  const backends = backendsText.split(',').map(given => parseBackend(given, fault))
  rejectTwins(backends, fault)
  for (const { host, port } of backends)
    if (isLoop(listen, host, port))
      throw fault(
        `backend ${show(joinHostPort(host, port))}`,
        'is the route itself; give another port',
      )
  const affinityMs = query === undefined ? 0 : parseQuery(query, fault)
  return { text: printable(text, 300), protocol, listen, backends, affinityMs }
}

/**
 * Whether a backend is the very address that the route listens on: each connection
 * would open the next, until the file descriptors are gone.
 */
export const isLoop = (listen: Route['listen'], host: string, port: number): boolean =>
  port === listen.port &&
  (host === listen.address ||
    (isWildcard(listen.address) && familyOf(host) !== undefined && isLoopback(host)))

type Fault = (part: string, message: string) => Error

const parseListen = (text: string, fault: Fault): Route['listen'] => {
  const part = `listen address ${show(text)}`
  const split = splitHostPort(text)
  if (split === undefined)
    throw fault(
      part,
      'is not ADDRESS:PORT with a port from 1 to 65535, like 127.0.0.1:15432 or [::1]:15432',
    )
  const address = canonicalIp(split.host)
  if (address === undefined)
    throw fault(part, 'is not an IP address; give one like 127.0.0.1, or 0.0.0.0 for all')
  if (isGroup(address))
    throw fault(
      part,
      'is a multicast or broadcast address; give one of this host, like 127.0.0.1, or 0.0.0.0 for all',
    )
  return { address, port: split.port }
}

/** `srv:_pg._tcp.example`; undefined for what is none, as `srv:5432` on a host named srv. */
const parseSrv = (text: string, fault: Fault): RouteBackend | undefined => {
  const [, name] = /^srv:(?!\d+$)(.*)$/is.exec(text) ?? []
  if (name === undefined) return undefined
  if (!isHostName(name))
    throw fault(
      `backend ${show(text)}`,
      'is not srv:NAME with a name that has SRV records, like srv:_pg._tcp.example; they have the port',
    )
  return { host: name.toLowerCase(), port: 0, srv: true }
}

const parseBackend = (text: string, fault: Fault): RouteBackend => {
  const part = `backend ${show(text)}`
  const srv = parseSrv(text, fault)
  if (srv !== undefined) return srv
  const split = splitHostPort(text)
  if (split === undefined)
    throw fault(
      part,
      'is not HOST:PORT with a port from 1 to 65535, like 10.0.0.5:5432, [fd00::5]:5432 or db.example:5432',
    )
  const { host, port } = split
  const address = canonicalIp(host)
  if (address === undefined) {
    if (!isHostName(host)) throw fault(part, 'is neither an IP address nor a host name')
    return { host: host.toLowerCase(), port }
  }
  if (addressFault(address) !== '') throw fault(part, 'is not the address of one host')
  return { host: address, port }
}

const rejectTwins = (backends: readonly RouteBackend[], fault: Fault): void => {
  const seen = new Set<string>()
  for (const backend of backends) {
    const key = backendText(backend)
    if (seen.has(key)) throw fault(`backend ${show(key)}`, 'is given twice; give it once')
    seen.add(key)
  }
}

const parseQuery = (query: string, fault: Fault): number => {
  const [name, value, ...rest] = query.split('=')
  if (name !== 'affinity' || value === undefined || rest.length > 0)
    throw fault(`option ${show(query)}`, 'is not affinity=DURATION, like affinity=3h')
  const ms = parseDuration(value)
  const { lowest, highest } = affinityBounds
  if (ms === undefined || ms < lowest || ms > highest)
    throw fault(
      `affinity ${show(value)}`,
      'is not a duration from 1s to 24h, like 3h or 10800s',
    )
  return Math.round(ms)
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

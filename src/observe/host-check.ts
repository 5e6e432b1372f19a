import { hostname } from 'node:os'
import { canonicalIp, familyOf } from '../util/ip.ts'

/** Whether only this host can reach an address: 127.0.0.0/8, ::1 or `localhost`. */
const isLoopback = (address: string): boolean => {
  const family = familyOf(address)
  if (family === undefined) return address === 'localhost'
  return family === 'IPv4' ? address.startsWith('127.') : canonicalIp(address) === '::1'
}

/** `node-1.example` and `node-1`. */
const ownNames = (): readonly string[] => {
  const name = hostname().toLowerCase()
  return [name, name.split('.', 1)[0] ?? name].filter(Boolean)
}

/**
 * Whether a request with this Host header may have been meant for a server on
 * `boundTo`. A web page can make its own name resolve to 127.0.0.1 and then read
 * answers as if they came from its own server (DNS rebinding); but the browser still
 * sends that name. An IP address, `localhost` and the host's own names are none that
 * somebody else can have. Servers that others are to reach (Prometheus, by whatever name)
 * listen on another address than loopback, and take every name.
 */
export const isHostAllowed = (host: string | undefined, boundTo: string): boolean => {
  if (host === undefined || !isLoopback(boundTo)) return true
  const name = /^\[([^\]]*)\](?::\d*)?$/.exec(host)?.[1] ?? host.replace(/:\d*$/, '')
  return (
    familyOf(name) !== undefined ||
    ['localhost', boundTo.toLowerCase(), ...ownNames()].includes(name.toLowerCase())
  )
}

import { canonicalIp, familyOf } from '../util/ip.ts'

/** Whether only this host can reach an address: 127.0.0.0/8, ::1 or `localhost`. */
const isLoopback = (address: string): boolean => {
  const family = familyOf(address)
  if (family === undefined) return address === 'localhost'
  return family === 'IPv4' ? address.startsWith('127.') : canonicalIp(address) === '::1'
}

/**
 * Whether a request with this Host header may have been meant for a server on
 * `boundTo`. A web page can make its own name resolve to 127.0.0.1 and then read
 * answers as if they came from its own server (DNS rebinding); but the browser still
 * sends that name. Only servers on loopback are reachable by that alone.
 */
export const isHostAllowed = (host: string | undefined, boundTo: string): boolean => {
  if (host === undefined || !isLoopback(boundTo)) return true
  const name = /^\[([^\]]*)\](?::\d*)?$/.exec(host)?.[1] ?? host.replace(/:\d*$/, '')
  return (
    familyOf(name) !== undefined ||
    name.toLowerCase() === 'localhost' ||
    name.toLowerCase() === boundTo.toLowerCase()
  )
}

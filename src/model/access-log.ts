import { isAbsolute } from 'node:path'
import { canonicalIp, isGroup, isWildcard, splitHostPort } from '../util/ip.ts'

export const accessLogFormats = ['json', 'tcplog'] as const

/** A line for each TCP connection that has ended. */
export interface AccessLogOptions {
  readonly format: (typeof accessLogFormats)[number]
  /** As `readLogDestination` takes it. */
  readonly to: string
  /** What the route is called in it. */
  readonly route: string
}

/** Where lines go. */
export type LogDestination =
  | { readonly kind: 'stdout' }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'syslog'; readonly address: string; readonly port: number }

/** `stdout`, `file:/var/log/usher/db.log`, `syslog:udp://127.0.0.1:514`; undefined for others. */
export const readLogDestination = (text: string): LogDestination | undefined => {
  if (text === 'stdout') return { kind: 'stdout' }
  const path = /^file:(.*[^/])$/s.exec(text)?.[1] ?? ''
  if (isAbsolute(path) && !path.includes('\0')) return { kind: 'file', path }
  const place = splitHostPort(/^syslog:udp:\/\/(.+)$/.exec(text)?.[1] ?? '')
  const address = place && canonicalIp(place.host)
  if (address === undefined || isWildcard(address) || isGroup(address)) return undefined
  return { kind: 'syslog', address, port: place?.port ?? 0 }
}

import {
  bracketsAdvice,
  isLoopback,
  isWildcard,
  joinHostPort,
  splitHostPort,
} from '../../util/ip.ts'
import { isUnix, unixFault } from '../../util/unix-address.ts'
import { badValue, textual, type OptionType } from './basic.ts'

/** What `usher wait` connects to. */
export interface WaitTarget {
  /** As it was given. */
  readonly text: string
  readonly host: string
  readonly port: number
  /** A sidecar listens there, or may: that it accepts says nothing yet. */
  readonly viaProxy: boolean
}

const example =
  'give one like db.example:5432, or tcp://127.0.0.1:15432 or unix:/run/db.sock for a route'

/** `HOST:PORT`, a unix socket, or a route of a sidecar's, of which the backends may be left out. */
export const waitTarget: OptionType<WaitTarget, string> = textual(
  'ROUTE|HOST:PORT',
  text => {
    if (isUnix(text)) {
      const [, socket = text] = /^([^=?]*?)(?:[=?]|,(?:tcp|unix):|$)/.exec(text) ?? []
      const fault = unixFault(socket)
      if (fault !== '') throw badValue(text, fault, example)
      return { text: socket, host: socket, port: 0, viaProxy: true }
    }
    const [, scheme, listen = text] = /^([a-z]+):\/\/([^=?,]*)/i.exec(text) ?? []
    if (scheme?.toLowerCase() === 'udp')
      throw badValue(text, 'is UDP, where nothing says who listens', example)
    const parts = splitHostPort(listen)
    const brackets = bracketsAdvice(listen)
    if (brackets !== '') throw badValue(text, brackets, example)
    const isRoute = scheme !== undefined
    if (
      parts === undefined ||
      !/^[\w.:%-]+$/.test(parts.host) ||
      (isRoute && scheme.toLowerCase() !== 'tcp')
    )
      throw badValue(text, 'is neither HOST:PORT nor a route', example)
    const host = reachable(parts.host)
    // On its loopback interface a container has nothing but what is in its pod.
    const viaProxy = isRoute || host === 'localhost' || isLoopback(host)
    return {
      text: joinHostPort(parts.host, parts.port),
      host,
      port: parts.port,
      viaProxy,
    }
  },
)

/** What listens on all addresses is reached at loopback. */
const reachable = (host: string): string =>
  isWildcard(host) ? (host.includes(':') ? '::1' : '127.0.0.1') : host

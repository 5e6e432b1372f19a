import { readBlock } from '../../util/address-ranges.ts'
import { parseCidr } from '../../util/cidr.ts'
import {
  canonicalIp,
  isGroup,
  isWildcard,
  joinHostPort,
  splitHostPort,
  type AddressPort,
  bracketsAdvice,
  isLoopback,
} from '../../util/ip.ts'
import { badValue, commaList, splitAtCommas, textual, type OptionType } from './basic.ts'
import { isUnix, unixFault } from '../../util/unix-address.ts'

/** A literal IP address, in its canonical spelling. */
export const ip: OptionType<string, string> = textual('IP', text => {
  const address = canonicalIp(text)
  if (address === undefined)
    throw badValue(text, 'is not an IP address', 'give one like 192.0.2.1, 0.0.0.0 or ::')
  return oneHosts(text, address)
})

/** No socket accepts connections on a multicast or broadcast address. */
const oneHosts = (text: string, address: string): string => {
  if (!isGroup(address)) return address
  throw badValue(
    text,
    'is a multicast or broadcast address',
    'give one of this host, or 0.0.0.0 or ::',
  )
}

const unbracketed = (text: string): string =>
  text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text

/**
 * `ip:port` to listen on (port 0 lets the system choose) or, as kube-proxy has it, a bare IP that
 * gets `defaultPort`. `off`
 * and, as kube-proxy has it too, nothing are undefined: don't listen at all.
 */
export const bindAddress = (
  defaultPort: number,
): OptionType<AddressPort | undefined, string> =>
  textual('IP:PORT', text => {
    if (text === 'off' || text === '') return undefined
    const bare = canonicalIp(unbracketed(text))
    if (bare !== undefined) return { address: oneHosts(text, bare), port: defaultPort }
    const parts = splitHostPort(text, 0)
    const address = canonicalIp(parts?.host ?? '')
    if (parts === undefined || address === undefined)
      throw badValue(
        text,
        'is not an IP address with a port',
        `give one like 127.0.0.1:${defaultPort} or [::1]:${defaultPort}, or off`,
      )
    return { address: oneHosts(text, address), port: parts.port }
  })

/** `host:port` of a server to ask; a bare host gets `defaultPort`. Kept as text. */
export const serverAddress = (defaultPort: number): OptionType<string, string> =>
  textual('HOST:PORT', text => {
    const bare = canonicalIp(unbracketed(text))
    if (bare !== undefined) return joinHostPort(bare, defaultPort)
    const parts = splitHostPort(text)
    if (parts !== undefined && /^[\w.:-]+$/.test(parts.host)) return text
    if (/^[\w.-]+$/.test(text)) return joinHostPort(text, defaultPort)
    throw badValue(
      text,
      'is not a host with a port',
      `give one like 127.0.0.1:${defaultPort} or [::1]:${defaultPort}`,
    )
  })

/** An IP address, or a block of them. */
export const block: OptionType<string, string> = textual('IP|CIDR', text => {
  if (readBlock(text) !== undefined) return text
  throw badValue(
    text,
    'is neither an IP address nor a block of them',
    'give one like 10.0.0.7 or 10.0.0.0/8',
  )
})

const dnsPort = 53

/** DNS servers, `IP` or `IP:PORT`, with commas between them. */
export const nameServers = commaList(
  textual('IP[:PORT]', (text): AddressPort => {
    const bare = canonicalIp(unbracketed(text))
    const parts = bare === undefined ? splitHostPort(text) : { host: bare, port: dnsPort }
    const address = canonicalIp(parts?.host ?? '')
    if (parts === undefined || address === undefined)
      throw badValue(
        text,
        'is not the IP address of a DNS server',
        'give one like 10.0.0.2, 10.0.0.3:5353 or [fd00::2]:5353',
      )
    if (isWildcard(address) || isGroup(address))
      throw badValue(text, 'is not the address of one host', 'give that of a DNS server')
    return { address, port: parts.port }
  }),
)

/** Ports from `first` to `last`, both included. */
export interface PortRange {
  readonly first: number
  readonly last: number
}

/**
 * `30000-32000`, `30000+2000` or `30000` (the forms kube-proxy takes; `base+size` has
 * its last port at base plus size). Empty, `0` and `0-0` are undefined: the system chooses.
 */
export const portRange: OptionType<PortRange | undefined, string> = textual(
  'RANGE',
  text => {
    if (text === '' || text === '0' || text === '0-0') return undefined
    const match = /^(\d{1,5})(?:([-+])(\d{1,5}))?$/.exec(text)
    const first = Number(match?.[1])
    const second = Number(match?.[3] ?? first)
    const last = match?.[2] === '+' ? first + second : second
    if (!(first >= 1 && first <= last && last <= 65535))
      throw badValue(
        text,
        'is not a range of ports',
        'give one within 1-65535, lower port first, like 30000-32000 or 30000+2000',
      )
    return { first, last }
  },
)

const example = 'give one like 10.0.0.0/8 or fd00::/8'

const checked = (text: string): string => {
  if (parseCidr(text) === undefined) throw badValue(text, 'is not a CIDR', example)
  return text
}

/** CIDRs with commas between them, as given. */
export const cidrList = commaList(textual('CIDR', checked))

/** True when there are two CIDRs, one of each family. */
export const isDualStack = (cidrs: readonly string[]): boolean => {
  const families = new Set(cidrs.map(cidr => parseCidr(cidr)?.family))
  return cidrs.length === 2 && families.size === 2 && !families.has(undefined)
}

/** No CIDR, one, or one of each family. */
export const cidrPair: OptionType<readonly string[], string> = textual(
  'CIDR[,CIDR]',
  text => {
    const cidrs = splitAtCommas(text).map(checked)
    if (cidrs.length > 1 && !isDualStack(cidrs))
      throw badValue(
        text,
        'is not a dual-stack pair of CIDRs',
        'give one, or one of each family like 10.0.0.0/8,fd00::/8',
      )
    return cidrs
  },
)

const words: readonly string[] = ['primary', 'localhost', 'all']

/** True for what stands for addresses of a node in place of a CIDR (kube-proxy 1.37). */
export const isNodePortWord = (text: string): boolean => words.includes(text)

/** What NodePorts are answered on: CIDRs, or `primary`, `localhost` and `all`. */
export const nodePortAddresses = commaList(
  textual('CIDR', part => {
    if (isNodePortWord(part) || parseCidr(part) !== undefined) return part
    throw badValue(part, 'is not a CIDR', `${example}, or one of ${words.join(', ')}`)
  }),
)

/** What `usher wait` connects to. */
export interface WaitTarget {
  /** As it was given. */
  readonly text: string
  readonly host: string
  readonly port: number
  /** A sidecar listens there, or may: that it accepts says nothing yet. */
  readonly viaProxy: boolean
}

const waitExample =
  'give one like db.example:5432, or tcp://127.0.0.1:15432 or unix:/run/db.sock for a route'

/** `HOST:PORT`, a unix socket, or a route of a sidecar's, of which the backends may be left out. */
export const waitTarget: OptionType<WaitTarget, string> = textual(
  'ROUTE|HOST:PORT',
  text => {
    if (isUnix(text)) {
      const [, socket = text] = /^([^=?]*?)(?:[=?]|,(?:tcp|unix):|$)/.exec(text) ?? []
      const fault = unixFault(socket)
      if (fault !== '') throw badValue(text, fault, waitExample)
      return { text: socket, host: socket, port: 0, viaProxy: true }
    }
    const [, scheme, listen = text] = /^([a-z]+):\/\/([^=?,]*)/i.exec(text) ?? []
    if (scheme?.toLowerCase() === 'udp')
      throw badValue(text, 'is UDP, where nothing says who listens', waitExample)
    const parts = splitHostPort(listen)
    const brackets = bracketsAdvice(listen)
    if (brackets !== '') throw badValue(text, brackets, waitExample)
    const isRoute = scheme !== undefined
    if (
      parts === undefined ||
      !/^[\w.:%-]+$/.test(parts.host) ||
      (isRoute && scheme.toLowerCase() !== 'tcp')
    )
      throw badValue(text, 'is neither HOST:PORT nor a route', waitExample)
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

/**
 * sun_path of unix(7) has 108 bytes, and 104 on other systems; one is its closing zero, and five
 * more are taken while the socket is made (placed-socket.ts).
 */
const mostBytes = process.platform === 'linux' ? 102 : 98

/** The path of a unix socket, or nothing. */
export const socketPath = textual('PATH', given => {
  const bytes = Buffer.byteLength(given)
  if (given.includes('\0'))
    throw badValue(given, 'has a zero byte in it', 'give the path of a file')
  if (bytes > mostBytes)
    throw badValue(
      given,
      `has ${bytes} bytes, and the path of a socket has ${mostBytes} at most`,
      'give a shorter one',
    )
  return given
})

import { badSource } from '../source.ts'
import { Agent as HttpAgent, type Agent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { cidrContains, parseCidr } from '../../util/cidr.ts'
import { canonicalIp, isLoopback, splitHostPort } from '../../util/ip.ts'

/** An idle connection is closed before a load balancer does, usually after 60 s. */
const agentOptions = { keepAlive: true, timeout: 50_000 }

/** Of a URL, without the brackets of an IPv6 address. */
export const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, '')

export const portOf = ({ port, protocol }: URL): number =>
  Number(port || (protocol === 'https:' ? 443 : 80))

/**
 * The proxy for a server by HTTPS_PROXY, HTTP_PROXY and NO_PROXY, which may be in lower case, as Go's
 * net/http takes them (golang.org/x/net/http/httpproxy): never for localhost and loopback addresses.
 */
export const environmentProxy = (
  server: URL,
  env: NodeJS.ProcessEnv,
): URL | undefined => {
  const variable = `${server.protocol.slice(0, -1)}_proxy`
  const of = (name: string) => env[name.toUpperCase()] || env[name] || ''
  const host = hostOf(server)
  const isOwn = host === 'localhost' || isLoopback(canonicalIp(host) ?? host)
  const exempt = of('no_proxy').toLowerCase().split(',')
  const isNone =
    of(variable) === '' ||
    isOwn ||
    exempt.some(entry => isExempt(entry.trim(), host, portOf(server)))
  return isNone ? undefined : proxyUrl(of(variable), variable.toUpperCase())
}

/** By one entry of NO_PROXY: `*`, a block, an address, a domain with all below it; with a port or not. */
const isExempt = (entry: string, host: string, port: number): boolean => {
  if (entry === '*') return true
  const cidr = parseCidr(entry)
  if (cidr !== undefined) return cidrContains(cidr, host)
  const whole = { host: entry.replace(/^\[|\]$/g, ''), port }
  const { host: given, port: only } = splitHostPort(entry) ?? whole
  if (only !== port || given === '') return false
  const address = canonicalIp(given)
  if (address !== undefined) return address === canonicalIp(host)
  const domain = given.replace(/^\*?\./, '')
  return host.endsWith(`.${domain}`) || (domain === given && host === domain)
}

/** `proxy:3128` is one of HTTP. Throws BAD_SOURCE; what it says may have a password. */
export const proxyUrl = (text: string, where: string): URL => {
  const whole = /^[a-z0-9]+:\/\//i.test(text) ? text : `http://${text}`
  const url = URL.canParse(whole) ? new URL(whole) : undefined
  if (url?.hostname && /^(https?|socks(4a?|5h?)?):$/.test(url.protocol)) return url
  throw badSource(
    `${where}: is not a proxy; give one like http://proxy.example:3128 or socks5://10.0.0.1:1080`,
  )
}

/** Keeps connections to a server, through the proxy if there is one. */
export const agentTo = async (server: URL, proxy: URL | undefined): Promise<Agent> => {
  if (proxy === undefined)
    return new (server.protocol === 'https:' ? HttpsAgent : HttpAgent)(agentOptions)
  // Their time-outs would end a watch in which nothing comes.
  if (proxy.protocol.startsWith('socks')) {
    const { SocksProxyAgent } = await import('socks-proxy-agent')
    return new SocksProxyAgent(proxy, { keepAlive: true })
  }
  const { HttpsProxyAgent } = await import('https-proxy-agent')
  return new HttpsProxyAgent(proxy, { keepAlive: true })
}

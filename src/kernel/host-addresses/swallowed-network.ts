import { cidrContains, parseCidr } from '../../util/cidr.ts'
import type { IpFamily } from '../../util/ip.ts'
import type { RunTool } from '../run-tool.ts'
import { listOf } from './ip-tool.ts'

/**
 * Why a range must not become this host's own: because it holds a network that the host
 * has a route to. Local routes are looked up before all others, so that the network's
 * other hosts, the gateway among them, could not be reached any more. '' when nothing is
 * in the way.
 */
export const whySwallowed = async (run: RunTool, range: string): Promise<string> => {
  const block = parseCidr(range)
  if (block === undefined) return `${range} is not a CIDR`
  const version = block.family === 'IPv4' ? '-4' : '-6'
  const text = await listOf(run, [
    version,
    'route',
    'show',
    'table',
    'main',
    'root',
    range,
  ])
  const inside = text.split('\n').find(line => {
    const [to = '', ...rest] = line.split(' ')
    // Those that lead nowhere begin with their type: `blackhole 10.96.0.0/12`.
    const [address = '', length = String(block.family === 'IPv4' ? 32 : 128)] =
      to.split('/')
    if (rest.length === 0 || !cidrContains(block, address)) return false
    // An equal one may be meant to go; that of an interface's own network is not.
    const isConnected = rest.includes('kernel')
    return Number(length) >= block.prefixLength + (isConnected ? 0 : 1)
  })
  if (inside === undefined) return ''
  return `it holds a network that this host has a route to: ${inside.trim()}`
}

/**
 * The gateways by which this host reaches others, of all its tables (ip-rule(8)). One that became its own, as the external
 * IP of a Service may ask for, would cut it off.
 */
export const gatewaysOf = async (
  run: RunTool,
  family: IpFamily,
): Promise<readonly string[]> => {
  const version = family === 'IPv4' ? '-4' : '-6'
  const text = await listOf(run, [version, 'route', 'show', 'table', 'all'])
  const found = Array.from(
    text.matchAll(/\bvia (?:inet6? )?(\S+)/g),
    ([, via = '']) => via,
  )
  return [...new Set(found)]
}

/** Why a CIDR must not become this host's own because of them; '' when it may. */
export const whyGateway = (cidr: string, gateways: readonly string[]): string => {
  const block = parseCidr(cidr)
  const inside = gateways.find(one => block !== undefined && cidrContains(block, one))
  return inside === undefined ? '' : `${inside} is a gateway of this host's routes`
}

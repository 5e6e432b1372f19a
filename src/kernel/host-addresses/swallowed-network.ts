import { cidrContains, parseCidr } from '../../util/cidr.ts'
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
    return Number(length) > block.prefixLength
  })
  if (inside === undefined) return ''
  return `it holds a network that this host has a route to: ${inside.trim()}`
}

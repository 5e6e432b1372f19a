import { canonicalIp, joinHostPort } from '../../util/ip.ts'
import { forEachYielding } from '../../util/yielding.ts'
import { type ServerId, serverId } from './server-id.ts'

/** A destination in /proc/net/ip_vs. */
export interface Load {
  readonly weight: number
  /** Active and inactive ones. */
  readonly connections: number
}

export type Loads = ReadonlyMap<ServerId, ReadonlyMap<string, Load>>

/** Virtual servers of TCP, UDP and SCTP in /proc/net/ip_vs, with what their destinations carry. */
export const readLoads = async (text: string): Promise<Loads> => {
  const loads = new Map<ServerId, Map<string, Load>>()
  let now: Map<string, Load> | undefined
  await forEachYielding(text.split('\n'), line => {
    const words = line.trim().split(/ +/)
    const [first, second = ''] = words
    if (first === 'TCP' || first === 'UDP' || first === 'SCTP') {
      const [address, port] = addressAndPort(second)
      now = new Map()
      loads.set(serverId(first, address, port), now)
    } else if (first === '->') {
      const [address, port] = addressAndPort(second)
      const [weight, active, inactive] = words.slice(3).map(Number)
      if (weight === undefined || active === undefined || inactive === undefined) return
      now?.set(joinHostPort(address, port), { weight, connections: active + inactive })
    } else now = undefined
  })
  return loads
}

/** `0A600001:01BB`, or `[2001:0db8:...]:01BB`. */
const addressAndPort = (text: string): readonly [address: string, port: number] => {
  const end = text.lastIndexOf(':')
  const port = Number.parseInt(text.slice(end + 1), 16)
  if (text.startsWith('[')) return [canonicalIp(text.slice(1, end - 1)) ?? '', port]
  const word = Number.parseInt(text.slice(0, end), 16)
  const bytes = [24, 16, 8, 0].map(shift => (word >>> shift) & 255)
  return [bytes.join('.'), port]
}

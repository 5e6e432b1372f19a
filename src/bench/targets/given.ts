import { isIP } from 'node:net'
import type { Endpoint } from '../services.ts'
import { startNothing } from './direct.ts'
import type { Target } from './target.ts'

/**
 * A target that somebody runs already, such as a kube-proxy: `IP:PORT` has the `http`
 * backends behind it, `udp://IP:PORT` the `udp` ones. Throws when `to` is neither.
 */
export const givenTarget = (name: string, to: string): Target => {
  const [service, address] = parseGiven(to)
  return {
    name,
    title: `what is at ${to}`,
    kind: 'given',
    whyNot: async () => '',
    start: order => startNothing(name, order, new Map([[service, address]])),
  }
}

const parseGiven = (to: string): readonly [service: string, Endpoint] => {
  const [, udp, bracketed, plain, digits] =
    /^(udp:\/\/)?(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(to) ?? []
  const [address, port] = [bracketed ?? plain ?? '', Number(digits)]
  const family = bracketed === undefined ? 4 : 6
  if (isIP(address) !== family || port < 1 || port > 65_535)
    throw new Error(`${to}: want IP:PORT or udp://IP:PORT, like 10.96.0.10:80`)
  return [udp === undefined ? 'http' : 'udp', { address, port }]
}

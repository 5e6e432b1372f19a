import type { Test } from 'tap'
import type { HostName } from '../../support/net/addresses.ts'
import { addressOf, secondAddress } from '../../support/net/addresses.ts'
import { inParallel } from '../../support/net/in-parallel.ts'
import { families, protocols } from './objects.ts'
import type { Manner } from './oracle-terms.ts'
import { healthCheckPortOf, serviceNamed } from './services.ts'
import { type VipName, vipOf } from './vips.ts'
import type { Stage } from './stage.ts'

type Which = Extract<VipName, `node port${string}`>

interface Restriction {
  /** Of --nodeport-addresses. */
  readonly flag: string
  /** Which addresses answer then. */
  readonly answers: readonly Which[]
}

const first = 'node port, first address'
const second = 'node port, second address'
const gateway = 'node port, pod gateway'
const loopback = 'node port, loopback'
const all: readonly Which[] = [first, second, gateway, loopback]

export const restrictions: readonly Restriction[] = [
  {
    flag: `${secondAddress.IPv4}/24,${secondAddress.IPv6}/64`,
    answers: [second],
  },
  { flag: 'primary', answers: [first] },
  { flag: 'localhost', answers: [loopback] },
]

/** Node ports answer on these addresses of the node, and are refused on all others. */
export const nodePortsAreRestricted = async (
  t: Test,
  { agents }: Stage,
  { answers, flag }: Restriction,
  manner: Manner,
): Promise<void> => {
  const service = serviceNamed('plain')
  const dials = all.flatMap(vip => {
    const clients: readonly HostName[] =
      vip === loopback ? ['node'] : ['node', 'pod-1', 'pod-2', 'outside']
    return clients.flatMap(from =>
      families.flatMap(family =>
        protocols.map(protocol => ({ vip, from, family, protocol })),
      ),
    )
  })
  const lines = await inParallel(64, dials, async ({ vip, from, family, protocol }) => {
    const to = { protocol, ...vipOf[vip](service, family) }
    const { result } = await agents[from].dial(to, 5000)
    // No rule of the kernel modes leads ::1 anywhere, and one of nftables mode 127.0.0.1 neither.
    const isNowhere =
      vip === loopback &&
      (manner === 'nftables' || (manner === 'iptables' && family === 'IPv6'))
    const wanted = answers.includes(vip) && !isNowhere ? 'answer' : 'refused'
    const what = `${vip} from ${from}, ${family} ${protocol}`
    return result === wanted ? [] : `${flag}: ${what}: expected ${wanted}, got ${result}`
  })
  const faults = lines.flat()
  t.comment(faults.join('\n'))
  t.equal(
    faults.length,
    0,
    `${dials.length} node ports with --nodeport-addresses=${flag}`,
  )
}

/** Health is told on the addresses that answer node ports, and on no others. */
export const healthIsRestricted = async (
  t: Test,
  { agents }: Pick<Stage, 'agents'>,
  { answers, flag }: Restriction,
): Promise<void> => {
  const service = serviceNamed('external-local')
  const port = healthCheckPortOf(service)
  for (const vip of all)
    for (const family of families) {
      const { address } = vipOf[vip](service, family)
      const told = await agents.node.get(address, port, '/').then(
        ({ status }) => status,
        () => 'refused',
      )
      const wanted = answers.includes(vip) ? 200 : 'refused'
      t.equal(told, wanted, `${flag}: health on ${address}`)
    }
}

/** Load balancers ask the node's addresses for health. */
export const healthIsTold = async (
  t: Test,
  { agents }: Pick<Stage, 'agents'>,
): Promise<void> => {
  const cases = [
    ['external-local', 200],
    ['external-local-none', 503],
  ] as const
  for (const [name, wanted] of cases)
    for (const family of families)
      for (const from of ['outside', 'pod-1', 'node'] as const) {
        const port = healthCheckPortOf(serviceNamed(name))
        const told = await agents[from].get(addressOf.node[family], port, '/')
        t.equal(told.status, wanted, `${name} from ${from}, ${family}`)
      }
}

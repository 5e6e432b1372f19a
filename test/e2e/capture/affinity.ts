import type { Test } from 'tap'
import type { Agents } from '../../support/net/cluster-agents.ts'
import { families, protocols } from './objects.ts'
import { serviceNamed } from './services.ts'
import { type VipName, vipNames, vipOf } from './vips.ts'

const clients = ['pod-1', 'pod-2', 'outside'] as const
const rounds = 3

const usable = (vip: VipName): boolean =>
  vip !== 'unknown port' && vip !== 'node port, loopback'

/** One client, one backend, whichever address of the Service it dials. */
export const affinityHolds = async (t: Test, agents: Agents): Promise<void> => {
  const sticky = serviceNamed('sticky')
  const vips = vipNames.filter(usable)
  const cases = clients.flatMap(from =>
    families.flatMap(family => protocols.map(protocol => ({ from, family, protocol }))),
  )
  for (const { from, family, protocol } of cases) {
    const answers = new Set<string>()
    for (let round = 0; round < rounds; round += 1)
      for (const vip of vips) {
        const to = { protocol, ...vipOf[vip](sticky, family) }
        // With an address of its own on the way out, one client would be two.
        if (from === 'outside' && vip === 'node port, second address') continue
        const { result, backend } = await agents[from].dial(to, 5000)
        answers.add(backend === '' ? result : backend)
      }
    t.match([...answers], [/^backend-/], `${from}, ${family} ${protocol}`)
    t.equal(answers.size, 1, `${[...answers].join(', ')} answers alone`)
  }
}

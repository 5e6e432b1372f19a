// Not one of `npm test`, as it takes minutes: `npm run test:booted`.
import t from 'tap'
import { schedulers } from './ipvs-schedulers.ts'
import { ipvsSuite } from './ipvs.ts'
import { machineProblem } from './kernel.ts'
import { startMachine } from './machine.ts'
import {
  iptablesModeModules,
  iptablesModules,
  ipvsModules,
  nftablesModeModules,
  nftablesModules,
} from './netfilter.ts'
import { makeNetwork } from './network.ts'

const why = machineProblem()
const timeout = 560_000
t.setTimeout(timeout)

t.test('a booted kernel with ip_vs', { skip: why !== '' && why, timeout }, async t => {
  const machine = await startMachine(t)
  const agents = await makeNetwork(machine)
  // A node that has all: which tools are taken must not depend on what is missing.
  await machine.load(
    ...iptablesModules,
    ...iptablesModeModules,
    ...nftablesModules,
    ...nftablesModeModules,
    ...ipvsModules,
    ...schedulers.map(({ name }) => `ip_vs_${name}`),
  )
  await t.test('is served by virtual servers', t => ipvsSuite(t, machine, agents))
})

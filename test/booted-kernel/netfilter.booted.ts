// Not one of `npm test`, as it takes minutes: `npm run test:booted`.
import t, { type Test } from 'tap'
import type { Manner } from '../e2e/capture/oracle-terms.ts'
import { machineProblem } from './kernel.ts'
import { startMachine } from './machine.ts'
import { addressState } from './address-state.ts'
import { connectTimeSuite } from './connect-time.ts'
import {
  iptablesModeModules,
  iptablesModules,
  nftablesModeModules,
  nftablesModules,
} from './netfilter.ts'
import { nftablesSuite } from './nftables.ts'
import { makeNetwork } from './network.ts'
import { nodeState } from './node-state.ts'
import { allAreServed, fewServices } from './serves.ts'
import { askUsher, runUsher, writeServices } from './usher.ts'

const why = machineProblem()
const timeout = 560_000
t.setTimeout(timeout)

t.test('a booted kernel', { skip: why !== '' && why, timeout }, async t => {
  const machine = await startMachine(t)
  // In an emulated machine a program takes seconds to start.
  const checked = askUsher(machine, 'check')
  const agents = await makeNetwork(machine)
  await writeServices(machine, fewServices)
  await checked
  const before = await addressState(machine)

  interface Served {
    readonly mode: string
    readonly capture?: string
    readonly manner: Manner
  }

  /** One who is told so serves so, and leaves no address or route. */
  const isServed = async (
    t: Test,
    flags: readonly string[],
    { mode, capture = '', manner }: Served,
  ): Promise<string> => {
    const usher = await runUsher(machine, ...flags)
    t.equal(usher.mode, mode)
    t.equal(usher.capture, capture)
    await allAreServed(t, agents, manner)
    t.match(await usher.end(), { code: 0 })
    t.equal(await addressState(machine), before, 'no route or address is left')
    return usher.log
  }
  // An endpoint on an emulated processor may not answer within the usual steps, 3.75 s in all.
  const auto = ['--proxy-mode=userspace', '--capture=auto', '--dial-ladder=1s,2s,4s,8s']
  const byCapture = (capture: string, manner: Manner): Served => {
    return { mode: 'userspace', capture, manner }
  }

  await t.test('has no netfilter', async t => {
    const modules = await machine.run('cat', '/proc/modules')
    t.notMatch(modules, /^(nf|ip6?_?table|x_tables|xt_|ip_vs)/m)
    t.not((await machine.try('nft', 'list', 'ruleset')).code, 0)
    t.not((await machine.try('iptables-legacy', '-t', 'nat', '-S')).code, 0)
  })

  await t.test('`usher check` says that auto takes local, and why', async t => {
    const { code, out } = await checked
    t.equal(code, 0)
    t.match(out, /^capture +nftables +not usable +nft .*Protocol not supported/m)
    t.match(out, /^capture +iptables +not usable +iptables.*Protocol not supported/m)
    t.match(out, /^capture +local +usable/m)
    t.match(out, 'in userspace mode --capture auto takes local')
  })

  await t.test('without netfilter is served by local, also for want of ipvs', async t => {
    const log = await isServed(t, ['--proxy-mode=ipvs'], byCapture('local', 'local'))
    t.match(log, /ip_vs/, 'says what is missing')
  })

  await t.test(
    'without netfilter clients of the node are led as they connect',
    async t => {
      await connectTimeSuite(t, machine, agents)
      t.equal(await addressState(machine), before, 'no route or address is left')
    },
  )

  await t.test('with iptables only is served by its rules', async t => {
    await machine.load(...iptablesModules)
    await isServed(t, auto, byCapture('iptables', 'rules'))
    t.notMatch(await machine.run('iptables-legacy-save'), /usher|KUBE/i)
  })

  await t.test('with iptables only ipvs mode becomes iptables mode', async t => {
    await machine.load(...iptablesModeModules)
    const state = await nodeState(machine)
    const served = { mode: 'iptables', manner: 'iptables' } as const
    const log = await isServed(t, ['--proxy-mode=ipvs'], served)
    t.match(log, /ip_vs/, 'says what is missing')
    const { code, out, err } = await askUsher(machine, 'cleanup')
    t.comment(out, err)
    t.equal(code, 0)
    t.equal(await nodeState(machine), state, 'nothing is left')
  })

  await t.test('with nftables is served by its maps, and by a flowtable', async t => {
    await machine.load(...nftablesModules, ...nftablesModeModules)
    await nftablesSuite(t, machine, agents)
  })
})

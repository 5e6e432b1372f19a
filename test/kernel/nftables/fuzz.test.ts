import t, { type Test } from 'tap'
import type { Form } from '../../../src/kernel/nftables/compile.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'
import { type IpFamily, ipFamilies } from '../../../src/util/ip.ts'
import { Crowd } from './crowd.ts'
import { damages } from './damages.ts'
import { meaningOf, parseListing } from './listing.ts'
import { modelText } from './model.ts'
import { Random } from './random.ts'
import { situationsOf } from './situations.ts'
import { Steering } from './steered.ts'
import { makeWorld, skip, snapshotOf } from './world.ts'

/** The documented rest of what nothing needs any more. */
const restMs = 5000

const forms = ['shared', 'shared', 'own'] as const

/** Chains that all Services share stay as long as their process. */
const stays =
  /^chain (?:node-port-)?(?:cluster-ip|external|external-local|from-node)-(?:tcp|udp|sctp)-\d+$/

/** How the next call of nft ends, whatever it did. */
type Fault = 'nothing done' | 'all done' | 'no listing'

const failing =
  (next: () => Fault | undefined) =>
  (run: RunTool): RunTool =>
  async (command, args, options) => {
    const isListing = args.includes('list')
    const fault = next()
    const error = new ToolError(`nft: ${fault}`, 'timeout', '')
    if (fault === 'no listing' && isListing) throw error
    if (fault === 'nothing done' && !isListing) throw error
    const text = await run(command, args, options)
    if (fault === 'all done' && !isListing) throw error
    return text
  }

/** Changes, faults, damage and other processes, one after the other, in a table. */
const play = async (
  t: Test,
  { seed, family, steps }: { seed: number; family: IpFamily; steps: number },
): Promise<void> => {
  const random = new Random(seed)
  const faults: Fault[] = []
  const world = await makeWorld({ family, around: failing(() => faults[0]) })
  const { run, clock, table } = world
  const situations = Object.values(situationsOf(family))
  const crowd = new Crowd(random, family)
  const steering = new Steering()
  const staleSince = new Map<string, number>()
  let form: Form = random.pick(forms)
  let proxier = world.proxier(form)
  let situation = random.pick(situations)
  const history: string[] = []

  for (let step = 0; step < steps; step++) {
    clock.advance(random.pick([0, 0, 100, 1000, 4999, 5000, 20_000]))
    crowd.change()
    if (random.chance(0.08)) situation = random.pick(situations)
    if (random.chance(0.06)) proxier = world.proxier((form = random.pick(forms)))
    if (random.chance(0.1)) {
      const [what, input] = damages(
        random,
        table,
        await world.list().catch(() => undefined),
      )
      history.push(`damage: ${what}`)
      await run('nft', ['-f', '-'], { input })
      proxier.forget()
    }
    const { settings } = situation
    const servicePorts = steering.of(crowd.servicePorts.values(), settings)
    const sync = () => proxier.sync(snapshotOf(servicePorts.values(), family), settings)
    if (random.chance(0.15)) {
      const fault = random.pick(['nothing done', 'all done', 'no listing'] as const)
      faults.push(fault)
      history.push(`fault: ${fault}`)
      await sync().catch(() => {})
      faults.length = 0
      // What it failed to do may not be what is wanted any more.
      if (random.chance(0.5)) continue
    }
    const failures = world.told.length
    const { work } = await sync()
    history.push(`${clock.now()}: ${work}`)
    if (world.told.length > failures)
      return void t.fail(`a failure of its own: ${world.inputs.at(-2)}`, {
        seed,
        history,
      })
    const found = meaningOf(await world.list())
    const wanted = await model(
      run,
      modelText('ip model', servicePorts.values(), family, form, situation),
      family,
    )
    const at = { seed, step, history: history.slice(-12) }
    const missing = wanted.filter(line => !found.lines.includes(line))
    // A set of somebody else's, into which no rule looks, is let be.
    const extra = found.lines.filter(
      line => !wanted.includes(line) && !line.startsWith('foreign: set '),
    )
    if (missing.length + extra.length > 0)
      return void t.same({ missing, extra }, { missing: [], extra: [] }, '', at)
    for (const name of staleSince.keys())
      if (!found.stale.includes(name) || work === 'full') staleSince.delete(name)
    for (const name of found.stale.filter(one => !stays.test(one))) {
      const since = staleSince.get(name) ?? clock.now()
      staleSince.set(name, since)
      if (work === 'partial' && clock.now() - since >= restMs)
        return void t.fail(`${name} is still there`, at)
    }
  }
  t.pass(`seed ${seed}`)
}

const model = async (
  run: RunTool,
  text: string,
  family: IpFamily,
): Promise<readonly string[]> => {
  const name = family === 'IPv4' ? 'ip model' : 'ip6 model'
  await run('nft', ['-f', '-'], { input: text.replaceAll('ip model', name) })
  const listed = await run('nft', ['list', 'table', ...name.split(' ')])
  await run('nft', ['delete', 'table', ...name.split(' ')])
  return meaningOf(parseListing(listed)).lines
}

/** More of them find more, by hand. */
const seeds = Number(process.env['USHER_FUZZ_SEEDS'] ?? 1)
const first = Number(process.env['USHER_FUZZ_FIRST'] ?? 1)

for (const family of ipFamilies)
  t.test(`${family}: the table is what a model says`, { skip }, async t => {
    for (let i = 0; i < seeds; i++) await play(t, { seed: first + i, family, steps: 70 })
  })

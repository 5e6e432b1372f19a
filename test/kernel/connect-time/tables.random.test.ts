import t, { type Test } from 'tap'
import {
  compile,
  compileNodeAddress,
  type Entry,
  writtenTables,
} from '../../../src/kernel/connect-time/tables.ts'
import type { ServicePort, Snapshot } from '../../../src/model/snapshot.ts'
import { until } from '../../support/until.ts'
import { snapshotOf } from '../nftables/world.ts'
import { skip } from './group.ts'
import {
  capacity,
  type Failing,
  type LedNode,
  makeLedNode,
  nodeAddresses,
} from './led-node.ts'
import { type Chance, chanceOf, randomService } from './random-services.ts'

const rounds = 150

/** What tables should have. */
const entriesOf = (
  services: readonly ServicePort[],
  addresses: readonly string[],
): Map<string, string> => {
  const all: readonly Entry[] = [
    ...services.flatMap(compile),
    ...addresses.map(compileNodeAddress),
  ]
  return new Map(all.map(({ set, key, value }) => [`${set} ${key}`, value]))
}

/** What they have. */
const entriesIn = (node: LedNode): Map<string, string> =>
  new Map(
    writtenTables.flatMap(set =>
      Array.from(node.entries(set), ([key, value]) => [`${set} ${key}`, value] as const),
    ),
  )

/** '' where both have the same. */
const difference = (
  found: ReadonlyMap<string, string>,
  wanted: ReadonlyMap<string, string>,
): string => {
  const tooMany = [...found.keys()].filter(key => !wanted.has(key))
  const wrong = [...wanted].filter(([key, value]) => found.get(key) !== value)
  const [word = ''] = [...tooMany, ...wrong.map(([key]) => key)]
  return tooMany.length + wrong.length === 0
    ? ''
    : `${tooMany.length} too many, ${wrong.length} missing or wrong, as ${JSON.stringify(word)}`
}

const isFull = ({ left, room }: { left: ServicePort; room: readonly ServicePort[] }) => {
  const count = (set: Entry['set']) =>
    [...room, left].flatMap(compile).filter(each => each.set === set).length
  return (['services', 'slots', 'members'] as const).some(
    set => count(set) > capacity[set],
  )
}

/** Some come, some go, some are others now; at times in another order. */
const changed = (
  services: ReadonlyMap<number, ServicePort>,
  chance: Chance,
): Map<number, ServicePort> => {
  const next = new Map(services)
  for (let i = chance(8); i >= 0; i -= 1) {
    const n = chance(30)
    if (chance(3) === 0) next.delete(n)
    else next.set(n, randomService(n, chance))
  }
  return chance(10) === 0 ? new Map([...next].toReversed()) : next
}

const snapshotsOf = (services: readonly ServicePort[]): readonly Snapshot[] =>
  (['IPv4', 'IPv6'] as const).map(family =>
    snapshotOf(
      services.filter(one => one.family === family),
      family,
    ),
  )

const randomFailure = (chance: Chance): Failing | undefined => {
  if (chance(3) > 0) return undefined
  const code = (['ENOMEM', 'EPERM', 'E2BIG', 'EINVAL', 'EBUSY'] as const)[chance(5)]
  return {
    // A sync from scratch takes some 60 calls.
    after: chance(chance(2) === 0 ? 8 : 80),
    times: chance(2) === 0 ? 1 : Number.POSITIVE_INFINITY,
    code: code ?? 'EPERM',
  }
}

/** What holds after a sync, whichever way it went. */
const check = async (
  t: Test,
  node: LedNode,
  services: readonly ServicePort[],
  addresses: readonly string[],
): Promise<void> => {
  const { steering } = node
  if (steering.state !== 'leading') {
    t.equal(node.isKept(), false, 'nothing is kept')
    await until('nobody is led', () => node.programs() === 0)
    t.match(steering.problems, [{ message: /; the proxy mode carries all clients$/ }])
    t.equal(steering.staleSteeringError, '')
    return
  }
  const { left } = steering
  const entered = services.filter(one => !left.includes(one))
  const wrong = difference(entriesIn(node), entriesOf(entered, addresses))
  t.equal(wrong, '', `tables of ${entered.length} ServicePorts`)
  for (const one of left) t.ok(isFull({ left: one, room: entered }), 'there is no room')
  const [first] = left
  // A look at sockets of UDP may have met a failure, too, and is done again with the next change.
  const ofUdp = 'UDP sockets may stay connected to endpoints that are gone: '
  t.match(
    steering.problems
      .map(({ message }) => message)
      .filter(message => !message.startsWith(ofUdp)),
    first === undefined
      ? []
      : [
          `its tables have no room for ${left.length} ServicePorts (such as ${first.name}): the proxy mode carries their clients`,
        ],
  )
  await until('it leads at every hook', () => node.programs() === node.hooks)
}

t.test('tables are what the last snapshot wants, or nobody is led', { skip }, async t => {
  const seed = Date.now() % 1_000_000
  t.comment(`seed ${seed}`)
  const chance = chanceOf(seed)
  const node = await makeLedNode(t)
  const { steering, figures } = node
  let services: ReadonlyMap<number, ServicePort> = new Map()
  const seen = { good: 0, failed: 0, repaired: 0, full: 0 }
  for (let round = 0; round < rounds; round += 1) {
    if (chance(4) > 0) services = changed(services, chance)
    const list = [...services.values()]
    const addresses = nodeAddresses.filter(() => chance(5) > 0)
    node.moveTo(addresses)
    const failure = randomFailure(chance)
    node.fail(failure)
    const { syncs, failures } = figures
    await steering.sync(snapshotsOf(list))
    node.fail(undefined)
    await t.test(
      `round ${round} of seed ${seed}, ${JSON.stringify(failure ?? 'no failure')}`,
      async t => {
        t.equal(figures.syncs + figures.failures, syncs + failures + 1, 'it says so')
        t.equal(steering.state, figures.syncs > syncs ? 'leading' : 'failed')
        if (failure === undefined) t.equal(steering.state, 'leading')
        await check(t, node, list, addresses)
      },
    )
    if (steering.state === 'failed') seen.failed += 1
    else if (failure === undefined) seen.good += 1
    else seen.repaired += 1
    if (steering.left.length > 0) seen.full += 1
  }
  t.comment(JSON.stringify(seen))
  for (const [what, times] of Object.entries(seen)) t.ok(times > 0, `${what}: ${times}`)
})

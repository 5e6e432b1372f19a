import t, { type Test } from 'tap'
import { usualRules } from '../../src/health/check.ts'
import { GroupHealth, type CheckedGroup } from '../../src/health/group-health.ts'
import type { CheckEffects } from '../../src/model/service.ts'
import { systemClock } from '../../src/util/clock.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { tcpBackend } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'

const rules = { ...usualRules, intervalMs: 100 }
const option = { check: { type: 'tcp' }, rules } as const

const setUp = (t: Test) => {
  const turns: string[] = []
  const health = new GroupHealth({
    clock: systemClock,
    turned: turn => void turns.push(`${turn.group} ${turn.endpoint} ${turn.up}`),
    changed: () => {},
  })
  t.teardown(() => health.close())
  /** u or d for each endpoint, and c, b for one that is cut as down, as a backup. */
  const states = (group: CheckedGroup): string =>
    group.endpoints
      .map(health.judge(group))
      .map(
        ({ isDown, cut }) =>
          `${isDown ? 'd' : 'u'}${cut === undefined ? '' : { down: 'c', backup: 'b' }[cut]}`,
      )
      .join(' ')
  const refusing = async () => ({
    address: testHost,
    port: await freeTcpPort(),
    host: '',
  })
  const serving = async () => {
    const { endpoint } = await tcpBackend(t, socket => void socket.end())
    return { address: testHost, port: endpoint.port, host: '' }
  }
  const group = (effects: CheckEffects, ...endpoints: CheckedGroup['endpoints']) => ({
    name: 'default/web',
    option,
    effects,
    endpoints,
  })
  return { health, turns, states, refusing, serving, group }
}

t.test(
  'groups of one name share the checks, and each knows when all are down',
  async t => {
    const { health, turns, states, refusing, serving, group } = setUp(t)
    const [here, gone] = [await serving(), await refusing()]
    const both = group({}, here, gone)
    const one = group({}, gone)
    health.watch([both, one, both])
    await until('both are known', () =>
      [here, gone].every(
        ({ port }) => health.healthOf(one.name, `${testHost}:${port}`)?.isKnown,
      ),
    )
    t.strictSame(turns, [`default/web ${testHost}:${gone.port} false`])
    t.equal(states(both), 'u d')
    t.equal(states(one), 'u', 'all are, so none is')
    t.equal(states({ ...one, effects: { whenAllDown: 'refuse' } }), 'd')
    health.watch([])
    t.equal(states(both), 'u u')
  },
)

t.test('who is cut and who is picked are two questions', async t => {
  const { health, states, refusing, serving, group } = setUp(t)
  const [here, gone] = [await serving(), await refusing()]
  const last = group({ onDown: 'reset' }, gone)
  health.watch([last])
  await until('it is known', () => states(last) === 'u')
  await until('three checks have said so', () => states(last) === 'uc')
  t.equal(states({ ...last, effects: { onDown: 'reset', whenAllDown: 'refuse' } }), 'dc')
  t.equal(states({ ...last, effects: {} }), 'u')

  const [second, third] = [await serving(), await serving()]
  const backups = [
    { ...second, tier: 1 },
    { ...third, weight: 0 },
  ]
  const tiers = group({ onBack: 'reset' }, here, ...backups)
  health.watch([tiers])
  t.equal(states(tiers), 'u u u', 'not before one that goes before them was asked')
  await until('it was', () => states(tiers) === 'u ub ub')
  t.equal(states({ ...tiers, effects: {} }), 'u u u')
})

t.test('state goes with the endpoint, not with how it is asked', async t => {
  const { health, turns, states, refusing, serving, group } = setUp(t)
  const [here, gone] = [await serving(), await refusing()]
  const role = { check: { expect: 'x' }, rules }
  const asked = (over: object) =>
    ({ ...group({ onDown: 'reset' }, here, gone), ...over }) as CheckedGroup
  const withInit = asked({ option: { ...option, rules: { ...rules, init: 'down' } } })
  health.watch([withInit])
  t.equal(states(withInit), 'd d')
  t.ok(health.awaits(withInit))
  await until('both are known', () => states(withInit) === 'u dc')
  t.notOk(health.awaits(withInit))
  for (const edited of [
    asked({ option: { ...option, rules: { ...rules, fall: 5, init: 'down' } } }),
    asked({ option: role }),
    asked({
      endpoints: [here, gone].map(({ address, port }) => ({ address, port, host: 'db' })),
    }),
    asked({ name: 'default/other' }),
  ]) {
    health.watch([edited])
    t.equal(states(edited), 'u dc', JSON.stringify(edited))
  }
  const added = asked({
    option: { check: role.check, rules: { ...rules, init: 'down' } },
  })
  health.watch([])
  health.watch(
    [added],
    new Set([here, gone].map(({ port }) => `default/web ${testHost}:${port}`)),
  )
  t.equal(states(added), 'u u', 'they were in use')
  turns.length = 0
  await until('they are asked', () => states(added) === 'dc dc')
  t.equal(turns.length, 2)
})

t.test('checks go on while weights and tiers change', async t => {
  const { health, states, refusing, group } = setUp(t)
  const endpoint = await refusing()
  let weight = 0
  const changing = (): CheckedGroup =>
    group({ onDown: 'reset' }, { ...endpoint, tier: weight % 3, weight: (weight += 1) })
  const used = new Set([`default/web ${testHost}:${endpoint.port}`])
  await until('three have found it down', () => {
    health.watch([changing()], used)
    return states(changing()) === 'uc'
  })
})

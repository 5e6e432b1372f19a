import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { mkdirSync, rmdirSync } from 'node:fs'
import t, { type Test } from 'tap'
import { compileExempt, exemptGroups } from '../../../src/kernel/connect-time/tables.ts'
import type { Features } from '../../../src/kernel/connect-time/programs.ts'
import { dataPlaneUser } from '../../../src/kernel/data-plane-user.ts'
import type { ServicePort, Vip } from '../../../src/model/snapshot.ts'
import { missingPrograms } from '../../support/installed.ts'
import { clusterIp } from '../../support/service-ports.ts'
import { type Group, makeGroup, skip as noPrograms } from './group.ts'
import { changesTo, makeStage, makeSteering, serviceTo } from './world.ts'

const skip = noPrograms || missingPrograms('python3', 'ip') || false
const [endpoint, endpoint6, vip, vip6] = [
  '10.244.1.7',
  'fd10:244::7',
  '10.96.0.1',
  'fd10:96::1',
] as const
const mode = 'the mode'
const ECONNREFUSED = 111

/** places.py in the cgroup, and in a network namespace of its own. */
const startPlaces = (t: Test, group: Group, ...before: string[]) => {
  const script = fileURLToPath(new URL('places.py', import.meta.url))
  const line = [...group.prefix('own'), ...before, 'python3', script]
  const child = spawn(line[0] ?? '', line.slice(1), {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  t.teardown(async () => {
    child.stdin.end()
    if (child.exitCode === null) await once(child, 'exit')
  })
  return async (what: string): Promise<unknown> => {
    child.stdin.write(`${what}\n`)
    const { value } = await lines.next()
    return JSON.parse(String(value))
  }
}

const both = (name: string, vips: readonly Vip[], to: readonly [string, number]) => {
  const family = to[0].includes(':') ? ('IPv6' as const) : ('IPv4' as const)
  return (['TCP', 'UDP'] as const).map(protocol =>
    serviceTo(`${name}-${protocol}`, vips, [to], { protocol, family }),
  )
}
const nodePort: Vip = { kind: 'NodePort', address: '0.0.0.0', port: 30080 }
const web: readonly ServicePort[] = [
  ...both('web', [clusterIp(vip), clusterIp('10.96.0.2'), nodePort], [endpoint, 80]),
  ...both('web6', [clusterIp(vip6)], [endpoint6, 80]),
]

const makeServed = async (t: Test, services = web, over: Partial<Features> = {}) => {
  const stage = await makeStage(t, over)
  await stage.serve(...services)
  return { ...stage, ask: startPlaces(t, stage.group) }
}

t.test(
  'a socket that dials its endpoint itself has that as its peer',
  { skip },
  async t => {
    const refuses = { ...clusterIp(vip), port: 81 }
    const { ask, steering } = await makeServed(t, [
      ...web,
      serviceTo('refuses', [refuses], [[endpoint, 81]]),
    ])
    const twice = (led: string, itself: string, peer = led) => [
      [itself.replace('::ffff:', ''), peer],
      [itself.replace('::ffff:', ''), itself],
      itself,
    ]
    t.same(await ask('reconnected'), twice(vip, endpoint))
    t.same(await ask('disconnected'), twice(vip, endpoint))
    t.same(await ask('sent_then_connected'), twice(vip, endpoint))
    t.same(await ask('mapped'), twice(`::ffff:${vip}`, `::ffff:${endpoint}`))
    t.same(await ask('family_of_six'), twice(vip6, endpoint6))
    t.same([...steering.entries('reverse')], [], 'nothing is left that would end them')
    t.same(await ask('sent'), [vip, endpoint, vip, '10.96.0.2', endpoint])
    t.same(await ask('sent_six'), [
      vip6,
      endpoint6,
      `::ffff:${vip}`,
      `::ffff:${endpoint}`,
    ])
    t.same(await ask('refused_then_connected'), [
      ['ConnectionRefusedError', ECONNREFUSED],
      [endpoint, endpoint],
      endpoint,
    ])
    t.same([...steering.entries('peers')], [])
    t.same([...steering.entries('reverse')], [])
    t.same(await ask('sent_beside_its_peer'), [[endpoint, endpoint], endpoint])
    t.same([...steering.entries('reverse')], [], 'nor by a datagram to a VIP')
    t.same(await ask('keeps_its_peer'), [[endpoint, vip], vip])
  },
)

t.test(
  'sockets whose own end does not get there are left to the mode',
  { skip },
  async t => {
    const { ask } = await makeServed(t)
    const [led, mapped, led6] = [
      [endpoint, vip],
      [endpoint, `::ffff:${vip}`],
      [endpoint6, vip6],
    ]
    for (const what of ['own_ends_tcp', 'own_ends_udp'])
      t.same(
        await ask(what),
        {
          none: led,
          node: led,
          loopback: [mode, vip],
          'another of loopback': [mode, vip],
          mapped: [mode, `::ffff:${vip}`],
          'mapped node': mapped,
          link: [mode, vip],
          'none of IPv6': led6,
          'loopback of IPv6': [mode, vip6],
          'node of IPv6': led6,
          wildcard: led,
          'wildcard of IPv6': led6,
          'node port': [mode, '127.0.0.1'],
        },
        what,
      )
    t.same(await ask('devices'), { lo: [mode, vip], 'lo, UDP': [mode, vip] })
    t.same(await ask('sent_from'), [[mode, vip], mode, led])
  },
)

t.test("VIPs of loopback and of a link are each client's own", { skip }, async t => {
  const own = (address: string): Vip => ({ kind: 'LoadBalancerIP', address, port: 80 })
  const vips = ['127.0.0.1', '127.3.3.3', '169.254.1.1'].map(own)
  const { ask } = await makeServed(t, [
    ...both('web', vips, [endpoint, 80]),
    ...both('web6', [own('::1'), own('fe80::1')], [endpoint6, 80]),
  ])
  const found = (await ask('dialled_places')) as Record<string, readonly string[]>
  for (const [where, who] of Object.entries(found)) t.same(who, [mode, mode], where)
  t.equal(Object.keys(found).length, 6)
})

/** Who answers a VIP by TCP and by UDP. */
const [isLed, isLeft] = [
  [endpoint, endpoint],
  [mode, mode],
]

t.test(
  'a process of another PID namespace is left, once it is known',
  { skip },
  async t => {
    const group = await makeGroup()
    const inside = startPlaces(t, group, 'unshare', '--pid', '--fork', '--kill-child')
    const learning = makeSteering(group.path, { learns: true })
    await learning.writer.write(changesTo(web))
    learning.attach()
    t.same(await inside('led'), isLed, 'it is led while a probe looks who it is')
    const [self, ...others] = [...learning.entries('exempt')].map(([key]) => key)
    learning.close()
    if (self === undefined) throw new Error('nothing was learnt')
    t.same(others, [])
    const steering = makeSteering(group.path)
    t.teardown(() => steering.close())
    steering.attach()
    const changes = changesTo(web)
    changes.come(compileExempt(self))
    await steering.writer.write(changes)
    t.same(await inside('led'), isLeft)
    t.same(await startPlaces(t, group)('led'), isLed, 'another process')
  },
)

t.test('the data plane is left by its user', { skip }, async t => {
  const { group, ask } = await makeServed(t)
  t.equal(dataPlaneUser, 2_071_510_256)
  t.same(await startPlaces(t, group)('led_as_data_plane'), isLeft)
  t.same(await ask('led'), isLed)
})

t.test('cgroups that are exempt are left, with those below', { skip }, async t => {
  const { group, steering, ask } = await makeServed(t, web, { exemptsGroups: true })
  const [inner, deep] = [`${group.path}/inner.1(a)`, `${group.path}/inner.1(a)/x/y`]
  mkdirSync(deep, { recursive: true })
  t.teardown(() => [deep, `${inner}/x`, inner].forEach(each => rmdirSync(each)))
  const into = (folder: string) =>
    ['sh', '-c', 'echo $$ > "$0/cgroup.procs" && exec "$@"', folder] as const
  const within = [inner, deep].map(each => startPlaces(t, group, ...into(each)))
  const all = async () => Promise.all([...within, ask].map(each => each('led')))
  const exempt = async (...patterns: string[]): Promise<void> => {
    const changes = changesTo(web)
    for (const pattern of patterns)
      for (const key of exemptGroups(group.path, pattern))
        changes.come(compileExempt(key))
    await steering.writer.writeAll(changes)
  }
  t.same(await all(), [isLed, isLed, isLed])
  await exempt('inner*')
  t.same(await all(), [isLeft, isLeft, isLed])
  await exempt('/inner.1(a)/*/y')
  t.same(await all(), [isLed, isLeft, isLed])
  await exempt('inner', 'inner.?(a)', 'cgroup.procs', 'none/*')
  t.same(await all(), [isLed, isLed, isLed], 'no group has such a name')
  await exempt('')
  t.same(await all(), [isLeft, isLeft, isLeft], 'all')
})

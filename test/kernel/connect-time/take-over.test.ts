import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type BpfCall, loadBpfCall } from '../../../src/ffi/bpf-call.ts'
import { Bpf } from '../../../src/kernel/bpf/bpf.ts'
import { filePins, type Pins } from '../../../src/kernel/bpf/pins.ts'
import { makeBpffs } from '../../support/bpffs.ts'
import { clusterIp } from '../../support/service-ports.ts'
import { until } from '../../support/until.ts'
import { makeGroup, skip } from './group.ts'
import { changesTo, endpointsAt, makeSteering, serviceTo, type To } from './world.ts'

const makeFolder = (): string => join(makeBpffs(), 'usher')

/** What a process does from its start to its end; the kernel is asked so many times, then it is killed. */
const run = async (
  cgroup: string,
  pinsOf: (bpf: Bpf) => Pins,
  to: To,
  calls = Number.POSITIVE_INFINITY,
): Promise<'done' | 'killed'> => {
  const real = loadBpfCall()
  let left = calls
  const call: BpfCall = {
    allocate: bytes => real.allocate(bytes),
    call: (...given) => {
      left -= 1
      if (left < 0) throw new Error('killed')
      return real.call(...given)
    },
  }
  const bpf = new Bpf(call)
  let end = () => {}
  try {
    const steering = makeSteering(cgroup, { bpf, pins: pinsOf(bpf) })
    end = () => steering.close()
    const web = serviceTo('web', [clusterIp('10.96.0.1')], to, { affinityMs: 1000 })
    await steering.writer.writeAll(changesTo([web]))
    steering.attach()
    return 'done'
  } catch (error) {
    if ((error as Error).message === 'killed') return 'killed'
    throw error
  } finally {
    end()
  }
}

t.test(
  'a start, killed at every step, leaves what the next takes over',
  { skip },
  async t => {
    const { path, client } = await makeGroup()
    const here = await client()
    const folder = makeFolder()
    const pins = (bpf: Bpf) => filePins(bpf, folder)
    const old = await endpointsAt(here, '127.0.0.11', '127.0.0.12')
    const next = await endpointsAt(here, '127.0.0.13')
    const dial = async () => {
      const { said, error } = await here.tcp('10.96.0.1', 80)
      return said?.split(' ')[0] ?? error
    }
    t.equal(await dial(), 'ENETUNREACH')
    t.equal(await run(path, pins, old), 'done')
    t.match(await dial(), /^127.0.0.1[12]$/, 'led by a process that has ended')
    let calls = 0
    for (; ; calls += 1) {
      const end = await run(path, pins, next, calls)
      const seen = await dial()
      if (end === 'done') {
        t.equal(seen, '127.0.0.13')
        break
      }
      t.match(seen, /^127.0.0.1[123]$/, `killed after ${calls} calls`)
      t.equal(await run(path, pins, old), 'done')
      t.match(await dial(), /^127.0.0.1[12]$/)
    }
    t.ok(calls > 30, `${calls} steps`)
  },
)

t.test('another layout takes the place of the one before', { skip }, async t => {
  const { path, client } = await makeGroup()
  const here = await client()
  const folder = makeFolder()
  const named =
    (name: string) =>
    (bpf: Bpf): Pins => {
      const { open, has, path: pathOf, removeOthers } = filePins(bpf, folder)
      return {
        open: (layout, ...rest) => open(`${layout}-${name}`, ...rest),
        has: (layout, ...rest) => has(`${layout}-${name}`, ...rest),
        path: (layout, ...rest) => pathOf(`${layout}-${name}`, ...rest),
        removeOthers: layout => removeOthers(`${layout}-${name}`),
      }
    }
  const [a, b] = await endpointsAt(here, '127.0.0.11', '127.0.0.12')
  if (a === undefined || b === undefined) throw new Error('none')
  await run(path, named('one'), [a])
  t.match(await here.tcp('10.96.0.1', 80), { said: /^127.0.0.11 / })
  await run(path, named('two'), [b])
  // The kernel takes a link whose file has gone from its hook a moment later.
  await until('the new one leads', async () => {
    const { said, error } = await here.tcp('10.96.0.1', 80)
    t.match(said ?? error, /^127.0.0.1[12] /, 'one of them leads all the time')
    return said?.startsWith('127.0.0.12 ') === true
  })
  t.match(await here.tcp('10.96.0.1', 80), { said: /^127.0.0.12 /, peer: '10.96.0.1 80' })
  t.equal(readdirSync(folder).length, 1)
})

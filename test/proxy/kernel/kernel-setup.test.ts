import t from 'tap'
import { KernelSetup } from '../../../src/proxy/kernel/kernel-setup.ts'
import { UnrememberedError } from '../../../src/kernel/sysctls.ts'
import type { WantedSysctl } from '../../../src/proxy/kernel/wanted-sysctls.ts'

/** Settings that are written down, and refused when they are to be. */
const setUp = (...wanted: WantedSysctl[]) => {
  const values = new Map<string, string>()
  const refused = new Map<string, string>()
  const told: string[] = []
  const sets: string[] = []
  const tried: string[] = []
  const memory = { isKept: true }
  const setup = new KernelSetup({
    sysctls: {
      set: async (name, value, { mustBeRemembered = false } = {}) => {
        if (mustBeRemembered && !memory.isKept) throw new UnrememberedError('no memory')
        tried.push(name)
        const why = refused.get(name)
        if (why !== undefined) throw new Error(why)
        sets.push(`${name}=${value}`)
        values.set(name, value)
      },
      read: async name => values.get(name),
      remembered: async () =>
        Array.from(values, ([name, set]) => ({ name, before: '0', set })),
      putBack: async ({ name, before }) => {
        const why = refused.get(name)
        if (why !== undefined) throw new Error(why)
        sets.push(`${name}=${before}`)
        values.delete(name)
      },
    },
    wanted: () => wanted,
    failed: (name, value, why) => told.push(`${name}=${value}: ${why}`),
  })
  return { setup, values, refused, told, sets, tried, memory }
}

t.test('what is set is not set again until another value is wanted', async t => {
  const sysctl = { name: 'a', value: '1' }
  const { setup, sets } = setUp(sysctl)
  await setup.prepare()
  await setup.prepare()
  t.strictSame(sets, ['a=1'])
  sysctl.value = '2'
  await setup.prepare()
  t.strictSame(sets, ['a=1', 'a=2'])
  t.ok(setup.has('a'))
})

t.test('what can’t be set is told once, and done without', async t => {
  const { setup, refused, told, sets } = setUp(
    { name: 'a', value: '1' },
    { name: 'b', value: '1' },
  )
  refused.set('a', 'read-only file system')
  await setup.prepare()
  t.strictSame([told, sets], [[], ['b=1']], 'conntrack may come with the first rule')
  for (let more = 3; more > 0; more -= 1) await setup.prepare()
  t.strictSame(told, ['a=1: read-only file system'])
  t.notOk(setup.has('a'))
})

t.test('what fails is tried ever more rarely, and set when it can be', async t => {
  const { setup, refused, sets, tried } = setUp({ name: 'a', value: '1' })
  refused.set('a', 'read-only file system')
  for (let syncs = 0; syncs < 1000; syncs += 1) await setup.prepare()
  t.ok(tried.length >= 1000 / 64 && tried.length < 25, `${tried.length} times`)
  refused.clear()
  for (let syncs = 0; syncs < 64; syncs += 1) await setup.prepare()
  t.strictSame(sets, ['a=1'])
})

t.test('a number that is large enough stays', async t => {
  const { setup, values, sets } = setUp({ name: 'size', value: '100', atLeast: true })
  values.set('size', '200')
  await setup.prepare()
  t.strictSame(sets, [])
  t.ok(setup.has('size'), 'an earlier process may have set it: it is no leftover')
})

t.test('what goes with a number that was large enough is set all the same', async t => {
  const { setup, values, sets } = setUp(
    { name: 'max', value: '100', atLeast: true },
    { name: 'size', value: '25', atLeast: true, needs: 'max' },
  )
  values.set('max', '200')
  await setup.prepare()
  t.strictSame(sets, ['size=25'])
})

t.test('what a mode sets by itself is its own, too', async t => {
  const { setup, refused } = setUp()
  await setup.set('net/ipv4/vs/conntrack', '1')
  t.ok(setup.has('net/ipv4/vs/conntrack'))
  refused.set('x', 'no')
  await t.rejects(setup.set('x', '1'), /no/)
  t.notOk(setup.has('x'))
})

t.test('what opens the node is set with its guard, and taken back without', async t => {
  const open = { name: 'open', value: '1', guarded: 'open' } as const
  const { setup, sets, refused, told } = setUp({ name: 'a', value: '1' }, open)
  await setup.prepare()
  t.strictSame(sets.splice(0), ['a=1'])
  await setup.guard(true)
  await setup.guard(true)
  t.strictSame(sets.splice(0), ['open=1'])
  t.ok(setup.has('open'))
  await setup.guard(false)
  await setup.guard(false)
  t.strictSame(sets.splice(0), ['open=0'])
  t.notOk(setup.has('open'))
  await setup.guard(true)
  refused.set('open', 'read-only')
  await setup.guard(false)
  t.strictSame(told, ["open=1: it can't be taken back: read-only"])
})

t.test('what opens the node is taken back once it is not wanted', async t => {
  const open = { name: 'open', value: '1', guarded: 'open' as WantedSysctl['guarded'] }
  const { setup, sets } = setUp(open as WantedSysctl)
  await setup.guard(true)
  open.guarded = 'shut'
  await setup.guard(true)
  await setup.guard(true)
  t.strictSame(sets, ['open=1', 'open=0'])
  t.notOk(setup.has('open'))
})

t.test('what opens the node and nobody could take back is a problem', async t => {
  const { setup, sets, memory } = setUp({ name: 'open', value: '1', guarded: 'open' })
  memory.isKept = false
  await setup.guard(true)
  t.strictSame(sets, [])
  t.strictSame(setup.refused(), [
    { object: 'setting open', field: '', message: 'no memory' },
  ])
  memory.isKept = true
  await setup.guard(true)
  t.strictSame([sets, setup.refused()], [['open=1'], []])
})

t.test('what makes sense only with another is not set without it', async t => {
  const { setup, refused, sets } = setUp(
    { name: 'max', value: '1' },
    { name: 'size', value: '1', needs: 'max' },
  )
  refused.set('max', 'not of this namespace')
  await setup.prepare()
  t.strictSame(sets, [])
  refused.clear()
  await setup.prepare()
  t.strictSame(sets, ['max=1', 'size=1'])
})

t.test('an end puts back what was set, but for limits', async t => {
  const { setup, values } = setUp(
    { name: 'most', value: '9', atLeast: true },
    { name: 'flag', value: '1' },
  )
  await setup.prepare()
  t.strictSame([...values.keys()], ['most', 'flag'])
  await setup.undo()
  t.strictSame([...values.keys()], ['most'], 'there may be more than there were before')
})

import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cleanUp } from '../../src/kernel/cleanup/clean-up.ts'
import { hostSysctls } from '../../src/kernel/sysctls.ts'
import { sysctlsKind } from '../../src/kernel/cleanup/host-kinds.ts'

import t, { type Test } from 'tap'

const forward = 'net/ipv4/ip_forward'
const local = 'net/ipv4/conf/all/route_localnet'
const bootId = 'kernel/random/boot_id'

/** Files in place of /proc/sys and /run/usher. */
const setUp = (t: Test) => {
  const directory = t.testdir({})
  const root = join(directory, 'sys')
  mkdirSync(join(root, 'net/ipv4/conf/all'), { recursive: true })
  const put = (name: string, value: string) =>
    writeFileSync(join(root, name), `${value}\n`)
  put(forward, '0')
  put(local, '0')
  mkdirSync(join(root, 'kernel/random'), { recursive: true })
  put(bootId, 'first')
  const memory = join(directory, 'run/usher/sysctls.json')
  const make = () => hostSysctls({ root, memory: async () => memory })
  const at = (name: string) => readFileSync(join(root, name), 'utf8').trim()
  return { put, at, make, memory }
}

t.test('a setting is put back as it was found, by another process too', async t => {
  const { make, at } = setUp(t)
  await make().set(forward, '1')
  await make().set(forward, '2')
  t.equal(at(forward), '2')
  const kinds = [sysctlsKind(make())]
  const lines = [`setting ${forward} = 2, which goes back to 0`]
  t.match(await cleanUp(kinds, { dryRun: true }), { gone: lines, stayed: [] })
  t.equal(at(forward), '2')
  t.match(await cleanUp(kinds, { dryRun: false }), { gone: lines, stayed: [] })
  t.equal(at(forward), '0')
  t.match(await cleanUp(kinds, { dryRun: false }), { gone: [], stayed: [] })
})

t.test('what was right already, or was changed since, is not put back', async t => {
  const { make, put } = setUp(t)
  put(forward, '1')
  await make().set(forward, '1')
  t.strictSame(await make().remembered(), [])
  await make().set(local, '1')
  put(local, '2')
  t.strictSame(await make().remembered(), [], 'somebody else has set it since')
  await make().set(local, '1')
  t.match(await make().remembered(), [{ name: local, before: '2', set: '1' }])
})

t.test('a memory from before a restart of the host says nothing', async t => {
  const { make, put, at } = setUp(t)
  await make().set(forward, '1')
  put(bootId, 'second')
  t.strictSame(await make().remembered(), [], 'somebody else has set it since')
  await make().set(forward, '2')
  t.match(await make().remembered(), [{ name: forward, before: '1', set: '2' }])
  await cleanUp([sysctlsKind(make())], { dryRun: false })
  t.equal(at(forward), '1')
})

t.test('what runs keeps its settings', async t => {
  const { make, at } = setUp(t)
  await make().set(forward, '1')
  await make().set(local, '1')
  const kinds = [sysctlsKind(make(), name => name === forward)]
  await cleanUp(kinds, { dryRun: false })
  t.strictSame([at(forward), at(local)], ['1', '0'])
})

t.test('a kernel that lacks a setting says so, and nothing is remembered', async t => {
  const { make } = setUp(t)
  await t.rejects(make().set('net/ipv4/vs/conntrack', '1'), /this kernel has no net/)
  t.strictSame(await make().remembered(), [])
})

t.test('two settings at once are both remembered', async t => {
  const { make } = setUp(t)
  const sysctls = make()
  await Promise.all([sysctls.set(forward, '1'), sysctls.set(local, '1')])
  const names = (await make().remembered()).map(({ name }) => name)
  t.strictSame(names.toSorted(), [local, forward].toSorted())
})

t.test('where nothing can be written down, the process itself remembers', async t => {
  const { make, at, memory } = setUp(t)
  // In the place of the file that is written.
  mkdirSync(`${memory}.new`, { recursive: true })
  const sysctls = make()
  await t.rejects(
    sysctls.set(local, '1', { mustBeRemembered: true }),
    /route_localnet is not set: it opens the node.*run\/usher\/sysctls.json .*make .* writable/,
  )
  t.equal(at(local), '0')
  await sysctls.set(forward, '1')
  t.equal(at(forward), '1')
  t.strictSame(await make().remembered(), [])
  await cleanUp([sysctlsKind(sysctls)], { dryRun: false })
  t.equal(at(forward), '0')
  t.strictSame(await sysctls.remembered(), [])
})

t.test('a memory that was deleted is no reason to forget', async t => {
  const { make, at, memory } = setUp(t)
  const sysctls = make()
  await sysctls.set(local, '1', { mustBeRemembered: true })
  rmSync(memory)
  const [known] = await sysctls.remembered()
  t.match(known, { name: local, before: '0' })
  await cleanUp([sysctlsKind(sysctls)], { dryRun: false })
  t.equal(at(local), '0')
})

t.test('a memory that is not Usher’s says nothing', async t => {
  const { make, memory, at } = setUp(t)
  await make().set(forward, '1')
  const passwd = { name: '/etc/passwd', before: 'x', set: 'y' }
  const up = { name: 'net/../../x', before: 'x', set: 'y' }
  const withThem = JSON.stringify({ boot: 'first', sysctls: [1, passwd, up] })
  for (const text of ['', '{', '{}', '[1]', 'null', '{"sysctls":1}', withThem]) {
    writeFileSync(memory, text)
    t.strictSame(await make().remembered(), [], text)
  }
  await make().set(forward, '2')
  t.equal(at(forward), '2')
  t.match(await make().remembered(), [{ before: '1', set: '2' }])
})

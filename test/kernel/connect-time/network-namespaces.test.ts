import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  holdNamespace,
  networkNamespaces,
} from '../../../src/kernel/connect-time/network-namespaces.ts'
import { makeNetns, netnsProblem } from '../../support/netns.ts'

const why = await netnsProblem('ip')
const skip = why === '' ? false : why
const own = '/proc/self/ns/net'

const makeFolders = (t: Test) => {
  const folder = mkdtempSync(join(tmpdir(), 'usher-namespaces-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const [processes, named] = [join(folder, 'proc'), join(folder, 'netns')]
  for (const each of [processes, named]) mkdirSync(each)
  const addProcess = (pid: number | string, to: string): void => {
    mkdirSync(join(processes, String(pid), 'ns'), { recursive: true })
    symlinkSync(to, join(processes, String(pid), 'ns/net'))
  }
  const addName = (name: string, to: string): void => symlinkSync(to, join(named, name))
  return { folders: { processes, named }, addProcess, addName }
}

t.test('each namespace is found once', { skip }, async t => {
  const { folders, addProcess, addName } = makeFolders(t)
  const { name } = await makeNetns('found')
  const other = join('/run/netns', name)
  addProcess(1, own)
  addProcess(2, other)
  addProcess(3, own)
  addProcess(4, '/proc/0/ns/net')
  addProcess('self', own)
  addName('pod', other)
  addName('bound', other)
  writeFileSync(join(folders.named, 'left over'), '')
  const { namespaces, hidden } = await networkNamespaces(folders)
  t.same(hidden, [])
  t.same(
    namespaces
      .map(
        ({ isOwn, processes, names }) => `${isOwn} ${processes.length} ${names.length}`,
      )
      .toSorted(),
    ['false 1 2', 'true 2 0'],
  )
  const held = namespaces.find(({ isOwn }) => !isOwn)
  if (held === undefined) throw new Error('none')
  const { ino } = await stat(other)
  t.match(await holdNamespace(held, path => stat(path)), { ino })
})

t.test('a file that leads elsewhere by now is passed over', { skip }, async t => {
  const { folders, addProcess } = makeFolders(t)
  const { name } = await makeNetns('moved')
  const other = join('/run/netns', name)
  for (const pid of [1, 2, 3]) addProcess(pid, other)
  const {
    namespaces: [one],
  } = await networkNamespaces(folders)
  if (one === undefined) throw new Error('none')
  const replace = (pid: number, to?: string): void => {
    rmSync(join(folders.processes, String(pid)), { recursive: true })
    if (to !== undefined) addProcess(pid, to)
  }
  replace(1)
  replace(2, own)
  const { ino } = await stat(other)
  t.match(await holdNamespace(one, path => stat(path)), { ino })
  replace(3, own)
  t.equal(await holdNamespace(one, path => stat(path)), undefined)
  await t.rejects(
    holdNamespace({ ...one, names: [other] }, () => Promise.reject(new Error('use'))),
    { message: 'use' },
  )
})

t.test('folders that are not there', async t => {
  const { folders } = makeFolders(t)
  t.same((await networkNamespaces({ ...folders, named: '/nonexistent' })).namespaces, [])
  await t.rejects(networkNamespaces({ ...folders, processes: '/nonexistent' }))
})

t.test('many processes do not hold the event loop', async t => {
  const { folders, addProcess } = makeFolders(t)
  for (let pid = 1; pid <= 1000; pid += 1) addProcess(pid, own)
  let [turns, isDone] = [0, false]
  const turn = (): void => {
    turns += 1
    if (!isDone) setImmediate(turn)
  }
  setImmediate(turn)
  const { namespaces } = await networkNamespaces(folders)
  isDone = true
  t.equal(namespaces[0]?.processes.length, 1000)
  // Eight files are looked at together.
  t.ok(turns > 1000 / 8, `${turns} turns of the event loop`)
})

t.test('no descriptor is left open', { skip }, async t => {
  const { folders, addProcess } = makeFolders(t)
  addProcess(1, own)
  const {
    namespaces: [one],
  } = await networkNamespaces(folders)
  if (one === undefined) throw new Error('none')
  const numbers = new Set<string>()
  for (let i = 0; i < 20; i += 1)
    await holdNamespace(one, path => Promise.resolve(void numbers.add(path)))
  t.ok(numbers.size < 3, 'the same number again')
})

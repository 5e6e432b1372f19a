import { rename, rm, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Change } from '../../../src/model/service.ts'
import type { Problem } from '../../../src/model/snapshot.ts'
import { ListFiles } from '../../../src/source/routes/list-files.ts'
import { readRoutes } from '../../../src/source/routes/read-routes.ts'
import type { Resolved } from '../../../src/source/routes/place.ts'
import { parseRoute } from '../../../src/source/routes/route-flag.ts'
import { watchedRoutes } from '../../../src/source/routes/watched-routes.ts'
import { UsherError } from '../../../src/util/usher-error.ts'
import { until } from '../../support/until.ts'

const one = 'routes:\n  - {name: a, listen: tcp://127.0.0.1:1, endpoints: [10.0.0.1:1]}\n'
const both = `${one}  - {name: b, listen: tcp://127.0.0.1:2, endpoints: [10.0.0.2:2]}\n`
const fixed = [parseRoute('tcp://127.0.0.1:9=10.0.0.9:9?name=flag')]

/** A source that has read `text`, and looks at the file all the time. */
const fixture = async (
  t: Test,
  text: string,
  resolve?: (host: string) => Promise<Resolved>,
) => {
  const path = `${t.testdir({ 'routes.yaml': text })}/routes.yaml`
  const { routes, faults } = await readRoutes(text, fixed)
  t.strictSame(faults, [])
  const batches: (readonly Change[])[] = []
  const unusable: string[] = []
  const taken: string[][] = []
  let problems: readonly Problem[] = []
  const source = watchedRoutes({
    path,
    fixed,
    text,
    routes,
    lists: new ListFiles({ pollMs: 5 }),
    pollMs: 5,
    ...(resolve !== undefined && { resolve }),
    onTaken: now => taken.push(now.map(({ name }) => name)),
    onUnusable: reason => unusable.push(reason),
  })
  t.teardown(() => source.close())
  await source.start({
    apply: changes => void batches.push(changes),
    synced: () => {},
    problems: now => (problems = now),
  })
  return {
    source,
    path,
    batches,
    unusable,
    taken,
    write: (now: string) => writeFile(path, now),
    problems: () => problems,
    names: (batch: number) =>
      batches[batch]?.map(
        ({ kind, name, object }) => `${object ? '+' : '-'} ${kind} ${name}`,
      ),
  }
}

t.test('what changed in the file is handed on, and nothing else', async t => {
  const f = await fixture(t, one)
  t.strictSame(f.names(0), [
    '+ Service flag',
    '+ EndpointSlice flag.0',
    '+ Service a',
    '+ EndpointSlice a.0',
  ])
  t.match(f.source.status(), { name: `routes ${f.path}`, synced: true, error: '' })
  await f.write(both)
  await until('the second route', () => f.batches.length === 2)
  t.strictSame(f.names(1), ['+ Service b', '+ EndpointSlice b.0'])
  await f.write(both.replace('10.0.0.2:2', '10.0.0.3:3'))
  await until('other endpoints', () => f.batches.length === 3)
  t.strictSame(f.names(2), ['+ EndpointSlice b.0'])
  await f.write(
    both.replace(/ {2}- {name: a.*\n/, '').replace('10.0.0.2:2', '10.0.0.3:3'),
  )
  await until('the route that is gone', () => f.batches.length === 4)
  t.strictSame(f.names(3), ['- Service a', '- EndpointSlice a.0'])
  t.strictSame(f.taken, [['a', 'b'], ['a', 'b'], ['b']])
  t.strictSame([f.unusable, f.problems()], [[], []])
})

t.test('another text that means the same is no change', async t => {
  const f = await fixture(t, one)
  await f.write(`# a comment\n${one}`)
  await f.write(`${one}x: 1\n`)
  await until('it has been looked at', () => f.unusable.length === 1)
  await f.write(`# another\n${one}`)
  await until('it is taken', () => f.source.status().error === '')
  t.strictSame([f.batches.length, f.taken], [1, []])
})

t.test('a bad file leaves the old routes, and says so until it is mended', async t => {
  const f = await fixture(t, one)
  const goodAt = (): number => f.source.status().lastGoodAt ?? 0
  const good = goodAt()
  await until('it is looked at and good', () => goodAt() > good)
  await f.write(one.replace('10.0.0.1:1', '10.0.0.1'))
  await until('the fault', () => f.unusable.length === 1)
  const message =
    '"10.0.0.1" is not HOST:PORT with a port from 1 to 65535, like 10.0.0.5:5432, [fd00::5]:5432, db.example:5432, srv:NAME for a name with SRV records, or unix:/PATH'
  t.strictSame(f.unusable, [`line 2: routes[0].endpoints[0]: ${message}`])
  t.strictSame(f.problems(), [
    { object: f.path, field: 'line 2: routes[0].endpoints[0]', message },
  ])
  t.match(
    f.source.status().error,
    `${f.path}: line 2: routes[0].endpoints[0]: "10.0.0.1"`,
  )
  const bad = goodAt()
  await sleep(50)
  t.equal(goodAt(), bad, 'the routes in force are no more what the file says')
  await rm(f.path)
  await until('the file is gone', () => f.unusable.length === 2)
  t.equal(f.unusable[1], 'there is no such file or directory')
  t.equal(f.batches.length, 1, 'nothing has changed')
  await f.write(`${one}  - {listen: tcp://127.0.0.1:9, endpoints: [b:1]}\n`)
  await until('a clash with the flag', () => f.unusable.length === 3)
  t.match(
    f.unusable[2],
    'line 3: routes[1].listen: tcp://127.0.0.1:9 is taken by route "tcp',
  )
  await f.write(one)
  await until('all is well', () => f.source.status().error === '')
  t.strictSame([f.problems(), f.batches.length], [[], 1])
})

t.test('a file that is written slowly is not read in the middle', async t => {
  const f = await fixture(t, both)
  for (let end = 0; end < both.length; end += 40) {
    await f.write(both.slice(0, end))
    await new Promise(resolve => setTimeout(resolve, 20))
  }
  await f.write(both.replace('10.0.0.2:2', '10.0.0.3:3'))
  await until('the end', () => f.batches.length > 1)
  t.strictSame(f.names(1), ['+ EndpointSlice b.0'])
})

t.test('a file that is put in its place is seen, and one beside it is not', async t => {
  const f = await fixture(t, one)
  await writeFile(`${f.path}.new`, both)
  await rename(`${f.path}.new`, f.path)
  await until('the other file', () => f.batches.length === 2)
  t.strictSame(f.taken, [['a', 'b']])
})

t.test('reload looks at once, however rarely it looks by itself', async t => {
  const path = `${t.testdir({ 'routes.yaml': one })}/routes.yaml`
  const { routes } = await readRoutes(one)
  let batches = 0
  const lists = new ListFiles()
  const source = watchedRoutes({ path, fixed: [], text: one, routes, lists, pollMs: 1e9 })
  t.teardown(() => source.close())
  await source.start({
    apply: () => void (batches += 1),
    synced: () => {},
    problems: () => {},
  })
  await writeFile(path, both)
  source.reload()
  await until('the change', () => batches === 2)
  source.reload()
  source.reload()
  await source.close()
})

t.test('new names are looked up before the new routes are in force', async t => {
  let give: (found: Resolved) => void = () => {}
  const answer = new Promise<Resolved>(resolve => (give = resolve))
  const asked: string[] = []
  const f = await fixture(t, one.replace('10.0.0.1', 'old'), async host => {
    asked.push(host)
    return host === 'old' ? { addresses: ['10.0.0.1'], ttlMs: 3e5 } : answer
  })
  await f.write(one.replace('10.0.0.1', 'new'))
  await until('the question', () => asked.includes('new'))
  t.equal(f.batches.length, 1)
  give({ addresses: ['10.0.0.2'], ttlMs: 3e5 })
  await until('the answer', () => f.batches.length === 2)
  t.strictSame(f.names(1), ['+ EndpointSlice a.0'])
  t.match(f.batches[1], [{ object: { endpoints: [{ address: '10.0.0.2' }] } }])
  f.source.reload()
  await until(
    'all are asked again',
    () => asked.filter(host => host === 'new').length === 2,
  )
  t.equal(asked.filter(host => host === 'old').length, 1, 'the old name is not')
})

t.test('a new name that does not answer holds up nothing else', async t => {
  const mute = () => new Promise<Resolved>(() => {})
  const f = await fixture(t, one, mute)
  const route = (name: string, port: number, endpoint: string) =>
    `  - {name: ${name}, listen: tcp://127.0.0.1:${port}, endpoints: [${endpoint}], affinity: 1s}\n`
  const began = performance.now()
  await f.write(
    `routes:\n${route('a', 1, 'mute-a:1')}${route('b', 2, 'mute-b:1')}${route('c', 3, '10.0.0.3:3')}`,
  )
  await until('it is taken', () => f.taken.length === 1)
  t.ok(performance.now() - began < 5000, 'before the name has failed')
  const endpoints = f.batches
    .flat()
    .flatMap(({ name, kind, object }) =>
      kind === 'EndpointSlice'
        ? [[name, object?.endpoints.map(({ address }) => address)]]
        : [],
    )
  t.match(Object.fromEntries(endpoints), {
    'a.0': ['10.0.0.1'],
    'b.0': [],
    'c.0': ['10.0.0.3'],
  })
  const a = f.batches
    .flat()
    .findLast(({ name, kind }) => kind === 'Service' && name === 'a')
  t.match(a?.object, { affinityMs: 1000 }, 'all but its endpoints is in force')
  t.match(f.problems(), [
    {
      field: 'endpoint "mute-a:1"',
      message: /no answer yet; still using the previous endpoints/,
    },
    { field: 'endpoint "mute-b:1"', message: /no answer yet$/ },
  ])
})

t.test('a name that can not be found out takes no endpoints away', async t => {
  const state: { answer: () => Promise<Resolved> } = {
    answer: () => Promise.reject(new Error('SERVFAIL')),
  }
  const f = await fixture(t, one, () => state.answer())
  await f.write(one.replace('10.0.0.1:1', 'db:1'))
  await until('it is taken', () => f.taken.length === 1)
  t.equal(f.batches.length, 1, 'nothing changed')
  t.match(f.problems(), [
    { message: /cannot resolve db: SERVFAIL; still using the previous endpoints/ },
  ])
  state.answer = async () => ({ addresses: ['10.0.0.7'], ttlMs: undefined })
  f.source.reload()
  await until('it is known', () => f.batches.length === 2)
  t.match(f.batches[1], [{ object: { endpoints: [{ address: '10.0.0.7' }] } }])
  t.strictSame(f.problems(), [])
  state.answer = () => Promise.reject(new UsherError('NOT_FOUND', 'NXDOMAIN'))
  await f.write(one.replace('10.0.0.1:1', 'none:1'))
  await until('there is no such name', () => f.batches.length === 3)
  t.match(f.batches[2], [{ object: { endpoints: [] } }])
})

t.test('a file of clients that is not there yet', async t => {
  const f = await fixture(t, one)
  const list = `${f.path}.txt`
  await f.write(one.replace('name: a', `name: a, deny: ['file:${list}']`))
  await until('it is refused', () => f.unusable.length > 0)
  t.match(f.unusable, [/routes\.yaml\.txt: there is no such file/])
  t.match(f.problems(), [{ field: /txt$/, message: /no such file/ }])
  await writeFile(list, '10.0.0.0/33\n')
  await until('it is refused for what it says', () => f.unusable.length > 1)
  t.match(f.unusable[1], /routes\.yaml\.txt: line 1: "10\.0\.0\.0\/33" is not an address/)
  await writeFile(list, '10.0.0.0/8\n')
  await until('both are taken', () => f.taken.length > 0)
  t.strictSame(f.problems(), [])
  t.equal(f.unusable.length, 2, 'each reason is told once')
  const clients = () => f.batches.at(-1)?.find(({ kind }) => kind === 'Service')?.object
  t.match(clients(), { clients: { deny: [{ ipv4: { length: 2 } }] } })
  const before = f.batches.length
  await writeFile(list, '# two\n10.0.0.0/8\n192.0.2.1 # one\n')
  await until('a list that changes is a change', () => f.batches.length > before)
  t.match(clients(), { clients: { deny: [{ ipv4: { length: 4 } }] } })
  await writeFile(list, 'x\n')
  await until('a bad one is a problem', () => f.problems().length > 0)
  t.match(f.problems(), [
    { object: list, message: /line 1: "x" is not .* keeping the old one/ },
  ])
  t.match(f.source.status().error, /line 1: "x"/)
  t.equal(f.batches.length, before + 1, 'and changes nothing')
})

t.test('a file that is put back as it was is refused no more', async t => {
  const f = await fixture(t, one)
  const goodAt = (): number => f.source.status().lastGoodAt ?? 0
  for (const wrong of [
    one.replace('name: a', `name: a, deny: ['file:${f.path}.txt']`),
    `${one}x: 1\n`,
  ]) {
    const before = f.unusable.length
    await f.write(wrong)
    await until('it is refused', () => f.unusable.length > before)
    await sleep(50)
    t.equal(f.unusable.length, before + 1, 'its reason is told once')
    const bad = goodAt()
    await f.write(one)
    await until('all is well', () => f.source.status().error === '')
    await until('it is looked at and good', () => goodAt() > bad)
    t.strictSame([f.problems(), f.taken, f.batches.length], [[], [], 1])
  }
})

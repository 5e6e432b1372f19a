// A process of its own: memory is measured.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import {
  FirstSight,
  type ManifestSet,
} from '../../../src/source/manifests/read-manifests.ts'
import { manifestSource } from '../../../src/source/manifests/manifest-source.ts'
import { readApart } from '../../../src/source/manifests/read-apart.ts'
import { until } from '../../support/until.ts'

const service = (name: string, port: number | string = 80): string =>
  [
    'apiVersion: v1',
    'kind: Service',
    `metadata: {name: ${name}}`,
    `spec: {clusterIP: 10.96.0.10, ports: [{port: ${port}}]}`,
    '',
  ].join('\n')

/** More than what is read in this process. */
const padding = `# ${'x'.repeat(70_000)}\n`

const read = async (
  t: Test,
  files: Record<string, string>,
  signal = new AbortController().signal,
): Promise<ManifestSet> => {
  const set = await readApart([t.testdir(files)], signal)
  const firstSight = new FirstSight()
  return { ...set, objects: set.objects.map(object => firstSight.numbered(object)) }
}

/** The readers that this process has started and that are there still. */
const readers = (): string[] => {
  const me = `/proc/${process.pid}/task/${process.pid}/children`
  return readFileSync(me, 'utf8').split(' ').filter(isReader)
}

const isReader = (pid: string): boolean => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('manifest-reader')
  } catch {
    // It has ended.
    return false
  }
}

t.test('much is read as little is', async t => {
  const text = [service('a'), service('b', 70_000), service('a'), 'kind: x'].join('---\n')
  const little = await read(t, { 'a.yaml': text, 'b.yaml': service('c') })
  const much = await read(t, {
    'a.yaml': text,
    'b.yaml': service('c'),
    'c.yaml': padding,
  })
  t.equal(much.files, 3)
  t.strictSame({ ...much, files: 2 }, little)
  t.match(much.objects, [
    { key: 'Service default/a', changes: [{ object: { createdAt: 1 } }] },
    { key: 'Service default/c', changes: [{ object: { createdAt: 2 } }] },
  ])
  t.strictSame([...much.refused], ['Service default/b'])
})

t.test('one long document does not hold up the event loop', async t => {
  const items = Array.from({ length: 100_000 }, (_, i) => `- !t${i} x`)
  let last = performance.now()
  let longest = 0
  const timer = setInterval(() => {
    longest = Math.max(longest, performance.now() - last)
    last = performance.now()
  }, 1)
  t.teardown(() => clearInterval(timer))
  const started = performance.now()
  const set = await read(t, { 'a.yaml': `a:\n${items.join('\n')}` })
  const took = performance.now() - started
  // A turn for the timer, which is late if the reading was what held it up.
  await sleep(5)
  t.match(set.unreadable, [{ message: /^has no apiVersion/ }])
  t.ok(longest < took / 5, `${longest} ms of ${took} ms at a time`)
})

t.test('many objects come in parts', async t => {
  const names = Array.from({ length: 1001 }, (_, i) => `web-${i}`)
  const text = names.map(name => service(name)).join('---\n')
  const bad = names.map(name => service(`bad-${name}`, 0)).join('---\n')
  const set = await read(t, { 'a.yaml': text, 'b.yaml': bad })
  t.strictSame(
    set.objects.map(({ key }) => key),
    names.map(name => `Service default/${name}`),
  )
  t.equal(set.refused.size, 1001)
  t.equal(set.problems.length, 1001)
  t.match(set.problems.at(-1), { message: /^1 more problems/ })
})

/** 40 MB, and 215 bytes of memory for each object: small ones would keep V8 busy for far longer. */
const tooMuch = (): string => `[${'{"499":0},'.repeat(4_000_000)}1]`

t.test('a source that is closed does not wait for what it reads', async t => {
  const directory = t.testdir({ 'a.json': tooMuch() })
  const source = manifestSource({ paths: [directory] })
  let told = 0
  const count = () => told++
  const started = source.start({ apply: count, synced: count, problems: count })
  await until('there is a reader', () => readers().length === 1)
  await source.close()
  await started
  t.equal(told, 0)
  await until('there is no reader', () => readers().length === 0)
})

t.test('what takes too much memory is told, and read again when it changes', async t => {
  const set = await read(t, { 'a.json': tooMuch() })
  t.match(set.unreadable, [{ message: /more than 512 MiB of memory; split the files/ }])
  t.strictSame([set.objects, set.transient, set.files], [[], false, 1])
})

t.test('an object with more endpoints than a cluster can hold is refused', async t => {
  const slice = (count: number) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'web', labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    endpoints: Array.from({ length: count }, () => ({ addresses: ['10.0.0.1'] })),
    ports: [{ port: 80 }],
  })
  const good = await read(t, { 'a.json': JSON.stringify(slice(50_000)) })
  t.strictSame([good.problems, good.objects.length], [[], 1])
  const bad = await read(t, { 'a.json': JSON.stringify(slice(50_001)) })
  t.match(bad.problems, [{ message: /it has 50001 endpoints; give several/ }])
  t.strictSame([bad.objects, [...bad.refused]], [[], ['EndpointSlice default/web']])
})

import {
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join, sep } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Change } from '../../../src/model/service.ts'
import type { Problem } from '../../../src/model/snapshot.ts'
import {
  Debounce,
  DirectoryWatches,
} from '../../../src/source/manifests/directory-watches.ts'
import {
  manifestSource,
  type ManifestSourceOptions,
} from '../../../src/source/manifests/manifest-source.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { until } from '../../support/until.ts'

const service = (name: string, port: number | string = 80, more = ''): string =>
  [
    'apiVersion: v1',
    'kind: Service',
    `metadata: {name: ${name}${more}}`,
    `spec: {clusterIP: 10.96.0.10, ports: [{port: ${port}}]}`,
    '',
  ].join('\n')

const isWindows = process.platform === 'win32'
const noLinks = { skip: isWindows && 'links take a privilege on Windows' }
const noMoves = { skip: isWindows && 'a directory keeps its name there while watched' }

/** So slow that a change seen within the test was seen by the watch. */
const never = 3_600_000

interface Options extends Partial<ManifestSourceOptions> {
  /** Entries of the directory that is given to the source. */
  readonly paths?: string[]
}

/** A source over a directory of real files, and the world that it has told of. */
const fixture = (t: Test, files: object, { paths = ['.'], ...options }: Options = {}) => {
  const directory = t.testdir(files as Record<string, string>)
  const world = new Map<string, Change>()
  const batches: (readonly Change[])[] = []
  const skipped: string[] = []
  const warnings: string[] = []
  let problems: readonly Problem[] = []
  let synced = 0
  let reads = 0
  const source = manifestSource({
    pollMs: never,
    onSkipped: text => skipped.push(text),
    onWarning: text => warnings.push(text),
    ...options,
    paths: paths.map(path => join(directory, path)),
  })
  t.teardown(() => source.close())
  return {
    source,
    batches,
    skipped,
    warnings,
    start: () =>
      source.start({
        apply: changes => {
          batches.push(changes)
          for (const change of changes)
            if (change.object) world.set(change.name, change)
            else world.delete(change.name)
        },
        synced: () => synced++,
        problems: now => {
          problems = now
          reads += 1
        },
      }),
    synced: () => synced,
    /** Each ends with a list of problems. */
    reads: () => reads,
    at: (name: string) => join(directory, name),
    write: (name: string, text: string) => writeFileSync(join(directory, name), text),
    problems: () =>
      problems.map(({ object, field, message }) =>
        [object, field, message].join(' | ').replaceAll(join(directory, sep), ''),
      ),
    /** `web:80` for each Service there is. */
    services: () =>
      [...world.values()]
        .flatMap(({ kind, object }) =>
          kind === 'Service' && object && 'ports' in object
            ? [`${object.name}:${object.ports[0]?.port}`]
            : [],
        )
        .toSorted(),
    world,
  }
}

t.test(
  'what was read before the start is told with it, and changes of meanwhile',
  async t => {
    const f = fixture(t, { 'a.yaml': service('a') })
    await f.source.prepare?.()
    t.strictSame([f.services(), f.reads(), f.source.status().synced], [[], 0, false])
    f.write('b.yaml', service('b'))
    f.write('c.yaml', 'a: [')
    await f.start()
    t.equal(f.synced(), 1)
    await until('what is new is there', () => f.services().length === 2)
    t.match(f.source.status().error, /c\.yaml/)
  },
)

t.test('a start during a look ends when the first state is told', async t => {
  // So many that to tell them takes some turns of the event loop.
  const many = Array.from({ length: 3000 }, (_, at) => `${service(`a${at}`)}---\n`)
  const clock = new FakeClock()
  const f = fixture(t, { 'a.yaml': many.join('') }, { clock, pollMs: 1 })
  await sleep(2100) // Of a newer file the look would not see that it is the same.
  await f.source.prepare?.()
  clock.advance(1)
  await f.start()
  t.strictSame([f.synced(), f.services().length], [1, 3000])
})

t.test('a close does not wait for the first read', async t => {
  const f = fixture(t, { 'a.yaml': service('a') })
  const prepared = f.source.prepare?.()
  await f.source.close()
  await prepared
  await f.start()
  t.strictSame([f.services(), f.synced()], [[], 0])
})

t.test('the first state is one batch, then synced is said', async t => {
  const f = fixture(t, { 'a.yaml': service('a'), 'b.yaml': service('b', 0) })
  await f.start()
  t.strictSame([f.services(), f.batches.length, f.synced()], [['a:80'], 1, 1])
  t.match(f.problems(), [
    /^b.yaml document 1 \(Service default\/b\) \| spec.ports\[0\].port/,
  ])
  t.match(f.source.status(), { synced: true, error: '', name: `manifests ${f.at('')}` })
  t.type(f.source.status().lastGoodAt, 'number')
})

t.test('an empty directory is a state too', async t => {
  const f = fixture(t, {})
  await f.start()
  t.strictSame([f.batches, f.synced()], [[[]], 1])
})

t.test('a first state that can’t be read stops the start and says where', async t => {
  const bad = fixture(t, { 'a.yaml': `${service('a')}---\na: [\n` })
  await t.rejects(bad.start(), { message: /a\.yaml document 2: line 7: / })
  t.strictSame([bad.batches, bad.synced()], [[], 0])
  const missing = fixture(t, {}, { paths: ['gone.yaml'] })
  await t.rejects(missing.start(), {
    message: /gone\.yaml: there is no such file or directory$/,
  })
})

t.test('only what changed is told, in one batch', async t => {
  const f = fixture(t, {
    'a.yaml': service('a'),
    'b.yaml': service('b'),
    'c.yaml': service('c'),
  })
  await f.start()
  f.write('a.yaml', `# the same, written otherwise\n${service('a')}`)
  f.write('b.yaml', service('b', 81))
  rmSync(f.at('c.yaml'))
  f.write('d.yaml', service('d'))
  await until('the change', () => f.services().join(' ') === 'a:80 b:81 d:80')
  const told = f.batches.slice(1).flat()
  t.strictSame(
    told
      .map(({ name, object }) => `${name} ${object === undefined ? 'gone' : 'there'}`)
      .toSorted(),
    ['b there', 'c gone', 'd there'],
  )
})

t.test(
  'a bad value leaves the object’s last good version, and the rest goes on',
  async t => {
    const f = fixture(t, { 'a.yaml': service('a'), 'b.yaml': service('b') })
    await f.start()
    f.write('a.yaml', service('a', 70000))
    f.write('b.yaml', service('b', 81))
    f.source.reload()
    await until('b has changed', () => f.services().includes('b:81'))
    t.strictSame(f.services(), ['a:80', 'b:81'])
    t.strictSame(f.problems(), [
      'a.yaml document 1 (Service default/a) | spec.ports[0].port | 70000 is not a port: 1 to 65535',
    ])
    t.equal(f.source.status().error, '')
    f.write('a.yaml', service('a', 82))
    await until('a is good again', () => f.services().includes('a:82'))
    t.strictSame(f.problems(), [])
  },
)

t.test('a half-written file leaves everything as it was until it is whole', async t => {
  const whole = [service('a', 81), service('b', 81)].join('---\n')
  const f = fixture(t, { 'a.yaml': service('a'), 'c.yaml': service('c') })
  await f.start()
  const { lastGoodAt } = f.source.status()
  for (const part of ['', whole.slice(0, 20), whole.slice(0, whole.length - 5)]) {
    f.write('a.yaml', part)
    rmSync(f.at('c.yaml'), { force: true })
    f.source.reload()
    await until('the error', () => f.source.status().error.includes('a.yaml document'))
    t.strictSame(f.services(), ['a:80', 'c:80'])
    t.match(f.problems(), [/^a.yaml document \d \| {2}\| /])
    t.equal(f.source.status().lastGoodAt, lastGoodAt)
  }
  t.equal(f.batches.length, 1)
  f.write('a.yaml', whole)
  await until('the whole file is taken', () => f.services().join(' ') === 'a:81 b:81')
  t.equal(f.source.status().error, '')
  t.strictSame(f.problems(), [])
})

t.test(
  'a broken file keeps what was there, and no other file from its changes',
  async t => {
    const f = fixture(t, {
      'a.yaml': service('a'),
      'b.yaml': service('b'),
      'c.yaml': service('c'),
    })
    await f.start()
    const { lastGoodAt } = f.source.status()
    f.write('b.yaml', `${service('d')}---\n{ broken`)
    f.write('a.yaml', service('a', 81))
    rmSync(f.at('c.yaml'))
    f.source.reload()
    const changed = 'a:81 b:80 c:80 d:80'
    await until('the others are taken', () => f.services().join(' ') === changed)
    t.match(f.problems(), [/^b.yaml document 2 \| /])
    t.match(f.source.status(), { lastGoodAt, error: /b\.yaml document 2/ })
    f.write('b.yaml', service('b', 82))
    await until('what is gone goes', () => f.services().join(' ') === 'a:81 b:82')
    t.equal(f.source.status().error, '')
  },
)

t.test('a path that goes away leaves everything as it was', noMoves, async t => {
  const f = fixture(
    t,
    { sub: { 'a.yaml': service('a') } },
    { paths: ['sub'], pollMs: 20 },
  )
  await f.start()
  renameSync(f.at('sub'), f.at('elsewhere'))
  await until('the error', () => f.source.status().error !== '')
  t.match(f.source.status().error, /sub: there is no such file or directory$/)
  t.strictSame(f.services(), ['a:80'])
  mkdirSync(f.at('sub'))
  f.write('sub/a.yaml', service('a', 81))
  await until('the new directory', () => f.services()[0] === 'a:81')
})

t.test('a directory that loses all its files leaves everything as it was', async t => {
  const { source, start, world, at, write } = fixture(t, { 'a.yaml': service('a') })
  await start()
  rmSync(at('a.yaml'))
  source.reload()
  await until('it is said', () => source.status().error !== '')
  t.match(
    source.status().error,
    /all manifest files are gone.*leave a file with a comment/,
  )
  t.strictSame([...world.keys()], ['a'])
  write('none.yaml', '# nothing to serve')
  source.reload()
  await until('it is taken', () => world.size === 0)
  t.equal(source.status().error, '')
})

t.test('a file that is renamed over the old one is taken, again and again', async t => {
  const f = fixture(t, { 'a.yaml': service('a', 1) }, { paths: ['a.yaml'] })
  await f.start()
  for (let port = 2; port < 5; port++) {
    f.write('.a.yaml.swp', service('a', port))
    renameSync(f.at('.a.yaml.swp'), f.at('a.yaml'))
    await until(`port ${port}`, () => f.services()[0] === `a:${port}`)
  }
  t.strictSame(f.problems(), [])
})

t.test(
  'a ConfigMap’s link that is swapped changes all its files at once',
  noLinks,
  async t => {
    for (const paths of [['.'], ['a.yaml', 'b.yaml']]) {
      const f = fixture(t, { '..1': {}, '..2': {} }, { paths })
      for (const version of [1, 2])
        for (const name of ['a', 'b'])
          f.write(`..${version}/${name}.yaml`, service(name, version))
      symlinkSync('..1', f.at('..data'))
      for (const name of ['a.yaml', 'b.yaml']) symlinkSync(`..data/${name}`, f.at(name))
      await f.start()
      t.strictSame(f.services(), ['a:1', 'b:1'])
      symlinkSync('..2', f.at('..data_tmp'))
      renameSync(f.at('..data_tmp'), f.at('..data'))
      rmSync(f.at('..1'), { recursive: true })
      await until('the swap', () => f.services().join(' ') === 'a:2 b:2')
      t.equal(f.batches.length, 2, 'nobody saw the one without the other')
      await f.source.close()
    }
  },
)

t.test('200 rapid rewrites end in the last state, whatever was seen of them', async t => {
  const f = fixture(t, { 'a.yaml': service('a', 1000) })
  await f.start()
  for (let i = 1; i <= 200; i++) {
    f.write('a.yaml', service('a', 1000 + i))
    if (i % 20 === 0) f.source.reload()
    if (i % 5 === 0) await sleep(1)
  }
  await until('the last state', () => f.services()[0] === 'a:1200')
  await sleep(150)
  t.strictSame(f.services(), ['a:1200'])
  t.strictSame([f.problems(), f.source.status().error], [[], ''])
  t.ok(f.batches.length < 100, `${f.batches.length} batches: events are taken together`)
})

t.test('the poll finds what the watch can’t see', noLinks, async t => {
  const f = fixture(t, { 'a.yaml': '', real: { 'a.yaml': service('a') } }, { pollMs: 20 })
  rmSync(f.at('a.yaml'))
  symlinkSync('real/a.yaml', f.at('a.yaml'))
  await f.start()
  f.write('real/a.yaml', service('a', 81))
  await until('the change behind the link', () => f.services()[0] === 'a:81')
  // As rsync --times does: the same size and time, other content.
  const long = new Date(0)
  utimesSync(f.at('real/a.yaml'), long, long)
  await sleep(60)
  f.write('real/a.yaml', service('a', 82))
  utimesSync(f.at('real/a.yaml'), long, long)
  await until('the change that keeps the time', () => f.services()[0] === 'a:82')
})

t.test('nothing is read twice without a reason, and polling tells nothing', async t => {
  const f = fixture(t, { 'a.yaml': service('a') }, { pollMs: 5 })
  await f.start()
  await sleep(60)
  t.strictSame([f.batches.length, f.reads()], [1, 1])
})

t.test('a look that finds nothing else says that the state is good', async t => {
  const f = fixture(t, { 'a.yaml': service('a') }, { pollMs: 5 })
  await f.start()
  const lastGoodAt = (): number => f.source.status().lastGoodAt ?? 0
  // What is new is read once more.
  await until('it is known without a read', async () => {
    const [reads, before] = [f.reads(), lastGoodAt()]
    await sleep(20)
    return (
      f.reads() === reads && f.source.reading?.() === undefined && lastGoodAt() > before
    )
  })
  f.write('a.yaml', 'a: [\n')
  await until('the error', () => f.source.status().error !== '')
  const before = lastGoodAt()
  await sleep(60)
  t.equal(lastGoodAt(), before, 'not while it cannot be read')
  f.write('a.yaml', service('a'))
  await until('it is good again', () => lastGoodAt() > before)
})

t.test('reload reads now', noLinks, async t => {
  const f = fixture(t, { 'a.yaml': service('a'), real: { 'a.yaml': service('a') } })
  rmSync(f.at('a.yaml'))
  symlinkSync('real/a.yaml', f.at('a.yaml'))
  await f.start()
  f.write('real/a.yaml', service('a', 81))
  for (let i = 0; i < 50; i++) f.source.reload()
  await until('the change', () => f.services()[0] === 'a:81')
  t.equal(f.batches.length, 2)
})

t.test('Services keep their place in the order of first sight', async t => {
  const stamp = ', creationTimestamp: "1970-01-01T00:00:05Z"'
  const f = fixture(t, { 'b.yaml': service('b'), 'c.yaml': service('c') })
  const created = (name: string): unknown => {
    const object = f.world.get(name)?.object
    return object && 'createdAt' in object ? object.createdAt : undefined
  }
  await f.start()
  f.write('a.yaml', service('a'))
  f.write('b.yaml', service('b', 81))
  f.write('d.yaml', service('d', 80, stamp))
  await until('all four', () => f.services().join(' ') === 'a:80 b:81 c:80 d:80')
  t.strictSame(['a', 'b', 'c', 'd'].map(created), [3, 1, 2, 5000])
})

t.test(
  'endpoints that no cluster would have are served, and warned of in one line',
  async t => {
    const slice = (name: string, address: string) => `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: ${name}, labels: { kubernetes.io/service-name: a } }
addressType: IPv4
endpoints: [{ addresses: [${address}] }]
ports: [{ port: 80 }]
`
    const files = { 'a.yaml': service('a'), 'b.yaml': slice('b', '127.0.0.1') }
    const f = fixture(t, { ...files, 'c.yaml': slice('c', '169.254.169.254') })
    await f.start()
    t.equal(f.warnings.length, 1)
    t.match(
      f.warnings[0],
      /b\.yaml.* "127\.0\.0\.1" is loopback .*be ignored \(and 1 more\)$/,
    )
    f.write('a.yaml', service('a', 81))
    await until('the change', () => f.services()[0] === 'a:81')
    t.equal(f.warnings.length, 1, 'and not again')
  },
)

t.test('a kind that is passed over is said once, not at each read', async t => {
  const pod = 'apiVersion: v1\nkind: Pod\n'
  const f = fixture(t, { 'a.yaml': pod, 'b.yaml': service('b') })
  await f.start()
  f.write('b.yaml', service('b', 81))
  await until('the change', () => f.services()[0] === 'b:81')
  t.strictSame(f.skipped, [
    'v1 Pod is not supported; Usher reads v1 Service, Endpoints, Node, List, discovery.k8s.io/v1 EndpointSlice and networking.k8s.io/v1 ServiceCIDR',
  ])
})

t.test('a change during a read causes one more', noLinks, async t => {
  const directory = t.testdir({ real: { 'a.yaml': service('a') } })
  // Behind a link, where no watch sees it: only reload does.
  symlinkSync('real/a.yaml', join(directory, 'a.yaml'))
  const source = manifestSource({ paths: [join(directory, 'a.yaml')], pollMs: never })
  t.teardown(() => source.close())
  const told: unknown[] = []
  await source.start({
    apply: changes => {
      for (const { object } of changes)
        if (object && 'ports' in object) told.push(object.ports[0]?.port)
      if (told.length > 1) return
      writeFileSync(join(directory, 'real/a.yaml'), service('a', 81))
      for (let again = 0; again < 10; again++) source.reload()
    },
    synced: () => {},
    problems: () => {},
  })
  await until('the change', () => told.length === 2)
  t.strictSame(told, [80, 81])
})

t.test('a state that the sink could not take is offered again', noLinks, async t => {
  const directory = t.testdir({ real: { 'a.yaml': service('a') } })
  symlinkSync('real/a.yaml', join(directory, 'a.yaml'))
  let failing = false
  let taken = 0
  const paths = [join(directory, 'a.yaml')]
  const source = manifestSource({ paths, pollMs: 10 })
  t.teardown(() => source.close())
  await source.start({
    apply: () => {
      if (failing) throw new Error('no room')
      taken++
    },
    synced: () => {},
    problems: () => {},
  })
  failing = true
  writeFileSync(join(directory, 'real/a.yaml'), service('a', 81))
  await until('the error', () => source.status().error === 'no room')
  failing = false
  // Well before the file is old enough to be looked at again for its own sake.
  await until('the state is taken', () => taken === 2, 1000)
  t.equal(source.status().error, '')
})

t.test('close ends watching, polling and what is on its way', async t => {
  const f = fixture(t, { 'a.yaml': service('a') }, { pollMs: 5 })
  await f.start()
  f.write('a.yaml', service('a', 81))
  f.source.reload()
  await f.source.close()
  const told = f.batches.length
  f.write('a.yaml', service('a', 82))
  f.source.reload()
  await sleep(80)
  t.equal(f.batches.length, told)
})

t.test('a source that is closed while it starts says nothing', async t => {
  const f = fixture(t, { 'a.yaml': service('a') })
  const started = f.start()
  await f.source.close()
  await started
  t.strictSame([f.batches, f.synced()], [[], 0])
})

t.test(
  'a directory that was replaced is watched under its old name',
  noMoves,
  async t => {
    const directory = t.testdir({ a: {} })
    const path = join(directory, 'a')
    let changes = 0
    const watches = new DirectoryWatches(
      [path],
      () => changes++,
      text => t.fail(text),
    )
    t.teardown(() => watches.close())
    t.ok(await watches.renew())
    t.notOk(await watches.renew(), 'there is nothing new')
    renameSync(path, join(directory, 'b'))
    mkdirSync(path)
    t.ok(await watches.renew())
    writeFileSync(join(path, 'a.yaml'), '')
    await until('the change', () => changes > 0)
  },
)

const full = (): never => {
  throw new Error('ENOSPC: System limit for number of file watchers reached')
}

t.test('a watch that fails is said once', async t => {
  const directory = t.testdir({ a: {}, b: {} })
  const said: string[] = []
  const watches = new DirectoryWatches(
    [join(directory, 'a'), join(directory, 'b')],
    () => {},
    text => said.push(text.replace(join(directory, sep), '')),
    full,
  )
  t.teardown(() => watches.close())
  t.notOk(await watches.renew())
  t.notOk(await watches.renew())
  t.strictSame(said, [
    'cannot watch a (ENOSPC: System limit for number of file watchers reached): changes are seen by looking at the files now and then',
  ])
})

t.test('writing that never ends is read now and then', async t => {
  const clock = new FakeClock()
  let runs = 0
  const debounce = new Debounce(clock, () => runs++)
  for (let i = 0; i < 290; i++) {
    debounce.poke()
    clock.advance(10)
  }
  t.equal(runs, 2)
  clock.advance(50)
  t.equal(runs, 3)
  t.equal(clock.waiting, 0)
})

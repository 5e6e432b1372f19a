import {
  mkdtemp,
  rename,
  rm,
  symlink,
  utimes,
  writeFile,
  readFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { watchConfigMeaning } from '../../src/cli/run.ts'
import { signOf } from '../../src/util/watched-file.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { until } from '../support/until.ts'

/** A watched file that says `{"mode":"a"}`, in a directory of its own. */
const fixture = async (t: Test) => {
  const directory = await mkdtemp(join(tmpdir(), 'usher-config-watch-'))
  t.teardown(() => rm(directory, { recursive: true }))
  const path = join(directory, 'config.json')
  await writeFile(path, '{"mode":"a"}')
  const clock = new FakeClock()
  const seen = { looks: 0, reads: 0, changed: 0, unusable: [] as string[] }
  const close = watchConfigMeaning({
    clock,
    current: { mode: 'a' },
    sign: () => {
      seen.looks += 1
      return signOf(path)
    },
    read: async () => {
      try {
        return JSON.parse(await readFile(path, 'utf8')) as { mode: string }
      } finally {
        seen.reads += 1
      }
    },
    changed: () => (seen.changed += 1),
    unusable: reason => seen.unusable.push(reason),
  })
  t.teardown(close)
  /** Lets it look, and waits until it has and is ready for another look (or closed). */
  const look = async (): Promise<void> => {
    const { looks } = seen
    clock.advance(2000)
    await until(
      'it has looked',
      () => seen.looks > looks && clock.waiting + seen.changed > 0,
    )
  }
  return { directory, path, clock, seen, close, look }
}

t.test('a file that means something else asks for a restart, once', async t => {
  const { path, seen, look, clock } = await fixture(t)
  await look()
  t.equal(seen.changed, 0)
  await writeFile(path, '{"mode":"b"}')
  await look()
  t.equal(seen.changed, 1)
  t.equal(clock.waiting, 0, 'then nobody looks any more')
})

t.test('a file that says the same in other words is no change', async t => {
  const { path, seen, look } = await fixture(t)
  await writeFile(path, '{ "mode": "a" }\n')
  await look()
  await utimes(path, 1, 1)
  await look()
  t.strictSame([seen.changed, seen.unusable], [0, []])
})

t.test('a file swapped by a symlink, as a ConfigMap is, is seen', async t => {
  const { directory, path, seen, look } = await fixture(t)
  await writeFile(join(directory, 'next'), '{"mode":"b"}')
  await symlink('next', join(directory, 'link'))
  await rename(join(directory, 'link'), path)
  await look()
  t.equal(seen.changed, 1)
})

t.test('an unusable file is told once, and what comes after it still counts', async t => {
  const { path, seen, look } = await fixture(t)
  await writeFile(path, '{')
  await look()
  await look()
  t.equal(seen.unusable.length, 1)
  await rm(path)
  await look()
  t.equal(seen.unusable.length, 2, 'another reason is news')
  t.match(seen.unusable[1], /ENOENT/)
  await writeFile(path, '{"mode":"a"}')
  await look()
  t.equal(seen.changed, 0, 'it is as it was')
  await writeFile(path, '{"mode":"b"}')
  await look()
  t.equal(seen.changed, 1)
})

t.test(
  'a file that nobody writes is read twice, and again when it is written',
  async t => {
    const { path, seen, look } = await fixture(t)
    for (let looks = 0; looks < 5; looks += 1) await look()
    t.equal(seen.reads, 2)
    await writeFile(path, '{"mode":"b"}')
    await look()
    t.strictSame([seen.reads, seen.changed], [3, 1])
  },
)

t.test('after close nobody looks', async t => {
  const { path, seen, close, clock } = await fixture(t)
  close()
  await writeFile(path, '{"mode":"b"}')
  clock.advance(10_000)
  t.equal(clock.waiting, 0)
  t.equal(seen.reads, 0)
})

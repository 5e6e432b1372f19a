import { rename, utimes, writeFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { isAmong } from '../../../src/util/address-ranges.ts'
import { addressWords } from '../../../src/util/cidr.ts'
import { readListFile } from '../../../src/source/routes/client-list.ts'
import { ListFiles } from '../../../src/source/routes/list-files.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { withoutDescriptors } from '../../support/descriptors.ts'
import { until } from '../../support/until.ts'

t.test('a block a line, and comments', async t => {
  const dir = t.testdir({
    list: '\uFEFF# all\n\n10.0.0.0/8  # ours\r\n  ::1\r\n192.0.2.1',
  })
  const { ranges, faults } = await readListFile(`${dir}/list`)
  t.strictSame(faults, [])
  t.equal(ranges.ipv4.length, 4)
  t.equal(ranges.ipv6.length, 8)
})

t.test('what is wrong is told by line, some of it', async t => {
  const cases: [string | Buffer, readonly (string | RegExp)[]][] = [
    ['10.0.0.0/8\nten\n', [/^line 2: "ten" is not an address or a CIDR, like /]],
    ['10.0.0.0/8 192.0.2.1\n', [/^line 1: "10\.0\.0\.0\/8 192\.0\.2\.1" is not /]],
    [
      'x\n'.repeat(100_000),
      [...Array.from({ length: 20 }, () => /^line \d+: /), 'and 99980 more faults'],
    ],
    [Buffer.from([0xff, 0xfe, 0x00]), [/UTF-8/]],
    ['10.0.0.0/8\0\n', [/^line 1: "10\.0\.0\.0\/8\\u0000" is not /]],
    [Buffer.alloc(16 * 1024 * 1024 + 1, '\n'), ['it is larger than 16 MiB; split it']],
  ]
  const dir = t.testdir({})
  for (const [text, expected] of cases) {
    await writeFile(`${dir}/list`, text)
    const { ranges, faults } = await readListFile(`${dir}/list`)
    t.match(faults, expected)
    t.equal(faults.length, expected.length)
    t.equal(ranges.ipv4.length, 0)
  }
  t.match((await readListFile(`${dir}/none`)).faults, [/no such file/])
  t.match((await readListFile(dir)).faults, [/./])
})

t.test('100 000 lines, in slices', async t => {
  const lines = Array.from(
    { length: 100_000 },
    (_, i) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 254}/31`,
  )
  const dir = t.testdir({ list: lines.join('\n') })
  let turns = 0
  const timer = setInterval(() => (turns += 1), 1)
  const { ranges, faults } = await readListFile(`${dir}/list`)
  clearInterval(timer)
  t.strictSame(faults, [])
  t.ok(isAmong(ranges, addressWords('10.1.134.159') ?? []))
  t.notOk(isAmong(ranges, addressWords('10.1.134.160') ?? []))
  t.ok(turns > 3, 'others have their turn')
})

t.test('files are looked at, and the last good state counts', async t => {
  const dir = t.testdir({ a: '10.0.0.1', b: '10.0.0.2' })
  const taken: string[] = []
  const unusable: string[] = []
  const files = new ListFiles({
    pollMs: 5,
    onTaken: file => taken.push(file),
    onUnusable: (file, reason) => unusable.push(`${file}: ${reason}`),
  })
  t.teardown(() => files.close())
  const [one, two] = [
    { lists: { deny: ['192.0.2.0/24', `file:${dir}/a`, `file:${dir}/b`] } },
    { lists: { allow: [`file:${dir}/a`], deny: undefined } },
  ]
  t.strictSame(await files.load([one, two, { lists: undefined }]), [])
  const clients = files.clientsOf(one)
  t.match(clients, { deny: [{ ipv4: { length: 2 } }, {}, {}], allow: undefined })
  t.equal(files.clientsOf(one), clients, 'the same object while nothing changes')
  t.match(files.clientsOf(two), { allow: [{ ipv4: { length: 2 } }] })
  t.equal(files.clientsOf({ lists: undefined }), undefined)

  let changes = 0
  files.watch(() => (changes += 1))
  await writeFile(`${dir}/new`, '10.0.0.1\n10.0.0.9')
  await rename(`${dir}/new`, `${dir}/a`)
  await until('another file in its place', () => changes === 1)
  t.match(files.clientsOf(two), { allow: [{ ipv4: { length: 4 } }] })
  await writeFile(`${dir}/a`, 'nonsense')
  await until('it is written', () => changes === 2)
  t.strictSame(taken, [`${dir}/a`])
  t.match(unusable, [/a: line 1: "nonsense" is not/])
  t.match(files.faults, [{ file: `${dir}/a`, message: /^line 1: "nonsense"/ }])
  t.match(
    files.clientsOf(two),
    { allow: [{ ipv4: { length: 4 } }] },
    'the old one counts',
  )
  files.keep([{ lists: { deny: [`file:${dir}/b`] } }])
  t.strictSame(files.faults, [], 'it is none of theirs any more')
})

t.test('when a file counts', async t => {
  const setUp = async (t: Test) => {
    const dir = t.testdir({ a: '10.0.0.1' })
    // As a tool sets it that keeps times.
    await utimes(`${dir}/a`, 1000, 1000)
    const clock = new FakeClock()
    const taken: string[] = []
    const unusable: string[] = []
    const files = new ListFiles({
      clock,
      onTaken: file => taken.push(file),
      onUnusable: (_file, reason) => unusable.push(reason),
    })
    t.teardown(() => files.close())
    const route = { lists: { deny: [`file:${dir}/a`] } }
    t.strictSame(await files.load([route]), [])
    files.watch(() => {})
    const bounds = () => files.clientsOf(route)?.deny?.[0]?.ipv4.length
    /** Each look waits for the file to hold still. */
    const waits = async (looks: number, meanwhile = async () => {}): Promise<void> => {
      await until('it waits', () => clock.waiting === looks)
      await meanwhile()
      clock.advance(100)
    }
    return { path: `${dir}/a`, files, taken, unusable, bounds, waits }
  }

  t.test('not before it holds still', async t => {
    const { path, files, unusable, bounds, waits } = await setUp(t)
    await writeFile(path, '10.0.0.1\n10.0.')
    const looking = files.poll()
    await waits(1, () => writeFile(path, '10.0.0.1\n10.0.0.9'))
    await waits(1)
    await looking
    t.strictSame(unusable, [])
    t.equal(bounds(), 4)
  })

  t.test('once, also when two look at it', async t => {
    const { path, files, taken, bounds, waits } = await setUp(t)
    await writeFile(path, '10.0.0.1\n10.0.0.9')
    const looking = [files.poll(), files.poll()]
    await waits(1)
    await Promise.all(looking)
    await files.poll()
    t.strictSame(taken, [path])
    t.equal(bounds(), 4)
  })

  t.test('when another with its size and time is in its place', async t => {
    const { path, files, taken, waits } = await setUp(t)
    await writeFile(`${path}.new`, '10.0.0.2')
    await utimes(`${path}.new`, 1000, 1000)
    await rename(`${path}.new`, path)
    const looking = files.poll()
    await waits(1)
    await looking
    t.strictSame(taken, [path])
  })

  t.test('also when there was no descriptor to read it with at first', async t => {
    const { path, files, taken, unusable, bounds, waits } = await setUp(t)
    await writeFile(path, '10.0.0.1\n10.0.0.9')
    await withoutDescriptors(t, async () => {
      for (let looks = 0; looks < 2; looks += 1) {
        const looking = files.poll()
        await waits(1)
        await looking
      }
    })
    t.match(unusable, [/no file descriptor is left/])
    t.equal(unusable.length, 1, 'told once')
    const again = files.poll()
    await waits(1)
    await again
    t.strictSame(taken, [path])
    t.equal(bounds(), 4)
    t.strictSame(files.faults, [])
  })

  t.test('not while it is gone, and then again', async t => {
    const { path, files, taken, unusable, bounds, waits } = await setUp(t)
    await rename(path, `${path}.old`)
    const looking = files.poll()
    await waits(1)
    await looking
    t.match(unusable, [/no such file/])
    t.equal(bounds(), 2, 'the old one counts')
    await rename(`${path}.old`, path)
    const again = files.poll()
    await waits(1)
    await again
    t.strictSame(taken, [path])
    t.strictSame(files.faults, [])
  })
})

t.test('files with faults are not taken', async t => {
  const dir = t.testdir({ a: '10.0.0.1', b: 'x' })
  const files = new ListFiles()
  const route = { lists: { deny: [`file:${dir}/a`, `file:${dir}/b`] } }
  t.match(await files.load([route]), [{ file: `${dir}/b`, message: /^line 1: "x"/ }])
  await writeFile(`${dir}/b`, '::1')
  t.strictSame(await files.load([route]), [])
  t.match(files.clientsOf(route), {
    deny: [{ ipv6: { length: 0 } }, { ipv6: { length: 8 } }],
  })
})

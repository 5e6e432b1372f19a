import { rename, writeFile } from 'node:fs/promises'
import t from 'tap'
import { isAmong } from '../../../src/util/address-ranges.ts'
import { addressWords } from '../../../src/util/cidr.ts'
import { readListFile } from '../../../src/source/routes/client-list.ts'
import { ListFiles } from '../../../src/source/routes/list-files.ts'
import { until } from '../../support/until.ts'

t.test('a block a line, and comments', async t => {
  const dir = t.testdir({ list: '# all\n\n10.0.0.0/8  # ours\r\n  ::1\n192.0.2.1' })
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
    lookMs: 5,
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

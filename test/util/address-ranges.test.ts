import * as fc from 'fast-check'
import t from 'tap'
import {
  addressRanges,
  isAmong,
  isEmpty,
  rangesOf,
  readBlock,
} from '../../src/util/address-ranges.ts'
import { addressWords, type Cidr, cidrContains } from '../../src/util/cidr.ts'

const has = (texts: readonly string[], address: string): boolean =>
  isAmong(rangesOf(texts), addressWords(address) ?? [])

t.test('a block is a CIDR or one address', async t => {
  const cases: [string, string | undefined][] = [
    ['10.1.2.3/8', '10.0.0.0/8'],
    ['10.1.2.3', '10.1.2.3/32'],
    ['fd00::1', 'fd00::1/128'],
    ['FD00::/8', 'fd00::/8'],
    ['::ffff:10.0.0.1', '10.0.0.1/32'],
    ['::ffff:10.0.0.0/104', '10.0.0.0/8'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['', undefined],
    ['10.1.2', undefined],
    ['010.1.2.3', undefined],
    ['10.1.2.3/33', undefined],
    ['10.1.2.3/', undefined],
    ['10.1.2.3 ', undefined],
    ['fe80::1%eth0', undefined],
    ['db.example', undefined],
  ]
  for (const [text, expected] of cases) t.equal(readBlock(text)?.text, expected, text)
})

t.test('ranges are merged, and what lies at their edges is told apart', async t => {
  const { ipv4, ipv6 } = rangesOf([
    '10.0.1.0/24',
    '10.0.0.0/24',
    '10.0.0.7',
    '192.0.2.1',
    'fd00::/16',
    'fd00:0:0:1::/64',
    'fd01::1',
  ])
  t.strictSame([...ipv4], [0x0a000000, 0x0a0001ff, 0xc0000201, 0xc0000201])
  t.equal(ipv6.length, 16)
  t.ok(has(['10.0.0.0/24'], '10.0.0.0'))
  t.ok(has(['10.0.0.0/24'], '10.0.0.255'))
  t.notOk(has(['10.0.0.0/24'], '10.0.1.0'))
  t.notOk(has(['10.0.0.0/24'], '9.255.255.255'))
  t.ok(has(['0.0.0.0/0'], '255.255.255.255'))
  t.notOk(has(['0.0.0.0/0'], '::1'), 'one family says nothing of the other')
  t.ok(has(['::/0'], 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'))
  t.ok(has(['255.255.255.255'], '255.255.255.255'))
  t.ok(has(['10.0.0.0/8'], '::ffff:10.1.1.1'), 'a mapped one is an IPv4 one')
  t.notOk(has([], '10.0.0.1'))
  t.ok(isEmpty(rangesOf(['nobody'])))
  t.notOk(isEmpty(rangesOf(['::1'])))
})

/** Close to each other, so that blocks overlap and touch. */
const ipv4 = fc
  .tuple(fc.nat(3), fc.nat(3), fc.nat(255))
  .map(([a, b, c]) => `10.${a}.${b}.${c}`)
const ipv6 = fc
  .tuple(fc.nat(3), fc.nat(3), fc.nat(3))
  .map(([a, b, c]) => `fd00:${a}::${b}:0:${c}`)
const blockOf = (address: fc.Arbitrary<string>, longest: number) =>
  fc
    .tuple(address, fc.integer({ min: 8, max: longest }))
    .map(([text, length]) => `${text}/${length}`)

t.test('an address is among them if it is in one of the blocks', async () => {
  const blocks = fc.array(fc.oneof(blockOf(ipv4, 32), blockOf(ipv6, 128)), {
    maxLength: 40,
  })
  fc.assert(
    fc.property(blocks, fc.array(fc.oneof(ipv4, ipv6)), (texts, addresses) => {
      const cidrs = texts.flatMap((text): Cidr[] => [readBlock(text) ?? []].flat())
      const ranges = addressRanges(cidrs)
      return addresses.every(
        address =>
          isAmong(ranges, addressWords(address) ?? []) ===
          cidrs.some(cidr => cidrContains(cidr, address)),
      )
    }),
    { numRuns: 500 },
  )
})

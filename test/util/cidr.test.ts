import assert from 'node:assert/strict'
import { BlockList } from 'node:net'
import * as fc from 'fast-check'
import t from 'tap'
import { cidrContains, parseCidr } from '../../src/util/cidr.ts'
import { canonicalIp, familyOf } from '../../src/util/ip.ts'

t.test('a CIDR has one canonical spelling, without host bits', async t => {
  const table: [text: string, canonical: string | undefined, why: string][] = [
    ['10.1.2.3/8', '10.0.0.0/8', 'host bits are cleared'],
    ['192.0.2.1/32', '192.0.2.1/32', 'a single address'],
    ['255.255.255.255/1', '128.0.0.0/1', 'the highest bit is no sign'],
    ['192.0.2.1/0', '0.0.0.0/0', 'everybody'],
    ['2001:DB8:0:0::1/32', '2001:db8::/32', 'IPv6 compressed and in lower case'],
    ['2001:db8::ffff/113', '2001:db8::8000/113', 'a length within a group'],
    ['fd00::1/128', 'fd00::1/128', 'a single IPv6 address'],
    ['abcd::1/0', '::/0', 'every IPv6 address'],
    ['::ffff:10.1.2.3/104', '10.0.0.0/8', 'IPv4 mapped into IPv6'],
    ['::ffff:10.1.2.3/95', '::fffe:0:0/95', 'a length that cuts the mapping'],
    ['10.0.0.0/33', undefined, 'too long'],
    ['fd00::/129', undefined, 'too long for IPv6'],
    ['10.0.0.0/08', undefined, 'a leading zero in the length'],
    ['010.0.0.0/8', undefined, 'a leading zero in the address'],
    ['fe80::1%eth0/64', undefined, 'a zone'],
    ['10.0.0.0', undefined, 'no length'],
    ['10.0.0.0/', undefined, 'an empty length'],
    ['10.0.0.0/-1', undefined, 'a negative length'],
    [' 10.0.0.0/8', undefined, 'a blank'],
    ['10.0.0.0/8/8', undefined, 'two lengths'],
    ['web/8', undefined, 'a name'],
    ['', undefined, 'nothing'],
  ]
  for (const [text, canonical, why] of table)
    t.equal(parseCidr(text)?.text, canonical, why)
})

t.test('a CIDR holds addresses of its family only', async t => {
  const table: [cidr: string, address: string, held: boolean][] = [
    ['10.0.0.0/8', '10.255.0.1', true],
    ['10.0.0.0/8', '11.0.0.0', false],
    ['10.0.0.0/8', '::ffff:10.0.0.1', true],
    ['::ffff:10.0.0.0/104', '10.0.0.1', true],
    ['0.0.0.0/0', '192.0.2.1', true],
    ['0.0.0.0/0', 'fd00::1', false],
    ['::/0', '192.0.2.1', false],
    ['::/0', 'fd00::1', true],
    ['fd00::/64', 'fd00::ffff:ffff:ffff:ffff', true],
    ['fd00::/64', 'fd00:0:0:1::', false],
    ['fe80::/64', 'fe80::1%eth0', false],
    ['0.0.0.0/0', 'web', false],
    ['0.0.0.0/0', '', false],
  ]
  for (const [text, address, held] of table) {
    const cidr = parseCidr(text)
    assert(cidr)
    t.equal(cidrContains(cidr, address), held, `${text} ${address}`)
  }
})

const anyAddress = fc.oneof(
  fc.ipV4(),
  fc.ipV6().filter(ip => !canonicalIp(ip)?.includes('.')),
  // Near enough to each other that blocks hold some.
  fc.nat(7).map(low => `10.0.0.${low}`),
  fc.nat(7).map(low => `fd00::${low}`),
)

t.test('the same as the library of Node says, for any of them', async () => {
  fc.assert(
    fc.property(anyAddress, fc.nat(128), anyAddress, (network, length, address) => {
      const family = familyOf(network) === 'IPv4' ? 'ipv4' : 'ipv6'
      const prefix = family === 'ipv4' ? length % 33 : length
      const cidr = parseCidr(`${network}/${prefix}`)
      assert(cidr)
      const list = new BlockList()
      list.addSubnet(network, prefix, family)
      const own = familyOf(address) === cidr.family
      assert.equal(cidrContains(cidr, address), own && list.check(address, family))
      assert(cidrContains(cidr, network))
      assert.deepEqual(parseCidr(cidr.text), cidr, 'canonical text means the same')
    }),
    { numRuns: 2000 },
  )
})

t.test('no text makes parsing throw', async () => {
  const text = fc.oneof(fc.string(), fc.stringMatching(/^[0-9a-f:./%]{0,40}$/))
  fc.assert(
    fc.property(text, given => void parseCidr(given)),
    { numRuns: 1000 },
  )
})

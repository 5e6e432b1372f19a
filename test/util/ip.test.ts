import t from 'tap'
import {
  bracketsAdvice,
  canonicalIp,
  familyOf,
  isWildcard,
  joinHostPort,
  splitHostPort,
  unmapped,
  wildcardOf,
} from '../../src/util/ip.ts'

t.test('an address has one canonical spelling', async t => {
  const table: [text: string, canonical: string | undefined, why: string][] = [
    ['192.0.2.1', '192.0.2.1', 'IPv4 as it is'],
    ['2001:DB8:0:0::1', '2001:db8::1', 'IPv6 compressed and in lower case'],
    ['0:0:0:0:0:0:0:0', '::', 'the IPv6 wildcard'],
    ['::ffff:192.0.2.1', '192.0.2.1', 'IPv4 mapped into IPv6'],
    ['::ffff:c000:201', '192.0.2.1', 'the same in hexadecimal'],
    ['192.0.02.1', undefined, 'leading zeros, which some read as octal'],
    ['192.0.2', undefined, 'an IPv4 address in short'],
    ['fe80::1%eth0', undefined, 'an address with a zone'],
    ['example.com', undefined, 'a name'],
    ['', undefined, 'nothing'],
  ]
  for (const [text, canonical, why] of table) t.equal(canonicalIp(text), canonical, why)
})

t.test('the family of a literal', async t => {
  t.equal(familyOf('192.0.2.1'), 'IPv4')
  t.equal(familyOf('2001:db8::1'), 'IPv6')
  t.equal(familyOf('web'), undefined)
})

t.test('a mapped address loses its prefix, others stay', async t => {
  t.equal(unmapped('::ffff:192.0.2.1'), '192.0.2.1')
  t.equal(unmapped('::ffff:1'), '::ffff:1')
  t.equal(unmapped('192.0.2.1'), '192.0.2.1')
})

t.test('wildcards', async t => {
  t.equal(wildcardOf('IPv4'), '0.0.0.0')
  t.equal(wildcardOf('IPv6'), '::')
  t.same(['0.0.0.0', '::', '::1', '127.0.0.1'].map(isWildcard), [
    true,
    true,
    false,
    false,
  ])
})

t.test('host and port are joined and split', async t => {
  t.equal(joinHostPort('192.0.2.1', 80), '192.0.2.1:80')
  t.equal(joinHostPort('2001:db8::1', 80), '[2001:db8::1]:80')
  const table: [text: string, split: { host: string; port: number } | undefined][] = [
    ['192.0.2.1:80', { host: '192.0.2.1', port: 80 }],
    ['[2001:db8::1]:65535', { host: '2001:db8::1', port: 65_535 }],
    ['db.example:5432', { host: 'db.example', port: 5432 }],
    ['2001:db8::1:80', undefined],
    ['192.0.2.1:0', undefined],
    ['192.0.2.1:65536', undefined],
    ['192.0.2.1:-1', undefined],
    ['192.0.2.1', undefined],
    [':80', undefined],
    ['[]:80', undefined],
  ]
  for (const [text, split] of table) t.same(splitHostPort(text), split, text)
  t.same(
    splitHostPort('192.0.2.1:0', 0),
    { host: '192.0.2.1', port: 0 },
    '0 when asked for',
  )
})

t.test('IPv6 without brackets is known by its colons', async t => {
  const right = new Map([
    ['fd00::5:5432', '[fd00::5]:5432'],
    ['::1:53', '[::1]:53'],
    ['fd00::5', '[fd00::5]:PORT'],
    ['::1', '[::1]:PORT'],
    ['2001:db8:1:2:3:4:5:6:53', '[2001:db8:1:2:3:4:5:6]:53'],
  ])
  for (const [text, written] of right)
    t.equal(bracketsAdvice(text), `has IPv6 without brackets; write ${written}`)
  for (const text of ['', '[::1]:53', '10.0.0.5:1', 'db:1', 'a:b:c', ':5432', '::g:1'])
    t.equal(bracketsAdvice(text), '', text)
})

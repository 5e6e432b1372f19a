import t from 'tap'
import { mostHeaderBytes, ownHeader, proxyHeader } from '../../src/util/proxy-header.ts'

const at = (address: string, port: number) => ({ address, port })
const signature = '0d0a0d0a000d0a515549540a'

t.test('as the specification has it', async t => {
  const v4 = [at('192.0.2.1', 56_324), at('198.51.100.7', 443)] as const
  const v6 = [at('2001:db8::1', 1), at('::1', 65_535)] as const
  t.equal(
    String(proxyHeader('v1', ...v4)),
    'PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n',
  )
  t.equal(String(proxyHeader('v1', ...v6)), 'PROXY TCP6 2001:db8::1 ::1 1 65535\r\n')
  t.equal(
    proxyHeader('v2', ...v4).toString('hex'),
    `${signature}2111000cc0000201c6336407dc0401bb`,
  )
  t.equal(
    proxyHeader('v2', ...v6).toString('hex'),
    `${signature}2121002420010db8000000000000000000000001${'0'.repeat(31)}10001ffff`,
  )
})

t.test('of two families the IPv4 one is mapped', async t => {
  const [one, other] = [at('192.0.2.1', 1), at('2001:db8::1', 2)]
  const mapped = at('::ffff:192.0.2.1', 1)
  t.equal(
    String(proxyHeader('v1', one, other)),
    'PROXY TCP6 ::ffff:192.0.2.1 2001:db8::1 1 2\r\n',
  )
  for (const version of ['v1', 'v2'] as const) {
    t.same(proxyHeader(version, one, other), proxyHeader(version, mapped, other))
    t.same(proxyHeader(version, other, one), proxyHeader(version, other, mapped))
  }
  const { length } = proxyHeader('v2', one, other)
  t.equal(length, 52)
})

t.test('what is not known is a connection of its own', async t => {
  t.equal(String(ownHeader('v1')), 'PROXY UNKNOWN\r\n')
  t.equal(ownHeader('v2').toString('hex'), `${signature}20000000`)
  const one = at('192.0.2.1', 1)
  for (const version of ['v1', 'v2'] as const) {
    t.same(proxyHeader(version, at('', 0), one), ownHeader(version))
    t.same(proxyHeader(version, one, at('', 0)), ownHeader(version))
  }
})

t.test('none is longer than it may be', async t => {
  const longest = at('ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe', 65_535)
  t.ok(proxyHeader('v1', longest, longest).length <= mostHeaderBytes)
})

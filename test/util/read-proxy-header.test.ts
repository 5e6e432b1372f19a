import * as fc from 'fast-check'
import t from 'tap'
import { ownHeader, proxyHeader, proxyVersions } from '../../src/util/proxy-header.ts'
import { readProxyHeader } from '../../src/util/read-proxy-header.ts'

const latin1 = (text: string) => Buffer.from(text, 'latin1')
const ends = {
  source: { address: '2001:db8::1', port: 1 },
  destination: { address: '::1', port: 65_535 },
}
const ipv4 = {
  source: { address: '192.0.2.1', port: 56_324 },
  destination: { address: '198.51.100.7', port: 443 },
}
const signature = '0d0a0d0a000d0a515549540a'
const v2 = (rest: string) => Buffer.from(`${signature}${rest}`, 'hex')

t.test('what is sent is read, however it is cut', async t => {
  for (const version of proxyVersions)
    for (const { source, destination } of [ends, ipv4]) {
      const header = proxyHeader(version, source, destination)
      const bytes = Buffer.concat([header, latin1('PROXY or \r\n\r\n of the client')])
      for (let cut = 0; cut < header.length; cut += 1)
        t.equal(readProxyHeader(bytes.subarray(0, cut)), undefined)
      t.same(readProxyHeader(bytes), {
        length: header.length,
        addresses: { source, destination },
      })
      const own = ownHeader(version)
      t.same(readProxyHeader(own), { length: own.length, addresses: undefined })
    }
})

t.test('what others send', async t => {
  const none = (length: number) => ({ length, addresses: undefined })
  t.same(readProxyHeader(latin1('PROXY UNKNOWN ffff::1 ::1 1 2 what ever\r\n')), none(41))
  t.same(readProxyHeader(v2('20000004aabbcc')), undefined, 'cut off')
  t.same(readProxyHeader(v2('20000003aabbccdd')), none(19))
  t.same(readProxyHeader(v2(`213100d8${'00'.repeat(216)}`)), none(232), 'a unix socket')
  t.same(readProxyHeader(v2('2100000400000000')), none(20), 'of no family')
  const local = v2('2011000cc0000201c6336407dc0401bb')
  t.same(readProxyHeader(local), none(28), 'addresses of a connection of its own')
  t.same(readProxyHeader(v2('2111000cc0000201c6336407dc0401bb')), {
    length: 28,
    addresses: ipv4,
  })
  const more = readProxyHeader(
    v2('21110013c0000201c6336407dc0401bb040004000000003'.padEnd(50, '0')),
  )
  t.same(more, { length: 35, addresses: ipv4 }, 'with a TLV')
  t.same(readProxyHeader(latin1('PROXY TCP6 ::ffff:192.0.2.1 2001:DB8:0::7 1 2\r\n')), {
    length: 47,
    addresses: {
      source: { address: '192.0.2.1', port: 1 },
      destination: { address: '2001:db8::7', port: 2 },
    },
  })
})

t.test('nginx names the family of one of the two', async t => {
  for (const [name, from, to] of [
    ['TCP4', '192.0.2.1', '2001:db8::7'],
    ['TCP6', '2001:db8::7', '192.0.2.1'],
    ['TCP6', '192.0.2.1', '2001:db8::7'],
  ] as const) {
    t.match(readProxyHeader(latin1(`PROXY ${name} ${from} ${to} 1 2\r\n`)), {
      addresses: {
        source: { address: from, port: 1 },
        destination: { address: to, port: 2 },
      },
    })
  }
})

t.test('what is none, at the first byte that shows it', async t => {
  for (const text of [
    'GET / HTTP/1.0',
    'P ',
    'PROXy',
    '\x16\x03\x01',
    'PROXY TCP4 192.0.2.1 198.51.100.7 1\r\n',
    'PROXY TCP4 192.0.2.1 198.51.100.7 1 65536\r\n',
    'PROXY TCP4 192.0.2.1 198.51.100.7 01 2\r\n',
    'PROXY TCP4 192.0.2.01 198.51.100.7 1 2\r\n',
    'PROXY TCP4  192.0.2.1 198.51.100.7 1 2\r\n',
    'PROXY TCP4 192.0.2.1 198.51.100.7 1 2 \r\n',
    'PROXY TCP4 ::1 ::1 1 2\r\n',
    'PROXY TCP6 192.0.2.1 198.51.100.7 1 2\r\n',
    'PROXY TCP5 192.0.2.1 198.51.100.7 1 2\r\n',
    'PROXY UNKNOWNX\r\n',
    'PROXY \r\n',
    `PROXY UNKNOWN ${'x'.repeat(100)}`,
    'x'.padStart(107, 'PROXY UNKNOWN '),
  ])
    t.type(readProxyHeader(latin1(text)), 'string', text)
  const tail = '11000cc0000201c6336407dc0401bb'
  t.type(readProxyHeader(v2(`31${tail}`)), 'string', 'version 3')
  t.type(readProxyHeader(v2(`22${tail}`)), 'string', 'command 2')
  t.type(readProxyHeader(v2('2111000b')), 'undefined')
  t.type(
    readProxyHeader(v2(`2111000b${'00'.repeat(11)}`)),
    'string',
    'too short for IPv4',
  )
  t.type(
    readProxyHeader(v2(`21210023${'00'.repeat(35)}`)),
    'string',
    'too short for IPv6',
  )
  t.type(readProxyHeader(v2('2111ffff')), 'string', 'too long')
})

t.test('nothing makes it throw, and more bytes change no verdict', async t => {
  const starts = [signature, latin1('PROXY TCP4 192.0.2.1 ').toString('hex'), '']
  fc.assert(
    fc.property(
      fc.constantFrom(...starts),
      fc.uint8Array({ maxLength: 200 }),
      (start, rest) => {
        const bytes = Buffer.concat([Buffer.from(start, 'hex'), rest])
        let verdict: ReturnType<typeof readProxyHeader>
        for (let cut = 0; cut <= bytes.length; cut += 1) {
          const found = readProxyHeader(bytes.subarray(0, cut))
          if (verdict !== undefined && typeof verdict !== 'string') t.same(found, verdict)
          else if (typeof verdict === 'string') t.type(found, 'string')
          verdict = found
        }
      },
    ),
    { numRuns: 300 },
  )
})

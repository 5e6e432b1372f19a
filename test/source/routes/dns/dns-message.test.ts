import * as fc from 'fast-check'
import t from 'tap'
import {
  decodeAnswer,
  encodeQuestion,
} from '../../../../src/source/routes/dns/dns-message.ts'
import * as dns from './dns-server.ts'

const question = { name: 'Db.example.', type: 'SRV' } as const
const asked: dns.Asked = {
  id: 7,
  name: 'db.example',
  type: 33,
  over: 'UDP',
  additional: 0,
  question: encodeQuestion(7, question).subarray(12),
}
const whole = dns.reply(asked, [
  dns.cname('db.example', 'x.example'),
  dns.srv('x.example', [1, 2, 3, 'y.example']),
  dns.a('y.example', '10.0.0.1'),
  dns.aaaa('y.example', '1:2:3:4:5:6:7:8'),
  dns.record('y.example', 16, 1, Buffer.from('text')),
])

t.test('a question is asked for as RFC 1035 has it', async t => {
  t.equal(
    encodeQuestion(0x1234, { name: 'db.example', type: 'AAAA' }).toString('hex'),
    '123401000001000000000000026462076578616d706c6500001c0001',
  )
})

t.test('records are read, those of other types are passed over', async t => {
  t.strictSame(decodeAnswer(whole, 7, question), {
    truncated: false,
    rcode: 0,
    records: [
      { name: 'db.example', ttl: 60, type: 'CNAME', target: 'x.example' },
      {
        name: 'x.example',
        ttl: 60,
        type: 'SRV',
        priority: 1,
        weight: 2,
        port: 3,
        target: 'y.example',
      },
      { name: 'y.example', ttl: 60, type: 'A', address: '10.0.0.1' },
      { name: 'y.example', ttl: 60, type: 'AAAA', address: '1:2:3:4:5:6:7:8' },
    ],
  })
})

t.test('any bytes are an answer, none, or malformed: nothing else happens', async t => {
  const read = (message: Buffer): boolean => {
    try {
      decodeAnswer(message, 7, question)
      return true
    } catch (error) {
      return (error as Error).message.startsWith('its answer is malformed: ')
    }
  }
  const change = fc.tuple(fc.nat(whole.length - 1), fc.nat(255))
  const changed = fc.tuple(fc.array(change, { maxLength: 6 }), fc.nat(whole.length))
  fc.assert(
    fc.property(changed, ([changes, length]) => {
      const message = Buffer.from(whole)
      for (const [at, byte] of changes) message[at] = byte
      return read(message) && read(message.subarray(0, length))
    }),
    { numRuns: 3000 },
  )
  const random = fc.uint8Array({ maxLength: 400 })
  fc.assert(
    fc.property(random, bytes =>
      read(Buffer.concat([whole.subarray(0, 12), asked.question, bytes])),
    ),
    { numRuns: 2000 },
  )
  t.pass()
})

t.test('the most that a message can hold takes no time', async t => {
  // Names of 255 bytes, each by a pointer to the one before.
  const long = Buffer.concat([
    ...Array<Buffer>(3).fill(Buffer.from(`\u003f${'a'.repeat(63)}`)),
    Buffer.from(`\u003d${'b'.repeat(61)}\0`),
  ])
  const first = Buffer.concat([long, dns.u16(16, 1, 0, 0, 0)])
  const pointer = 0xc000 | (12 + asked.question.length)
  const next = dns.u16(pointer, 16, 1, 0, 0, 0)
  const count = Math.floor(
    (65_535 - 12 - asked.question.length - first.length) / next.length,
  )
  const message = dns.reply(asked, [first, ...Array<Buffer>(count).fill(next)])
  const from = performance.now()
  t.match(decodeAnswer(message, 7, question), { records: [] })
  t.ok(performance.now() - from < 1000)
})

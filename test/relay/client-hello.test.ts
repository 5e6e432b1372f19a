import { execFile } from 'node:child_process'
import * as fc from 'fast-check'
import t, { type Test } from 'tap'
import { readClientHello } from '../../src/relay/client-hello.ts'
import { ServerNames } from '../../src/relay/preface.ts'
import { capturedHello, helloFor } from '../support/client-hello.ts'
import { isInstalled } from '../support/installed.ts'

const run = (t: Test, program: string, ...args: readonly string[]): void => {
  const child = execFile(program, args, () => {})
  t.teardown(() => child.kill('SIGKILL'))
}

t.test('of real clients', async t => {
  t.same(readClientHello(await helloFor(t, 'db.example', 'h2', 'http/1.1')), {
    serverName: 'db.example',
    alpn: ['h2', 'http/1.1'],
  })
  t.same(readClientHello(await helloFor(t, '')), { serverName: undefined, alpn: [] })
  if (isInstalled('openssl'))
    for (const version of ['-tls1_2', '-tls1_3']) {
      const hello = await capturedHello(t, port =>
        run(
          t,
          'openssl',
          's_client',
          version,
          '-connect',
          `127.0.0.1:${port}`,
          '-servername',
          'Db.Example.',
          '-alpn',
          'postgresql',
        ),
      )
      t.same(
        readClientHello(hello),
        { serverName: 'db.example', alpn: ['postgresql'] },
        version,
      )
    }
  if (isInstalled('curl')) {
    const hello = await capturedHello(t, port =>
      run(
        t,
        'curl',
        '-sk',
        '--resolve',
        `www.example:${port}:127.0.0.1`,
        `https://www.example:${port}/`,
      ),
    )
    t.match(readClientHello(hello), { serverName: 'www.example' })
  }
})

/** The handshake of some records in records of `size` bytes. */
const inRecords = (hello: Buffer, size: number): Buffer => {
  const message = hello.subarray(5, 5 + hello.readUInt16BE(3))
  const records: Buffer[] = []
  for (let at = 0; at < message.length; at += size) {
    const piece = message.subarray(at, at + size)
    records.push(Buffer.from([22, 3, 1, piece.length >> 8, piece.length & 0xff]), piece)
  }
  return Buffer.concat(records)
}

t.test('however it is cut, into segments and records', async t => {
  const hello = await helloFor(t, 'db.example', 'h2')
  const whole = { serverName: 'db.example', alpn: ['h2'] }
  for (const size of [hello.length >> 6, 100, 1001, 16_384]) {
    const bytes = inRecords(hello, size)
    for (let cut = 0; cut < bytes.length; cut += 1)
      if (readClientHello(bytes.subarray(0, cut)) !== undefined) t.fail(`${size} ${cut}`)
    t.same(readClientHello(bytes), whole)
    const early = Buffer.concat([bytes, Buffer.from([23, 3, 3, 0, 1, 0])])
    t.same(readClientHello(early), whole, 'with early data behind it')
  }
})

t.test('what is no hello is for whoever takes it', async t => {
  const none = { serverName: undefined, alpn: [] }
  for (const hex of [
    '47',
    '00',
    '80',
    '1602',
    '16030100010e',
    '1603010000',
    '160301ffff',
  ])
    t.same(readClientHello(Buffer.from(hex, 'hex')), none, hex)
  t.equal(readClientHello(Buffer.alloc(0)), undefined)
  t.equal(readClientHello(Buffer.from('1603', 'hex')), undefined)
  t.type(readClientHello(Buffer.from('160301000401004001', 'hex')), 'string', 'too long')
  const tiny = (records: number) =>
    Buffer.concat(
      Array.from({ length: records }, () => Buffer.from('160301000100', 'hex')),
    )
  t.same(readClientHello(tiny(4000)), none, 'another message')
  const few = tiny(128)
  few[5] = 1
  few[11 + 6] = 1
  t.equal(readClientHello(few.subarray(0, -1)), undefined, 'the last may be larger')
  t.type(readClientHello(few), 'string', 'too many records')
})

t.test('a hello that is broken off by another record is none', async t => {
  const hello = await helloFor(t, 'db.example')
  const [start] = [inRecords(hello, 40).subarray(0, 45)]
  t.equal(readClientHello(start), undefined, 'more may come')
  const alert = Buffer.from([21, 3, 1, 0, 2, 2, 40])
  t.same(readClientHello(Buffer.concat([start, alert])), { alpn: [] })
  const empty = Buffer.from([22, 3, 1, 0, 0])
  t.same(readClientHello(Buffer.concat([start, empty])), { alpn: [] })
})

/** Of one server name and nothing else. */
const bareHello = (name: string): Buffer => {
  const sized = (size: number, ...parts: readonly Buffer[]): Buffer => {
    const whole = Buffer.concat([Buffer.alloc(size), ...parts])
    whole.writeUIntBE(whole.length - size, 0, size)
    return whole
  }
  const host = Buffer.concat([Buffer.from([0]), sized(2, Buffer.from(name))])
  const extension = Buffer.concat([Buffer.from([0, 0]), sized(2, sized(2, host))])
  const body = Buffer.concat([Buffer.alloc(38), sized(2, extension)])
  const message = Buffer.concat([Buffer.from([1]), sized(3, body)])
  return Buffer.concat([Buffer.from([22, 3, 1]), sized(2, message)])
}

t.test('a name that is longer than names are is none', t => {
  // To look for wildcards of one with 8,000 labels would take a second.
  for (const length of [1, 253, 255])
    t.match(readClientHello(bareHello('a'.repeat(length))), { serverName: /^a+$/ })
  for (const name of ['a'.repeat(256), 'a.'.repeat(8000)])
    t.same(readClientHello(bareHello(name)), { serverName: undefined, alpn: [] })
  t.end()
})

t.test('damage is survived, and read no further than it goes', async t => {
  const hello = await helloFor(t, 'db.example', 'h2')
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(hello.length - 1), fc.nat(255)), { maxLength: 8 }),
      fc.nat(hello.length),
      (changes, length) => {
        const bytes = Buffer.from(hello.subarray(0, length))
        for (const [at, value] of changes) if (at < length) bytes[at] = value
        const read = readClientHello(bytes)
        if (typeof read === 'object') {
          t.ok(read.alpn.every(name => name.length <= 255))
          t.ok((read.serverName?.length ?? 0) <= bytes.length)
        }
      },
    ),
    { numRuns: 3000 },
  )
})

t.test('which endpoints are for it', async t => {
  const pool = (names: string[] | undefined, alpn?: string[]) => ({
    names,
    alpn,
    endpoints: [],
  })
  const names = new ServerNames([
    pool(['*.example']),
    pool(['db.example', 'x.test']),
    pool(['*.apps.example']),
    pool(['db.example'], ['h2']),
    pool(['two.test'], ['a']),
    pool(['two.test']),
    pool(undefined, ['postgresql']),
  ])
  const of = (serverName: string | undefined, ...alpn: string[]) =>
    names.poolOf({ serverName, alpn })
  t.equal(of('db.example', 'h2'), 1, 'the first of those that fit')
  t.equal(of('www.example'), 0)
  t.equal(of('a.b.example'), 0, 'a wildcard is for any number of labels')
  t.equal(of('example'), undefined, 'and not for none')
  t.equal(of('a.apps.example'), 2, 'the longer wildcard')
  t.equal(of('apps.example'), 0)
  t.equal(of('two.test', 'b', 'a'), 4)
  t.equal(of('two.test'), 5)
  t.equal(of('other.test', 'postgresql'), 6)
  t.equal(of(undefined, 'postgresql'), 6)
  t.equal(of(undefined), undefined)
  t.equal(of('other.test', 'h2'), undefined)
})

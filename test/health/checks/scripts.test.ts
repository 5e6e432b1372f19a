import t from 'tap'
import type { CheckOutcome } from '../../../src/health/check.ts'
import { httpScript } from '../../../src/health/checks/http.ts'
import { mysqlScript } from '../../../src/health/checks/mysql.ts'
import { postgresScript } from '../../../src/health/checks/postgres.ts'
import { redisScript } from '../../../src/health/checks/redis.ts'
import type { Script } from '../../../src/health/conversation.ts'

/** What a script comes to when it hears `whole` a byte at a time, and what it says, in latin1. */
const play = (script: Script, whole: string) => {
  let bytes = Buffer.alloc(0)
  const said: string[] = []
  for (const byte of Buffer.from(whole, 'latin1')) {
    bytes = Buffer.concat([bytes, Buffer.from([byte])])
    const reply = script.receive(bytes)
    bytes = bytes.subarray(reply?.used ?? 0)
    if (reply?.send !== undefined) said.push(Buffer.from(reply.send).toString('latin1'))
    if (reply?.outcome === undefined) continue
    const { outcome } = reply
    return {
      said,
      words: inWords(outcome),
    }
  }
  return { said, words: 'more' }
}

/** `denied`: by an answer that says so. */
const inWords = (outcome: CheckOutcome): string => {
  if (outcome.ok) return `up ${outcome.note ?? ''}`
  return `${outcome.answered === true ? 'denied' : 'down'} ${outcome.reason}`
}

const packet = (sequence: number, body: string): string =>
  `${String.fromCharCode(body.length)}\0\0${String.fromCharCode(sequence)}${body}`

t.test('MySQL', async t => {
  const greeting = packet(0, `\x0a8.0.40\0${'x'.repeat(60)}`)
  const play1 = (...packets: readonly string[]) =>
    play(mysqlScript({ type: 'mysql', user: 'usher' }), packets.join(''))
  const ok = '\0\0\0\x02\0\0\0'
  const other = '\xfecaching_sha2_password\0salt\0'

  t.test('a login ends by COM_QUIT', async t => {
    const { said, words } = play1(greeting, packet(2, ok))
    t.equal(words, 'up ')
    t.ok(said[0]?.endsWith('usher\0\0mysql_native_password\0'))
    t.equal(said[1], '\x01\0\0\0\x01')
  })
  t.test('no password is told in the way of MySQL 8, too', async t => {
    const { said, words } = play1(greeting, packet(2, other), packet(4, ok))
    t.equal(words, 'up ')
    t.equal(said[1], packet(3, '\0'))
  })
  t.test('an account with a password is refused to the end', async t => {
    const denied = packet(8, '\xff\x15\x04#28000Access denied')
    const { said, words } = play1(
      greeting,
      packet(2, other),
      packet(4, '\x01\x04'),
      denied,
    )
    t.match(words, /^up each one counts as a failed login.*"Access denied" \(1045\)/)
    t.same(said.slice(1), [packet(3, '\0'), packet(5, '')])
  })
  t.test('errors in place of a greeting or a login', async t => {
    const table = [
      [[packet(0, '\xff\x10\x04Too many')], 'up '],
      [[packet(0, '\xff\x69\x04Host is blocked')], 'denied "Host is blocked" (1129)'],
      [[greeting, packet(2, '\xff\x1d\x04#08S01Shutdown')], 'denied "Shutdown" (1053)'],
      [[greeting, ...Array<string>(6).fill(packet(2, other))], /not MySQL$/],
      [['HTTP/1.1 400'], /not MySQL$/],
      [[packet(0, '\x09old')], /not MySQL$/],
    ] as const
    for (const [packets, wanted] of table) t.match(play1(...packets).words, wanted)
  })
})

t.test('HTTP', async t => {
  const table = [
    ['HTTP/1.1 200 OK\r\n\r\n', 'up '],
    ['HTTP/1.0 200\r\nServer: x\r\n\r\n', 'up '],
    ['HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n', 'up '],
    [
      'HTTP/1.1 100\r\n\r\nHTTP/1.1 503 No\r\n\r\n',
      /^denied HTTP status 503, expected 200$/,
    ],
    ['HTTP/1.1 101 Hm\r\n\r\n', /^denied HTTP status 101/],
    // As scripts behind inetd end their lines (clustercheck, mysqlchk).
    ['HTTP/1.1 200 OK\r\n\n', /^up /],
    ['HTTP/1.1 200 OK\n\n', /^up /],
    ['HTTP/1.1 200\n\r\n', /^up /],
    ['HTTP/1.1 100\n\nHTTP/1.1 503 No\nA: b\n\n', /^denied HTTP status 503/],
    ['HTTP/1.1 200 OK\nServer: x\n', 'more'],
    ['HTTP/1.1 103 Early\r\n\r\n', 'more'],
    ['HTTP/1.1 200 OK\r\nServer: x\r\n', 'more'],
    ['HTTP/1.1 2000 OK\r\n\r\n', /^down no HTTP answer: "HTTP\/1.1 2000 OK"$/],
    ['HTTP/2 200\r\n\r\n', /^down no HTTP answer/],
    ['\x15\x03\x01', /^down no HTTP answer/],
    ['HTTP/1.1 100\r\n\r\n'.repeat(9), /^down no HTTP answer/],
  ] as const
  for (const [heard, wanted] of table) {
    const script = httpScript({ type: 'http', path: '/x?y' }, '[::1]:80')
    t.match(play(script, heard).words, wanted, heard.slice(0, 40))
    t.equal(
      String(script.opening),
      'GET /x?y HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n',
    )
  }
})

t.test('PostgreSQL', async t => {
  const error = (state: string): string => {
    const body = `SFATAL\0C${state}\0Mwords\0\0`
    return `E\0\0\0${String.fromCharCode(4 + body.length)}${body}`
  }
  const play1 = (heard: string) =>
    play(postgresScript({ type: 'postgres', user: 'u', database: 'd' }), heard)

  t.equal(
    play1('N').said[0],
    '\0\0\0\x38\0\x03\0\0user\0u\0database\0d\0application_name\0usher-check\0\0',
  )
  const table = [
    ['NR\0\0\0\x08\0\0\0\0', 'up '],
    ['SR\0\0\0\x17\0\0\0\x0a', 'up '],
    [`N${error('57P01')}`, 'denied "words" (57P01)'],
    [`N${error('57P03')}`, 'denied "words" (57P03)'],
    [error('57P03'), 'denied "words" (57P03)'],
    [`N${error('53300')}`, 'up '],
    [`N${error('28000')}`, /^up each one is refused, and logged.*"words"/],
    [`N${error('3D000')}`, /^up each one is refused, and logged/],
    ['Ecould not fork new process', /not PostgreSQL$/],
    ['HTTP/1.1 400', /not PostgreSQL$/],
    ['NR\0\0', 'more'],
  ] as const
  for (const [heard, wanted] of table) t.match(play1(heard).words, wanted)
})

t.test('Redis', async t => {
  const table = [
    [undefined, '+PONG\r\n', 'up '],
    [undefined, '-NOAUTH Authentication required.\r\n', 'up '],
    [undefined, '-NOPERM no\r\n', 'up '],
    [undefined, '-ERR max number of clients reached\r\n', 'up '],
    [undefined, '-BUSY a script\r\n', 'denied answered "-BUSY a script" to PING'],
    [undefined, '-LOADING data\r\n', /^denied answered "-LOADING/],
    [undefined, '+PON', 'more'],
    [undefined, 'HTTP/1.1 400\r\n', /^down answered "HTTP/],
    ['primary', '+PONG\r\n*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n', 'up '],
    ['replica', '+PONG\r\n*5\r\n$5\r\nslave\r\n', 'up '],
    [
      'primary',
      '+PONG\r\n*1\r\n$8\r\nsentinel\r\n',
      'denied is sentinel, expected primary',
    ],
    ['primary', '+PONG\r\n', 'more'],
    ['primary', '-NOAUTH no\r\n-NOAUTH no\r\n', /^down answered "-NOAUTH/],
  ] as const
  for (const [role, heard, wanted] of table) {
    const script = redisScript({ type: 'redis', ...(role !== undefined && { role }) })
    t.match(play(script, heard).words, wanted, heard)
  }
})

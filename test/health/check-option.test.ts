import * as fc from 'fast-check'
import t from 'tap'
import * as v from 'valibot'
import {
  checkFaults,
  checkShape,
  decodeCheck,
  readBytes,
} from '../../src/health/check-option.ts'
import type { Check } from '../../src/health/check-option.ts'

t.test('texts', async t => {
  const table = [
    ['tcp', { type: 'tcp' }],
    ['tcp://:8080', { type: 'tcp', port: 8080 }],
    ['http', { type: 'http' }],
    ['http://:8008/primary', { type: 'http', port: 8008, path: '/primary' }],
    ['http:///replica?lag=1', { type: 'http', path: '/replica?lag=1' }],
    ['postgres', { type: 'postgres' }],
    ['postgres://app@', { type: 'postgres', user: 'app' }],
    [
      'postgres://app@:5433/db',
      { type: 'postgres', port: 5433, user: 'app', database: 'db' },
    ],
    ['redis', { type: 'redis' }],
    ['redis://:6380/primary', { type: 'redis', port: 6380, role: 'primary' }],
    ['mysql', { type: 'mysql' }],
    ['https://:8008/primary', { type: 'http', tls: true, port: 8008, path: '/primary' }],
    ['mysql://health@:3307', { type: 'mysql', user: 'health', port: 3307 }],
  ] as const
  for (const [text, check] of table) {
    t.same(checkFaults(text), [], text)
    t.same(decodeCheck(text).check, check, text)
  }
})

t.test('objects are checks as they are', async t => {
  for (const given of [
    { type: 'http', port: 8008, path: '/x', expectStatus: [204], tls: true },
    { type: 'http', headers: { 'X-A': 'b' }, method: 'HEAD', host: 'db.example:8008' },
    { type: 'http', tls: true, caFile: '/ca', certFile: '/c', keyFile: '/k' },
    { type: 'http', tls: true, verify: 'none' },
    { type: 'redis', role: 'replica', user: 'a', password: 'b' },
    { send: String.raw`a\r\n`, expect: '/^2/' },
  ] as const) {
    t.same(checkFaults(given), [], JSON.stringify(given))
    t.equal(decodeCheck(given).check, given)
  }
})

t.test('when to check', async t => {
  const usual = { intervalMs: 2000, timeoutMs: 2000, fall: 3, rise: 2 }
  t.same(decodeCheck('tcp').rules, { ...usual, init: 'up' })
  t.same(decodeCheck('http').rules, { ...usual, init: 'down' })
  t.same(decodeCheck('redis').rules.init, 'up')
  t.same(decodeCheck('redis:///primary').rules.init, 'down')
  t.same(decodeCheck({ expect: 'role:master' }).rules.init, 'down')
  t.same(
    decodeCheck({
      type: 'http',
      interval: '500ms',
      timeout: '1s',
      fall: 1,
      rise: 5,
      init: 'up',
    }).rules,
    { intervalMs: 500, timeoutMs: 1000, fall: 1, rise: 5, init: 'up' },
  )
})

t.test('faults are named with what would be right', async t => {
  const table = [
    ['', '', /^"" is not tcp, http:\/\/:PORT\/PATH, postgres, redis or mysql, like http/],
    ['tpc', '', /^"tpc" is unknown; did you mean tcp\?$/],
    ['https://db:8008/', '', /asked itself, give https:\/\/:PORT$/],
    ['https://a@:80/', '', /^names a user, which https has no use for/],
    [{ type: 'http', caFile: '/ca' }, 'caFile', /^does nothing without tls; give that/],
    [{ type: 'http', tls: true, certFile: '/c' }, 'certFile', /without keyFile; give/],
    [{ type: 'http', tls: true, keyFile: '/c' }, 'keyFile', /without certFile; give/],
    [{ type: 'http', tls: true, verify: false }, 'verify', /^false is not none; leave/],
    [{ type: 'http', tls: true, caFile: 'ca' }, 'caFile', /is not the absolute path/],
    [{ type: 'http', method: 'get' }, 'method', /is not GET, HEAD, OPTIONS or POST$/],
    [{ type: 'http', host: 'a b' }, 'host', /is not a host name/],
    [{ type: 'http', headers: { Host: 'a' } }, 'headers', /is not a header that/],
    [{ type: 'http', headers: { X: 'a\r\nY: b' } }, 'headers', /more than printable/],
    [
      { type: 'http', headers: { X: 123_456 } },
      'headers',
      /^is not text; put it in quotes$/,
    ],
    [{ type: 'http', headers: [] }, 'headers', /^a list is not a mapping of headers/],
    [{ type: 'redis', password: 123_456 }, 'password', /^is not text; put it in quotes$/],
    [{ type: 'redis', password: '' }, 'password', /^is empty, too long/],
    [{ type: 'redis', user: 'a' }, 'user', /^does nothing without password; give that/],
    [
      'http://db:8008/',
      '',
      /^names the host "db"; each endpoint is asked itself, give http:\/\/:PORT$/,
    ],
    ['redis://primary', '', /asked itself, give redis:\/\/\/primary$/],
    ['redis://db', '', /asked itself, give redis:\/\/:PORT$/],
    ['mysql://usher', '', /asked itself, give mysql:\/\/:PORT, or mysql:\/\/USER@$/],
    ['http://:0/', '', /^port "0" is not a port: 1 to 65535$/],
    ['http://:/', '', /^port "" is not a port/],
    ['http://:80/a b', '', /^path "\/a b" is not one like \/primary/],
    ['http://a@:80/', '', /^names a user, which http has no use for/],
    ['tcp://:80/path', '', /^has the path "\/path", which it has no use for/],
    ['redis:///leader', '', /^role "leader" is not primary or replica$/],
    ['mysql://@', '', /^"" is not a name: 1 to 63 characters without spaces$/],
    [7, '', /^7 is not tcp/],
    [null, '', /^null is not tcp/],
    [[], '', /^a list is not tcp/],
    [{}, 'type', /^is missing; give tcp, http, postgres, redis, mysql$/],
    [{ send: 'x' }, 'expect', /^is missing; give text that the answer begins with/],
    [{ type: 'htp' }, 'type', /^"htp" is not tcp, http, postgres, redis or mysql$/],
    [
      { type: 'tcp', path: '/' },
      'path',
      /^does not apply to a check by tcp; leave it out$/,
    ],
    [{ expect: 'a', path: '/' }, 'path', /^does not apply to a check by send and expect/],
    [{ type: 'tcp', prot: 1 }, 'prot', /^is unknown; did you mean port\?$/],
    [{ type: 'tcp', port: '1' }, 'port', /^"1" is not a port: 1 to 65535$/],
    [{ type: 'tcp', fall: 0 }, 'fall', /^0 is not a number of checks: 1 to 100$/],
    [
      { type: 'tcp', interval: '2' },
      'interval',
      /^"2" is not a duration from 100ms to 1h/,
    ],
    [{ type: 'tcp', timeout: 2 }, 'timeout', /^2 is not a duration from 100ms to 1h/],
    [{ type: 'tcp', init: 'on' }, 'init', /^"on" is not up or down$/],
    [{ type: 'http', path: 'x' }, 'path', /^path "x" is not one like \/primary/],
    [
      { type: 'http', expectStatus: 'ok' },
      'expectStatus',
      /^"ok" is not an HTTP status or a list/,
    ],
    [{ type: 'http', expectStatus: [] }, 'expectStatus', /list/],
    [{ type: 'http', expectStatus: [99] }, 'expectStatus', /HTTP status/],
    [{ expect: String.raw`\q` }, 'expect', /is not text with no escapes but/],
    [{ expect: '' }, 'expect', /^"" is not text that the answer begins with/],
    [{ expect: '/(/' }, 'expect', /^"\/\(\/" is not a regular expression$/],
    [{ expect: '/é/' }, 'expect', /more than ASCII/],
  ] as const
  for (const [given, field, message] of table) {
    const [fault, ...more] = checkFaults(given)
    const what = JSON.stringify(given)
    t.equal(fault?.field.split('.', 1)[0], field, what)
    t.match(fault?.message, message, what)
    t.same(more, [], what)
  }
  t.equal(checkFaults({ type: 'tcp', port: 0, rise: 0, x: 1 }).length, 3, 'all at once')
})

t.test('in the shape of a route, faults have their path', async t => {
  const shape = v.object({ check: v.optional(checkShape) })
  const pathsOf = (given: unknown) =>
    (v.safeParse(shape, given).issues ?? []).map(issue =>
      issue.path?.map(({ key }) => String(key)).join('.'),
    )
  t.same(pathsOf({}), [])
  t.same(pathsOf({ check: 'tcp' }), [])
  t.same(pathsOf({ check: { type: 'http', port: 8008 } }), [])
  t.same(pathsOf({ check: 'no' }), ['check'])
  t.same(pathsOf({ check: { type: 'http', port: 0, path: 1 } }), [
    'check.port',
    'check.path',
  ])
})

t.test('anything at all is a check or has faults', async () => {
  const near = fc.oneof(
    fc.anything(),
    fc.string(),
    fc
      .tuple(fc.constantFrom('http', 'tcp', 'mysql', 'redis', 'postgres'), fc.string())
      .map(([type, rest]) => `${type}://${rest}`),
    fc.record(
      {
        type: fc.oneof(fc.constantFrom('http', 'tcp', 'redis', 'mysql'), fc.anything()),
        expect: fc.oneof(fc.string(), fc.anything()),
        send: fc.string(),
        port: fc.oneof(fc.integer(), fc.anything()),
      },
      { requiredKeys: [] },
    ),
  )
  fc.assert(
    fc.property(near, given => {
      const faults = checkFaults(given)
      if (faults.length > 0) return faults.every(({ message }) => message !== '')
      const { check, rules } = decodeCheck(given as Check)
      return check !== undefined && rules.intervalMs > 0
    }),
  )
})

t.test('bytes as they are written', async t => {
  t.equal(readBytes(String.raw`a\r\n\t\0\\\x00\xFf`), 'a\r\n\t\0\\\0\xff')
  t.equal(readBytes('é'), '\xc3\xa9')
  for (const wrong of [String.raw`\x1`, String.raw`\q`, '\\', String.raw`\u0041`])
    t.equal(readBytes(wrong), undefined, wrong)
})

import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import t from 'tap'
import type { EndpointSpec, Protocol } from '../../src/model/service.ts'
import type { Endpoint } from '../../src/model/snapshot.ts'
import { mergeSlices } from '../../src/model/service-ports.ts'
import { endpoint, notReady, slice, terminating } from '../support/objects.ts'

const http = { family: 'IPv4', portName: 'http', protocol: 'TCP' } as const
const texts = (endpoints: readonly Endpoint[]): string[] =>
  endpoints.map(({ address, port }) => `${address}:${port}`)

const withPort = (name: string, protocol: Protocol, number: number) => ({
  ports: [{ name, protocol, port: number }],
})

t.test('merging slices', async t => {
  t.test('sorts by the text of ip:port, not by number', async t => {
    const merged = mergeSlices(
      [
        slice([endpoint('10.0.0.9')]),
        slice([endpoint('10.0.0.10'), endpoint('9.0.0.1')]),
      ],
      http,
    )
    t.same(texts(merged), ['10.0.0.10:8080', '10.0.0.9:8080', '9.0.0.1:8080'])
  })

  t.test('takes only slices and ports that match', async t => {
    const slices = [
      slice([endpoint('10.0.0.1')]),
      slice([endpoint('10.0.0.2')], withPort('http', 'UDP', 1)),
      slice([endpoint('10.0.0.3')], withPort('https', 'TCP', 2)),
      slice([endpoint('10.0.0.4')], withPort('', 'TCP', 3)),
      slice([endpoint('2001:db8::1')], { family: 'IPv6' }),
    ]
    t.same(texts(mergeSlices(slices, http)), ['10.0.0.1:8080'])
    t.same(texts(mergeSlices(slices, { ...http, portName: '' })), ['10.0.0.4:3'])
    t.same(texts(mergeSlices(slices, { ...http, protocol: 'UDP' })), ['10.0.0.2:1'])
    const [v6] = mergeSlices(slices, { ...http, family: 'IPv6' })
    t.equal(v6?.address, '2001:db8::1')
  })

  t.test('keeps one address on two target ports as two endpoints', async t => {
    const other = slice([endpoint('10.0.0.1')], {
      ports: [{ name: 'http', protocol: 'TCP', port: 9090 }],
    })
    t.same(texts(mergeSlices([slice([endpoint('10.0.0.1')]), other], http)), [
      '10.0.0.1:8080',
      '10.0.0.1:9090',
    ])
  })

  const rivals: [
    why: string,
    winner: Partial<EndpointSpec>,
    loser: Partial<EndpointSpec>,
  ][] = [
    ['a running pod beats a terminating one with the same address', {}, terminating],
    ['one that is not ready yet beats a terminating one', notReady, terminating],
    ['ready beats not ready', {}, notReady],
    ['serving beats not serving', { ready: false }, notReady],
    ['a known node beats an unknown one', { nodeName: 'n' }, { zone: 'z' }],
    ['a known zone beats an unknown one', { zone: 'z' }, {}],
    ['one with hints beats one without', { zoneHints: ['a'] }, {}],
  ]
  for (const [why, winner, loser] of rivals) {
    t.test(`${why}, in either order`, async t => {
      const good = slice([endpoint('10.0.0.1', winner)])
      const bad = slice([endpoint('10.0.0.1', loser)])
      const expected = [{ ...endpoint('10.0.0.1', winner), port: 8080 }]
      t.strictSame(mergeSlices([good, bad], http), expected)
      t.strictSame(mergeSlices([bad, good], http), expected)
    })
  }

  t.test('the order of slices and endpoints never matters', async () => {
    const spec = fc.record({
      address: fc.constantFrom('10.0.0.1', '10.0.0.2', '10.0.0.10'),
      ready: fc.boolean(),
      serving: fc.boolean(),
      terminating: fc.boolean(),
      nodeName: fc.constantFrom('', 'm', 'n'),
      zone: fc.constantFrom('', 'y', 'z'),
      zoneHints: fc.constantFrom([], ['y'], ['z']),
      nodeHints: fc.constantFrom([], ['m'], ['m', 'n']),
    })
    const shuffled = fc.array(spec, { maxLength: 12 }).chain(specs =>
      fc.tuple(
        fc.constant(specs),
        fc.shuffledSubarray(specs, {
          minLength: specs.length,
          maxLength: specs.length,
        }),
      ),
    )
    fc.assert(
      fc.property(shuffled, fc.nat(12), ([one, other], cut) => {
        const merged = mergeSlices([slice(one)], http)
        const pieces = [slice(other.slice(0, cut)), slice(other.slice(cut))]
        assert.deepStrictEqual(mergeSlices(pieces, http), merged)
        assert.equal(merged.length, new Set(one.map(({ address }) => address)).size)
      }),
    )
  })
})

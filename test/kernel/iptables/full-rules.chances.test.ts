import { createHash } from 'node:crypto'
import t from 'tap'
import { type IpFamily, ipFamilies } from '../../../src/util/ip.ts'
import { restore } from '../../support/iptables-tracer/rule-set.ts'
import { shares, told, trace } from '../../support/iptables-tracer/trace.ts'
import { addresses, changesOf, numberOf, serviceKinds } from './service-kinds.ts'
import { clientsOf, destinationOf, expectedOf } from './packet-table.ts'
import { situations } from './situations.ts'
import { textOf } from './golden-world.ts'

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** kube-proxy's: 16 letters of base32, which are 80 bits of the hash (RFC 4648). */
const hashOf = (text: string): string => {
  const bytes = createHash('sha256').update(text).digest().subarray(0, 10)
  const bits = Array.from(bytes, byte => byte.toString(2).padStart(8, '0')).join('')
  return bits.replace(/.{5}/g, five => letters[Number(`0b${five}`)] ?? '')
}

t.test("hashes are kube-proxy's", async t => {
  t.equal(hashOf('ns4/svc4:p80tcp'), '4SW47YFZTEDKD3PK')
  t.equal(hashOf('ns1/svc1:p80tcp10.180.0.1:80'), 'SXIVWICOYRO3J4NJ')
})

const outsideOf = (family: IpFamily) => {
  const client = clientsOf(family).get('outside')
  if (client === undefined) throw new Error('no outside')
  return { ...client, protocol: 'tcp' } as const
}

t.test('three endpoints get a third each', async t => {
  const rules = restore(textOf(situations['several-endpoints'] ?? {}))
  const packet = { ...outsideOf('IPv4'), destination: '172.30.0.1', port: 443 }
  const chances = shares(trace(rules, packet))
  t.same(Object.keys(chances).toSorted(), [
    '10.180.0.10:6443',
    '10.180.0.9:6443',
    '10.180.1.2:6443',
  ])
  for (const chance of Object.values(chances)) t.ok(Math.abs(chance - 1 / 3) < 1e-8)
})

for (const family of ipFamilies) {
  const changes = serviceKinds.flatMap((kind, i) => changesOf(kind, i + 1, family))
  const rules = restore(textOf({ changes, family }))

  t.test(`${family}: a client that is not remembered may go to all alike`, async t => {
    for (const [title, seen] of [
      ['both policies Cluster', undefined],
      ['affinity', []],
    ] as const) {
      const to = destinationOf('cluster IP', numberOf(title), family)
      const packet = { ...outsideOf(family), ...to, ...(seen && { seen }) }
      t.same(Object.values(shares(trace(rules, packet))), [0.5, 0.5], title)
    }
  })

  t.test(`${family}: a client that is remembered goes where it was`, async t => {
    const n = numberOf('affinity and externalTrafficPolicy Local')
    const listOf = (address: string): string =>
      `KUBE-SEP-${hashOf(`default/svc${n}:httptcp${family === 'IPv6' ? `[${address}]` : address}:8080`)}`
    const dial = (column: 'cluster IP' | 'node port', address: string) => {
      const packet = { ...outsideOf(family), ...destinationOf(column, n, family) }
      return told(trace(rules, { ...packet, seen: [listOf(address)] }))
    }
    const { local, remote } = addresses[family]
    const expected = (cell: string) => expectedOf(cell, n, family)
    t.equal(dial('cluster IP', local(n)), expected('local*'))
    t.equal(dial('cluster IP', remote(n)), expected('remote*'))
    t.equal(dial('node port', local(n)), expected('local'))
    t.equal(dial('node port', remote(n)), expected('local'), 'not where it may not go')
  })
}

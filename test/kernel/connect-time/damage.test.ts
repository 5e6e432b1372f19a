import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadBpfCall } from '../../../src/ffi/bpf-call.ts'
import { Bpf } from '../../../src/kernel/bpf/bpf.ts'
import { clusterIp } from '../../support/service-ports.ts'
import { until } from '../../support/until.ts'
import { snapshotOf } from '../nftables/world.ts'
import { skip } from './group.ts'
import { type LedNode, makeLedNode } from './led-node.ts'
import { endpointsAt, serviceTo } from './world.ts'

/** BPF_LINK_DETACH of enum bpf_cmd. */
const linkDetach = 34

/** Takes the program of a pinned link from its hook; the file stays. */
const detach = (path: string): void => {
  const bpf = new Bpf()
  const link = bpf.pinned(path)
  if (link === undefined) throw new Error(`no ${path}`)
  const call = loadBpfCall()
  const attributes = call.allocate(16)
  attributes.bytes.fill(0)
  attributes.bytes.writeUInt32LE(link, 0)
  const result = call.call(linkDetach, attributes.address, 4)
  bpf.close(link)
  if (result < 0) throw new Error(`detach: ${result}`)
}

const every = ({ layout }: LedNode, wanted: RegExp): readonly string[] =>
  readdirSync(layout())
    .filter(name => wanted.test(name))
    .map(name => join(layout(), name))

const damages: Readonly<Record<string, (node: LedNode) => void>> = {
  'a link is removed from the bpffs': node =>
    rmSync(join(node.layout(), 'link-us_connect4')),
  'all links are removed': node => {
    for (const each of every(node, /^link/)) rmSync(each)
  },
  'a table is removed': node => rmSync(join(node.layout(), 'table-services')),
  'all of it is removed': node => rmSync(node.layout(), { recursive: true }),
  'a program is taken from its hook': node =>
    detach(join(node.layout(), 'link-us_connect4')),
  'all programs are taken from their hooks': node => {
    for (const each of every(node, /^link/)) detach(each)
  },
}

t.test('what others damage is noticed, and made anew', { skip }, async t => {
  const node = await makeLedNode(t)
  const { steering, clock, group, metric } = node
  const client = await group.client()
  const to = await endpointsAt(client, '127.0.0.11')
  const snapshots = [snapshotOf([serviceTo('web', [clusterIp('10.96.0.1')], to)])]
  const dial = async () => {
    const { said, error } = await client.tcp('10.96.0.1', 80)
    return said?.split(' ')[0] ?? error
  }
  await steering.sync(snapshots)
  t.same(steering.problems, [])
  let repairs = 0
  for (const [what, damage] of Object.entries(damages))
    await t.test(what, async t => {
      t.equal(await dial(), '127.0.0.11')
      damage(node)
      const asked = node.resyncs()
      clock.advance(4000)
      await until('it asks for a sync', () => node.resyncs() > asked)
      t.equal(metric('repairs_total'), (repairs += 1))
      await steering.sync(snapshots)
      t.same(steering.problems, [])
      t.equal(metric('sync_failures_total'), 0)
      t.equal(await dial(), '127.0.0.11', 'led again')
      await until('by each program once', () => node.programs() === node.hooks)
      clock.advance(4000)
      await new Promise(setImmediate)
      t.equal(metric('repairs_total'), repairs, 'nothing is wrong any more')
    })
})

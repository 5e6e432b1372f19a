import t from 'tap'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'
import { clusterIp } from '../../support/service-ports.ts'
import { meaningOf } from './listing.ts'
import { situationsOf } from './situations.ts'
import { makeWorld, serviceOf, skip, snapshotOf } from './world.ts'

const settings = situationsOf('IPv4')['pods by their addresses']?.settings
if (settings === undefined) throw new Error('no settings')

const web = serviceOf('web', [clusterIp('10.96.0.1')], ['10.244.0.1', '10.244.0.2'])
const three = serviceOf(
  'three',
  [clusterIp('10.96.0.3')],
  ['10.244.0.1', '10.244.0.2', '10.244.0.3'],
)
const other = serviceOf('other', [clusterIp('10.96.0.4')], ['10.244.0.4'])

t.test('what a process before has left is emptied at once', { skip }, async t => {
  const { clock, list, proxier } = await makeWorld()
  await proxier().sync(snapshotOf([web, three]), settings)
  const name = 'cluster-ip-tcp-3'
  t.not((await list()).chains.get(name)?.rules.length, 0)
  const next = proxier()
  await next.sync(snapshotOf([web]), settings)
  t.same((await list()).chains.get(name)?.rules, [], 'no rule goes later')
  clock.advance(10_000)
  await next.sync(snapshotOf([web, other]), settings)
  t.notOk((await list()).chains.has(name))
})

t.test('chains that Services share stay with their rules', { skip }, async t => {
  const { clock, list, proxier, inputs } = await makeWorld()
  const one = proxier()
  await one.sync(snapshotOf([web, three]), settings)
  await one.sync(snapshotOf([web]), settings)
  clock.advance(10_000)
  await one.sync(snapshotOf([web, other]), settings)
  t.same(meaningOf(await list()).stale, ['chain cluster-ip-tcp-3'])
  await one.sync(snapshotOf([web, three]), settings)
  t.notMatch(inputs.at(-1), /chain/, 'and are not written again')
})

t.test('a mode that has ended writes nothing', { skip }, async t => {
  const { inputs, proxier, told } = await makeWorld()
  const one = proxier()
  await one.sync(snapshotOf([web]), settings)
  const before = inputs.length
  one.close()
  await t.rejects(one.sync(snapshotOf([web, other]), settings), /nftables mode has ended/)
  await t.rejects(one.sync(snapshotOf([web]), settings), /nftables mode has ended/)
  t.equal(inputs.length, before)
  t.same(told, [])
})

t.test('a tool that hangs is no reason to make the table anew', { skip }, async t => {
  let hangs = false
  const around =
    (run: RunTool): RunTool =>
    async (command, args, options) => {
      const text = await run(command, args, options)
      if (hangs && args.includes('-f')) throw new ToolError('nft: hangs', 'timeout', '')
      return text
    }
  const { inputs, proxier } = await makeWorld({ around })
  const one = proxier()
  await one.sync(snapshotOf([web]), settings)
  one.forget()
  inputs.length = 0
  hangs = true
  await t.rejects(one.sync(snapshotOf([web, other]), settings), /hangs/)
  t.equal(inputs.length, 1)
  hangs = false
  t.same(await one.sync(snapshotOf([web, other]), settings), { work: 'full' })
  t.notMatch(inputs.join(''), /delete table/)
})

import t from 'tap'
import { flowRule } from '../../../src/kernel/nftables/nftables-proxier.ts'
import { plainSettings } from '../../../src/kernel/proxier.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'
import { clusterIp } from '../../support/service-ports.ts'
import { makeWorld, serviceOf, skip, snapshotOf } from './world.ts'

const web = serviceOf('web', [clusterIp('10.96.0.1')], ['10.244.0.1', '10.244.0.2'])
const settings = { ...plainSettings, flowtableDevices: ['eth0', 'cni0'] }

/** A kernel that has flowtables, as far as nft is asked; the one that is there does the rest. */
const withFlowtables =
  (run: RunTool): RunTool =>
  async (command, args, options) => {
    if (args.includes('--check')) return ''
    const lines = options?.input
      ?.split('\n')
      .filter(line => !/flow(table| add)/.test(line))
    return run(command, args, lines ? { ...options, input: lines.join('\n') } : options)
  }

t.test(
  'one that the kernel has not is a problem, and Services are served',
  { skip },
  async t => {
    const { proxier, inputs, told } = await makeWorld({
      around: run => async (command, args, options) => {
        if (!args.includes('--check')) return run(command, args, options)
        throw new ToolError(
          'nft: exit code 1',
          'failed',
          '/dev/stdin:2:1-9: Error: Could not process rule: No such file or directory\nmore',
        )
      },
    })
    const one = proxier()
    t.same(await one.sync(snapshotOf([web]), settings), { work: 'full' })
    t.match(one.problems(), [
      {
        object: 'flowtable',
        field: 'IPv4',
        message:
          '--nftables-flowtable-devices: no flowtable is used, because of: Could not process rule: No such file or directory (the kernel lacks nf_flow_table, or a device is not there)',
      },
    ])
    t.notMatch(inputs.join(''), /flow/)
    t.same(await one.sync(snapshotOf([web]), plainSettings), { work: 'full' })
    t.same(one.problems(), [])
    t.same(told, [])
  },
)

t.test('it is for connections of Services that stand', { skip }, async t => {
  const asked: string[] = []
  const { proxier } = await makeWorld({
    around: run => {
      const rest = withFlowtables(run)
      return (command, args, options) => {
        if (!args.includes('--check')) asked.push(options?.input ?? '')
        return rest(command, args, options)
      }
    },
  })
  await proxier().sync(snapshotOf([web]), settings)
  const text = asked.join('')
  t.match(
    text,
    'flowtable ip usher-services services { hook ingress priority 0; devices = { "eth0", "cni0" }; }',
  )
  t.match(text, `add rule ip usher-services filter-forward ${flowRule}`)
})

t.test(
  'one with other devices is made anew, with all of its table',
  { skip },
  async t => {
    const { proxier, inputs } = await makeWorld({ around: withFlowtables })
    const one = proxier()
    const isAnew = async (...flowtableDevices: string[]) => {
      inputs.length = 0
      one.forget()
      await one.sync(snapshotOf([web]), { ...settings, flowtableDevices })
      return inputs.join('').includes('delete table ip usher-services')
    }
    t.equal(await isAnew('eth0', 'cni0'), true)
    t.equal(await isAnew('eth0', 'cni0'), false)
    t.equal(await isAnew('eth0'), true)
    t.equal(await isAnew(), true)
    t.equal(await isAnew(), false)
  },
)

import t from 'tap'
import { Monitor, spawnMonitor } from '../../../src/kernel/nft/monitor.ts'
import { isOlder } from '../../../src/kernel/nft/packet-probe.ts'
import { probeForms } from '../../../src/kernel/nftables/nftables-kind.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { makeWorld, skip } from './world.ts'

const clock = new FakeClock()
const monitor = new Monitor({ clock, spawn: spawnMonitor, tables: ['none'] })

const at = (port: number) => ({ address: '127.0.0.1', port })

/** What a probe finds whose rules are taken, and whose connection comes to its end. */
const probed = (run: RunTool, arrives = true) =>
  probeForms('IPv4', {
    run,
    clock,
    monitor,
    packetProbe: async (_family, steer) => {
      await steer(at(1), at(2))
      return arrives
    },
  })

t.test('versions are compared by their numbers', async t => {
  for (const old of ['nft 0.9.8', 'nft 1.0', 'nft 1.0.0', 'nft 1.0.0-rc1'])
    t.ok(isOlder(old, [1, 0, 1]), old)
  for (const fine of [
    'nft 1.0.1',
    'nft 1.0.6',
    'nft 1.1',
    'nft 2.0.0',
    'nft 1.0.10',
    'nft who knows',
  ])
    t.notOk(isOlder(fine, [1, 0, 1]), fine)
})

t.test('no nft, or an old one', async t => {
  const missing: RunTool = async () => {
    throw new ToolError('nft is not installed', 'missing', '')
  }
  t.match(await probed(missing), { usable: false, detail: 'nft is not installed' })
  const old: RunTool = async () => 'nftables v0.9.8 (E.D.S.)'
  t.match(await probed(old), {
    usable: false,
    detail: 'nft 0.9.8 is too old: 1.0.1 or newer is needed',
  })
})

t.test(
  'what nft takes is what the mode writes, and nothing is left of it',
  { skip },
  async t => {
    const { run, inputs } = await makeWorld()
    const recorded: RunTool = (command, args, options) => {
      if (options?.input !== undefined) inputs.push(options.input)
      return run(command, args, options)
    }
    t.match(await probed(recorded), {
      usable: true,
      form: 'shared',
      detail: /^nft [\d.]+$/,
    })
    t.match(inputs.join(''), 'numgen random mod 2 map @endpoints-tcp')
    t.equal(await run('nft', ['list', 'tables']), '')
    t.match(await probed(run, false), {
      usable: false,
      detail: /no connection follows them/,
    })
    t.equal(await run('nft', ['list', 'tables']), '')
  },
)

t.test(
  'a tool that refuses slots of a shared map gets a map for each Service',
  { skip },
  async t => {
    const { run } = await makeWorld()
    const picky: RunTool = async (command, args, options) => {
      if (/typeof .*numgen/.test(options?.input ?? ''))
        throw new ToolError('nft: exit code 1', 'failed', '1:2-3: Error: syntax error')
      return run(command, args, options)
    }
    t.match(await probed(picky), {
      usable: true,
      form: 'own',
      detail: /a map for each Service/,
    })
    const refusing: RunTool = async (command, args, options) => {
      if (
        options?.input !== undefined &&
        !options.input.includes('delete table ip usher-probe')
      )
        throw new ToolError(
          'nft: exit code 1',
          'failed',
          'Error: Could not process rule: No such file\nadd x',
        )
      return run(command, args, options)
    }
    t.match(await probed(refusing), { usable: false, detail: /^the kernel refused it/ })
  },
)

import t from 'tap'
import { nftablesSteering } from '../../../src/capture/nftables.ts'
import type { PacketProbe } from '../../../src/kernel/nft/packet-probe.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'
import { systemClock } from '../../../src/util/clock.ts'
import { makeNetns } from '../../support/netns.ts'
import { skip } from './skip.ts'
import { host } from './world.ts'

const clock = systemClock

/** Each answers one call of nft, the last all others. */
const answers = (...list: readonly (string | ToolError)[]): RunTool => {
  let at = 0
  return async () => {
    const answer = list[Math.min(at++, list.length - 1)] ?? ''
    if (typeof answer === 'string') return answer
    throw answer
  }
}

const version = 'nftables v1.0.1 (Fearless Fosdick #3)\n'
const failed = (stderr: string) => new ToolError(`nft -f -: ${stderr}`, 'failed', stderr)
const steered: PacketProbe = async (_, steer) => {
  await steer({ address: '127.0.0.1', port: 1 }, { address: '127.0.0.1', port: 2 })
  return true
}

t.test('probing', async t => {
  t.test('nftables: a probe says why it is not usable', async t => {
    const missing = new ToolError('nft: not found; install it', 'missing', '')
    const denied = new ToolError(
      'nft: Operation not permitted',
      'not permitted',
      'denied',
    )
    const syntax = failed('/dev/stdin:4:2-8: Error: syntax error, unexpected x\n  x y z')
    const kernel = failed(
      '/dev/stdin:1:1-9: Error: Could not process rule: Not supported\n  fib daddr',
    )
    const cases = [
      [answers(missing), 'nft: not found; install it'],
      [answers(version, denied), 'nft: Operation not permitted'],
      [
        answers('nftables v0.9.8 (E.D.S.)'),
        'nft 0.9.8 is too old: 1.0.1 or newer is needed',
      ],
      [
        answers(version, '', '', syntax, ''),
        /^nft 1.0.1 is too old: .*unexpected x: x y z$/,
      ],
      [
        answers(version, '', '', kernel, ''),
        /^the kernel refused it: .*Not supported: fib/,
      ],
    ] as const
    for (const [run, detail] of cases) {
      const tables = nftablesSteering({ run, clock, packetProbe: steered })
      t.match(await tables.probe('IPv4'), { usable: false, detail })
    }
    const nowhere: PacketProbe = async () => false
    const tables = nftablesSteering({
      run: answers(version, ''),
      clock,
      packetProbe: nowhere,
    })
    t.match(await tables.probe('IPv4'), {
      usable: false,
      detail: /no connection follows/,
    })
  })

  t.test('nftables: a probe sends a packet and leaves nothing', { skip }, async t => {
    const netns = await makeNetns('nft-probe')
    const inside = host(t, netns, { IPv4: '127.0.0.1', IPv6: '::1' })
    const packetProbe: PacketProbe = async (family, steer) => {
      const address = inside.addresses[family]
      const [from, to] = [
        { address, port: await inside.listen('TCP', address, 0) },
        { address, port: await inside.listen('TCP', address, 0) },
      ]
      await steer(from, to)
      const answer = await inside.dial('TCP', address, from.port)
      return answer === `answered by port ${to.port}`
    }
    const { run } = netns
    const tables = nftablesSteering({ run, clock, packetProbe })
    const abandoned = 'table ip usher-probe-1700000000-abcdef01 {\n}\n'
    await run('nft', ['-f', '-'], { input: abandoned })
    for (const family of ['IPv4', 'IPv6'] as const) {
      t.match(await tables.probe(family), { usable: true, detail: /^nft \d+\.\d+/ })
    }
    t.equal(await run('nft', ['list', 'ruleset']), '')
  })
})

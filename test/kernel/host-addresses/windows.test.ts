import t from 'tap'
import { WindowsHostAddresses } from '../../../src/kernel/host-addresses/windows.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { until } from '../../support/until.ts'

/** A netsh that keeps addresses, in the words of a German system. */
const fakeNetsh = () => {
  const calls: string[] = []
  const has = new Set<string>(['192.0.2.9'])
  let refuses = ''
  const run: RunTool = async (command, args) => {
    calls.push([command, ...args].join(' '))
    const address = args
      .find(one => one.startsWith('address='))
      ?.slice(8)
      .replace('/128', '')
    if (args.includes('show'))
      return [...has].map(one => `  IP-Adresse: ${one}\r\n`).join('')
    if (address === undefined || address === refuses) {
      throw new ToolError('netsh: Zugriff verweigert', 'failed', '')
    }
    if (args.includes('add')) has.add(address)
    else has.delete(address)
    return ''
  }
  return { calls, has, run, refuse: (one: string) => (refuses = one) }
}

t.test('netsh', async t => {
  t.test('Windows: netsh', async t => {
    const netsh = fakeNetsh()
    const clock = new FakeClock()
    const host = new WindowsHostAddresses({
      run: netsh.run,
      clock,
      interfaceName: 'NIC 1',
    })
    const changes = () =>
      netsh.calls.splice(0).filter(one => !one.includes(' show addresses '))

    t.test('adds single addresses, and takes them off', async t => {
      t.strictSame(await host.sync(['192.0.2.7/32', 'fd00::7/128']), new Map())
      t.strictSame(changes(), [
        'netsh interface ipv4 add address name=NIC 1 address=192.0.2.7 mask=255.255.255.255 skipassource=true store=active',
        'netsh interface ipv6 add address interface=NIC 1 address=fd00::7/128 skipassource=true store=active',
      ])
      await host.sync(['192.0.2.7/32', 'fd00::7/128'])
      t.strictSame(netsh.calls, [], 'unchanged: no call')
      await host.sync(['192.0.2.7/32'])
      t.strictSame(changes(), [
        'netsh interface ipv6 delete address interface=NIC 1 address=fd00::7 store=active',
      ])
    })

    t.test('leaves alone what is there, and says what can not be had', async t => {
      netsh.refuse('192.0.2.8')
      const wanted = ['192.0.2.7/32', '192.0.2.8/32', '192.0.2.9/32', '10.96.0.0/12']
      t.strictSame(
        await host.sync(wanted),
        new Map([
          ['192.0.2.8/32', 'netsh: Zugriff verweigert'],
          ['10.96.0.0/12', 'Windows has single addresses only'],
        ]),
      )
      await host.sync([])
      t.strictSame([...netsh.has], ['192.0.2.9'])
    })

    t.test('what somebody takes off is missed, and put back by a sync', async t => {
      await host.sync(['192.0.2.7/32'])
      const told: string[] = []
      t.teardown(host.watch(what => told.push(what)))
      netsh.has.delete('192.0.2.7')
      clock.advance(4000)
      await until('it is missed', () => told.length > 0)
      t.strictSame(told, ['taken away: 192.0.2.7/32'])
      await host.sync(['192.0.2.7/32'])
      t.ok(netsh.has.has('192.0.2.7'))
      await host.remove()
      t.notOk(netsh.has.has('192.0.2.7'))
    })

    t.test('is probed by a listing', async t => {
      t.strictSame(await host.probe('IPv4'), {
        usable: true,
        detail: 'netsh, interface NIC 1',
      })
      const run: RunTool = () => Promise.reject(new Error('netsh: not found'))
      const none = new WindowsHostAddresses({ run, clock })
      t.strictSame(await none.probe('IPv6'), {
        usable: false,
        detail: 'netsh: not found',
      })
    })
  })
})

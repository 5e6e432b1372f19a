import { syncBuiltinESMExports } from 'node:module'
import os from 'node:os'
import t from 'tap'
import { interfaceAddresses, LocalAddresses } from '../../src/capture/local-addresses.ts'
import { FakeClock } from '../support/fake-clock.ts'

/** Which addresses are this host's own. */
t.test('local addresses', async t => {
  t.test('LocalAddresses', async t => {
    t.test('finds by real binds what is of this host', async t => {
      const addresses = new LocalAddresses(new FakeClock())
      const all = [
        '127.0.0.1',
        '127.96.0.10',
        '127.255.255.254',
        '0.0.0.0',
        '198.51.100.1',
      ]
      const own = await Promise.all(all.map(one => addresses.has(one)))
      const all127 = process.platform === 'linux'
      t.strictSame(own, [true, all127, all127, true, false])
      t.equal(await addresses.has('2001:db8::1'), false)
      for (const group of ['224.0.0.1', '255.255.255.255', '127.255.255.255', 'ff02::1'])
        t.equal(await addresses.has(group), false, group)
      t.equal(await addresses.has('::1'), interfaceAddresses('IPv6').includes('::1'))
    })

    t.test('rejects where the interfaces can not be read', async t => {
      const { networkInterfaces } = os
      const install = (read: typeof networkInterfaces): void => {
        os.networkInterfaces = read
        syncBuiltinESMExports()
      }
      t.teardown(() => install(networkInterfaces))
      install(() => {
        throw new Error('no descriptor')
      })
      const addresses = new LocalAddresses(new FakeClock())
      await t.rejects(addresses.has('127.0.0.1'), { cause: { message: 'no descriptor' } })
    })

    t.test('remembers an answer, yes or no, for 30 s', async t => {
      const clock = new FakeClock()
      const probed: string[] = []
      const addresses = new LocalAddresses(clock, async one => {
        probed.push(one)
        return one === 'mine'
      })
      const ask = async () => [await addresses.has('mine'), await addresses.has('not')]
      t.strictSame(await ask(), [true, false])
      clock.advance(29_999)
      t.strictSame(await ask(), [true, false])
      t.strictSame(probed, ['mine', 'not'])
      clock.advance(1)
      t.strictSame(await ask(), [true, false])
      t.strictSame(probed, ['mine', 'not', 'mine', 'not'])
    })

    t.test('forgets all answers at once, so that one number tells of it', async t => {
      const clock = new FakeClock()
      const probed: string[] = []
      const addresses = new LocalAddresses(clock, async one => probed.push(one) > 0)
      const { era } = addresses
      await addresses.has('a')
      clock.advance(29_999)
      await addresses.has('b')
      t.equal(addresses.era, era)
      clock.advance(1)
      t.not(addresses.era, era)
      await addresses.has('a')
      await addresses.has('b')
      t.strictSame(probed, ['a', 'b', 'a', 'b'])
    })

    t.test('keeps to what it knew when there are no descriptors to ask with', async t => {
      const clock = new FakeClock()
      let short = false
      const addresses = new LocalAddresses(clock, async one => {
        if (short) throw Object.assign(new Error('no'), { code: 'EMFILE' })
        return one === 'mine'
      })
      await addresses.has('mine')
      await addresses.has('not')
      short = true
      clock.advance(60_000)
      t.equal(await addresses.has('mine'), true)
      t.equal(await addresses.has('not'), false)
      await t.rejects(addresses.has('new'), { message: /new.*this host/ })
    })
  })
})

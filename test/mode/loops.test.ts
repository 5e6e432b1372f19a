import t from 'tap'
import { LoopCutter } from '../../src/mode/loops.ts'
import type { RelayListener } from '../../src/relay/relay.ts'
import { frontOf, listenerSpec } from '../support/relay-fixture.ts'

const place = (text: string) => {
  const [address = '', port] = text.split(':')
  return { address, port: Number(port) }
}

const listener = (name: string, bind: string, ...to: string[]): RelayListener =>
  listenerSpec({
    id: name,
    name,
    fronts: [frontOf([place(bind)])],
    endpoints: to.map(key => Object.assign({ key }, place(key))),
  })

const cutter = () => new LoopCutter(address => address.startsWith('127.'))

/** The endpoints that are left of each, and those that are cut. */
const left = async (cut: LoopCutter, ...all: RelayListener[]) => {
  const { listeners, loops } = await cut.cut(all)
  return [
    listeners.map(one => one.endpoints.map(({ key }) => key)),
    loops.map(loop => `${loop.listener.name} ${loop.endpoint.key}`),
  ]
}

const alone = (...all: RelayListener[]) => left(cutter(), ...all)

t.test('endpoints that lead back to their own listener', async t => {
  t.strictSame(
    await alone(listener('a', '127.1.1.1:80', '127.1.1.1:80', '127.9.9.9:80')),
    [[['127.9.9.9:80']], ['a 127.1.1.1:80']],
    'its own VIP is left out, the other endpoint stays',
  )
  t.strictSame(
    await alone(
      listener('a', '127.1.1.1:80', '127.1.1.2:80'),
      listener('b', '127.1.1.2:80', '127.1.1.3:80'),
      listener('c', '127.1.1.3:80', '127.1.1.1:80'),
    ),
    [[['127.1.1.2:80'], ['127.1.1.3:80'], []], ['c 127.1.1.1:80']],
    'of a ring only what closes it goes',
  )
  t.strictSame(
    await alone(
      listener('a', '127.1.1.1:80', '127.1.1.2:80'),
      listener('b', '127.1.1.2:80', '192.0.2.1:80'),
    ),
    [[['127.1.1.2:80'], ['192.0.2.1:80']], []],
    'a Service may go through another one',
  )
  t.strictSame(
    await alone(listener('a', '0.0.0.0:80', '127.0.0.1:80', '192.0.2.1:80')),
    [[['192.0.2.1:80']], ['a 127.0.0.1:80']],
    'a wildcard is every address of the host',
  )
  t.strictSame(
    await alone(listener('a', '127.1.1.1:80', '127.1.1.2:80'), {
      ...listener('b', '127.1.1.2:80', '127.1.1.1:80'),
      protocol: 'UDP',
    }),
    [[['127.1.1.2:80'], ['127.1.1.1:80']], []],
    'another protocol is another address',
  )
})

t.test('a row without end is cut', async t => {
  const chain = Array.from({ length: 20_000 }, (_, i) =>
    listener(
      `s${i}`,
      `10.${i >> 8}.${i & 255}.1:80`,
      `10.${(i + 1) >> 8}.${(i + 1) & 255}.1:80`,
    ),
  )
  t.ok((await cutter().cut(chain)).loops.length > 0)
  t.equal((await cutter().cut(chain.slice(0, 60))).loops.length, 0)
})

t.test('as listeners change', async t => {
  const a = listener('a', '127.1.1.1:80', '127.1.1.2:80')
  const b = listener('b', '127.1.1.2:80', '127.1.1.1:80')
  const plain = listener('b', '127.1.1.2:80', '192.0.2.1:80')

  t.test('a ring that is closed by a change is cut, and grows whole again', async t => {
    const cut = cutter()
    t.strictSame(await left(cut, a, plain), [[['127.1.1.2:80'], ['192.0.2.1:80']], []])
    t.strictSame(await left(cut, a, b), [[['127.1.1.2:80'], []], ['b 127.1.1.1:80']])
    t.strictSame(await left(cut, a, plain), [[['127.1.1.2:80'], ['192.0.2.1:80']], []])
  })

  t.test('an address that comes later closes the ring of those that stay', async t => {
    const cut = cutter()
    t.strictSame(await left(cut, b), [[['127.1.1.1:80']], []])
    t.strictSame(await left(cut, a, b), [[['127.1.1.2:80'], []], ['b 127.1.1.1:80']])
    t.strictSame(await left(cut, b), [[['127.1.1.1:80']], []])
  })

  t.test('a wildcard that comes later does, too', async t => {
    const cut = cutter()
    const node = listener('a', '0.0.0.0:80', '127.1.1.2:80')
    const back = listener('b', '127.1.1.2:80', '127.0.0.1:80')
    await cut.cut([back])
    t.strictSame(await left(cut, node, back), [
      [['127.1.1.2:80'], []],
      ['b 127.0.0.1:80'],
    ])
  })

  t.test('an address that passes to another listener counts as its own', async t => {
    const cut = cutter()
    await cut.cut([a, b])
    const moved = listener('c', '127.1.1.1:80', '192.0.2.1:80')
    t.strictSame(await left(cut, b, moved), [[['127.1.1.1:80'], ['192.0.2.1:80']], []])
  })

  t.test('a ring that is open again because an address went is left alone', async t => {
    const cut = cutter()
    await cut.cut([a, b])
    const away = listener('b', '127.1.1.9:81', '127.1.1.1:80')
    t.strictSame(await left(cut, a, away), [[['127.1.1.2:80'], ['127.1.1.1:80']], []])
  })

  t.test('what did not change is the same object, cut or not', async t => {
    const cut = cutter()
    const c = listener('c', '127.1.1.3:80', '192.0.2.1:80')
    const first = await cut.cut([a, b, c])
    const second = await cut.cut([a, b, { ...c }])
    t.equal(second.listeners[0], a)
    t.not(first.listeners[1], b)
    t.equal(second.listeners[1], first.listeners[1])
  })
})

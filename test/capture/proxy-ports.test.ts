import t from 'tap'
import {
  type HeldPort,
  type PortKeeper,
  ProxyPorts,
  type TryPort,
} from '../../src/capture/proxy-ports.ts'

const held = (id: string, port: number, protocol: 'TCP' | 'UDP' = 'TCP'): HeldPort => ({
  id,
  protocol,
  port,
  away: true,
})

const keeper = (...known: HeldPort[]) => {
  let last: () => readonly HeldPort[] = () => []
  let changes = 0
  const kept: PortKeeper = {
    known,
    changed: now => {
      last = now
      changes += 1
    },
  }
  const text = () =>
    last().map(({ id, protocol, port, away }) =>
      [id, protocol, port, ...(away ? ['away'] : [])].join(' '),
    )
  return { kept, text, changes: () => changes }
}

/** All ports are free but these; asked for any, offers the numbers from `first` on. */
const allBut =
  (taken: readonly number[], first = 40_000): TryPort =>
  async (_protocol, _addresses, port) => {
    if (port === 0) return first++
    return taken.includes(port) ? undefined : port
  }

const range = { first: 100, last: 103 }

/** How proxy ports are handed out when those of an earlier process are known. */
t.test('ports that are kept', async t => {
  const portsOf = async (ports: ProxyPorts, ...ids: string[]) => {
    const found: (number | undefined)[] = []
    for (const id of ids) found.push(await ports.portFor(id, 'TCP', ['127.0.0.1']))
    return found
  }

  t.test('a ServicePort has its port of an earlier process again', async t => {
    const { kept, text } = keeper(held('a', 41_000), held('b', 41_001), held('x', 41_002))
    const ports = new ProxyPorts(undefined, () => 0, allBut([]), kept)
    t.same(await portsOf(ports, 'b', 'c', 'a', 'b'), [41_001, 40_000, 41_000, 41_001])
    t.same(text(), ['x TCP 41002 away', 'a TCP 41000', 'b TCP 41001', 'c TCP 40000'])
    t.same([ports.holds('x'), ports.holds('y')], [true, false])
  })

  t.test('another one, if somebody sits on it', async t => {
    const { kept, text } = keeper(held('a', 102), held('b', 103))
    const ports = new ProxyPorts(range, () => 0, allBut([102]), kept)
    t.same(await portsOf(ports, 'a', 'b', 'a'), [100, 103, 100])
    t.same(text(), ['b TCP 103', 'a TCP 100'])
  })

  t.test('others get it only when no other is free, longest away first', async t => {
    const { kept, text } = keeper(held('a', 101), held('b', 100), held('u', 102, 'UDP'))
    const ports = new ProxyPorts(range, () => 0, allBut([101]), kept)
    t.same(await portsOf(ports, 'c', 'd'), [102, 103])
    t.same(await portsOf(ports, 'e', 'f'), [100, undefined], 'that of a is not free')
    t.same(text(), ['u UDP 102 away', 'c TCP 102', 'd TCP 103', 'e TCP 100'])
    t.same([ports.holds('a'), ports.holds('b')], [false, false])
  })

  t.test('the system may offer it, and is asked for another', async t => {
    const { kept } = keeper(held('a', 40_000), held('b', 40_001))
    const ports = new ProxyPorts(undefined, () => 0, allBut([]), kept)
    t.same(await portsOf(ports, 'c', 'a'), [40_002, 40_000])
  })

  t.test('what is outside of the range now, or twice, is not taken up', async t => {
    const { kept } = keeper(
      held('a', 99),
      held('b', 104),
      held('c', 102),
      held('d', 102),
      held('c', 103),
      held('e', 103, 'UDP'),
    )
    const ports = new ProxyPorts(range, () => 0, allBut([]), kept)
    t.same(await portsOf(ports, 'a', 'b', 'c', 'd', 'e'), [100, 101, 102, 103, undefined])
  })

  t.test('changes are told, and nothing else', async t => {
    const { kept, text, changes } = keeper(held('a', 101))
    const ports = new ProxyPorts(range, () => 0, allBut([]), kept)
    t.equal(changes(), 0)
    await portsOf(ports, 'a', 'b')
    t.equal(changes(), 2)
    await portsOf(ports, 'a', 'b')
    ports.release('nobody')
    t.equal(changes(), 2)
    ports.release('a')
    ports.release('a')
    t.equal(changes(), 3)
    t.same(text(), ['a TCP 101 away', 'b TCP 100'])
    await portsOf(ports, 'a')
    t.equal(changes(), 4)
  })

  t.test('what an earlier process has handed over is not tried', async t => {
    const handed = (...ports: number[]) => {
      const all = new Set(ports)
      return ({ port }: { readonly port: number }) => all.has(port)
    }
    // All are listened on: no port is free to be tried.
    const none: TryPort = async () => undefined
    const { kept } = keeper(held('a', 100), held('b', 101))
    const remembered = new ProxyPorts(range, () => 0, none, kept)
    t.equal(remembered.prove(handed(100)), 1)
    t.strictSame(await portsOf(remembered, 'a', 'b'), [100, undefined])
    const told = new ProxyPorts(range, () => 0, none, kept)
    const owned = [held('b', 100), held('c', 102), held('d', 103), held('e', 2000)]
    t.equal(told.prove(handed(100, 102, 2000), owned), 2, 'without those out of range')
    t.strictSame(
      await portsOf(told, 'b', 'c', 'a', 'd', 'e'),
      [100, 102, undefined, undefined, undefined],
      'what it says counts, and not what was remembered',
    )
    const inUse = told.inUse().map(({ id, port }) => `${id} ${port}`)
    t.strictSame(inUse, ['b 100', 'c 102'])
  })

  t.test('one that others took before it was listened on is left to them', async t => {
    const { kept, text } = keeper()
    const taken: number[] = []
    const ports = new ProxyPorts(range, () => 0, allBut(taken), kept)
    t.same(await portsOf(ports, 'a', 'b'), [100, 101])
    t.notOk(ports.lost('a', 101), "another's")
    t.notOk(ports.lost('nobody', 100))
    t.equal(ports.losses, 0)
    t.ok(ports.lost('a', 100))
    t.notOk(ports.lost('a', 100), 'that is known')
    t.equal(ports.losses, 1)
    t.same(await portsOf(ports, 'a', 'b'), [100, 101], 'it was free again')
    taken.push(100)
    t.ok(ports.lost('a', 100))
    t.same(await portsOf(ports, 'a', 'b'), [102, 101])
    t.notOk(ports.isHeld(100))
    t.same(text().toSorted(), ['a TCP 102', 'b TCP 101'])
  })

  t.test('one that was lost, and whose owner is gone, is no more in the way', async t => {
    const ports = new ProxyPorts({ first: 100, last: 100 }, () => 0, allBut([]))
    t.same(await portsOf(ports, 'a'), [100])
    t.ok(ports.lost('a', 100))
    ports.release('a')
    t.same(await portsOf(ports, 'b'), [100])
  })

  t.test('nothing is lost when there is no descriptor to find out with', async t => {
    const { kept } = keeper(held('a', 101))
    let broken = true
    const tryPort: TryPort = async (_protocol, _addresses, port) => {
      if (broken) throw Object.assign(new Error('no'), { code: 'EMFILE' })
      return port
    }
    const ports = new ProxyPorts(range, () => 0, tryPort, kept)
    await t.rejects(portsOf(ports, 'a'), { code: 'EMFILE' })
    broken = false
    t.same(await portsOf(ports, 'a'), [101])
  })
})

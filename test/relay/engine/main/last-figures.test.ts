import t from 'tap'
import { counterCell } from '../../../../src/relay/counters.ts'
import { LastFigures } from '../../../../src/relay/engine/main/port.ts'
import type { BindState, EndpointStats } from '../../../../src/relay/relay.ts'

const { accepted, active } = counterCell.plain

const listening: BindState = {
  bind: { address: '127.0.0.1', port: 1 },
  state: 'listening',
}

const used: EndpointStats = { key: 'x', active: 0, failures: 1, coolingDown: false }

/** A port of which a test changes what it likes. */
const portOf = () => {
  const port = {
    now: 0,
    cells: new Float64Array(counterCell.count),
    said: {
      id: 'a',
      name: 'a',
      protocol: 'TCP' as const,
      lastError: '',
      failing: false,
      wanted: true,
    },
    binds: [listening] as readonly BindState[],
    endpoints: [used] as readonly EndpointStats[],
    /** How often endpoints were read. */
    reads: 0,
  }
  const last = new LastFigures(() => port.now)
  const read = () =>
    last.read(port.cells, { ...port.said, binds: port.binds }, () => {
      port.reads += 1
      return port.endpoints.map(one => ({ ...one }))
    })
  return { port, last, read }
}

t.test('while nothing changes it is the same object, and no endpoint is read', t => {
  const { port, read } = portOf()
  const first = read()
  t.match(first, { ...port.said, binds: [listening], endpoints: [used] })
  t.equal(read(), first)
  port.now = 2000
  const { reads } = port
  t.equal(read(), first)
  t.equal(port.reads, reads)
  t.end()
})

t.test('whatever changes makes another', t => {
  const { port, read } = portOf()
  const changes: Readonly<Record<string, () => unknown>> = {
    counter: () => (port.cells[accepted] = 7),
    'the last counter': () => (port.cells[counterCell.count - 1] = 1),
    'a counter back to 0': () => (port.cells[counterCell.count - 1] = 0),
    bind: () => (port.binds = [{ ...listening, state: 'closed', reason: 'why' }]),
    'no bind': () => (port.binds = []),
    error: () => (port.said = { ...port.said, lastError: 'oh' }),
    unwanted: () => (port.said = { ...port.said, wanted: false }),
  }
  for (const [name, change] of Object.entries(changes)) {
    port.now += 10_000
    const before = read()
    change()
    const after = read()
    t.not(after, before, name)
    t.match(after, { ...port.said, binds: port.binds, counters: { accepted: 7 } }, name)
    t.equal(read(), after, name)
  }
  t.end()
})

t.test('endpoints are read as long as theirs may change alone', t => {
  const { port, last, read } = portOf()
  const isSeen = (endpoints: readonly EndpointStats[], afterMs: number): boolean => {
    const before = read()
    port.now += afterMs
    port.endpoints = endpoints
    return read() !== before
  }
  t.ok(isSeen([{ ...used, failures: 2 }], 1999), 'a worker writes it a moment later')
  t.notOk(isSeen([{ ...used, failures: 3 }], 10_000), 'and not without the port')
  last.changed()
  t.ok(isSeen([{ ...used, coolingDown: true }], 0), 'there are others')
  t.ok(isSeen([{ ...used, active: 1 }], 10_000), 'it rested')
  t.ok(isSeen([{ ...used, failures: 4 }], 10_000), 'it had a connection')
  port.cells[active] = 1
  read()
  t.ok(isSeen([{ ...used, rttMs: 1 }], 10_000), 'the port has one')
  t.ok(isSeen([{ ...used, rttMs: 2 }], 10_000))
  t.ok(isSeen([{ ...used, rttMs: 2, retransmits: 1 }], 10_000))
  t.ok(isSeen([{ ...used, key: 'y' }], 10_000))
  t.end()
})

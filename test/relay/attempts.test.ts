import t from 'tap'
import { OwnCell } from '../../src/balance/cell.ts'
import { noCooldown } from '../../src/balance/cooldown.ts'
import { Attempts, type DialAttempt, type Dialler } from '../../src/relay/attempts.ts'
import type { Backend } from '../../src/relay/front.ts'
import { EndpointPlaces } from '../../src/relay/shared-places.ts'

const owner = { won: () => {}, lost: () => {} }

const backendOf = (key: string): Backend & { places: EndpointPlaces } => ({
  key,
  address: '127.0.0.1',
  port: 1,
  active: 0,
  failures: 0,
  cooldown: new OwnCell(noCooldown),
  replies: undefined,
  places: new EndpointPlaces(1, new SharedArrayBuffer(4), () => {}),
})

t.test('an attempt for which there is no descriptor gives its place back', async t => {
  const fds = { left: 1, take: (n: number) => fds.left >= n && (fds.left -= n) >= 0 }
  const release = (n: number): void => void (fds.left += n)
  const begun: DialAttempt<Backend, string>[] = []
  const dialler: Partial<Dialler<Backend, string>> = {
    limits: { dialLadder: [100] },
    fds: { ...fds, take: n => fds.take(n), release },
    now: () => 0,
    connect: attempt => void begun.push(attempt),
    close: () => {},
  }
  const attempts = new Attempts(dialler as Dialler<Backend, string>, [])
  const backends = ['a', 'b', 'c'].map(backendOf)
  const isBegun = backends.map(backend => {
    backend.places.take(1)
    return attempts.begin('client', owner, backend)
  })
  t.strictSame(isBegun, [true, true, false], 'the first is paid for')
  t.strictSame(
    backends.map(({ places }) => places.taken),
    [1, 1, 0],
  )
  for (const attempt of begun) attempt.socket = 7
  attempts.endAll('cancelled', () => {})
  t.strictSame(
    backends.map(({ places }) => places.taken),
    [0, 0, 0],
  )
  t.equal(fds.left, 1)
})

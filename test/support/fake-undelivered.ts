import { setImmediate as turn } from 'node:timers/promises'
import { rowOf } from '../../src/relay/portable/undelivered.ts'
import { Undelivered } from '../../src/relay/portable/undelivered.ts'
import { FakeClock } from './fake-clock.ts'

/** An Undelivered on a fake clock, whose tables are what `unsent` says by local port. */
export const fakeUndelivered = () => {
  const clock = new FakeClock()
  const done: number[] = []
  const reads: { path: string; at: number }[] = []
  const state = {
    unsent: new Map<number, number>(),
    readMs: 0,
    broken: false,
  }
  const undelivered = new Undelivered(clock, async path => {
    reads.push({ path, at: clock.now() })
    const rows = [...state.unsent].map(
      ([port, bytes]) =>
        `   0: ${rowOf('192.0.2.1', port, '192.0.2.2', 80)} 01 ` +
        `${bytes.toString(16).padStart(8, '0')}:00000000 00:00000000 00000000`,
    )
    if (state.readMs > 0) {
      await new Promise<void>(read => void clock.setTimeout(read, state.readMs))
    }
    if (state.broken) throw new Error('ENOENT')
    return Buffer.from(rows.join('\n'))
  })
  const socket = (localPort: number, unsent = 0) => {
    if (unsent > 0) state.unsent.set(localPort, unsent)
    return {
      localAddress: '192.0.2.1' as string | undefined,
      localPort,
      remoteAddress: '192.0.2.2',
      remotePort: 80,
      writableLength: 0,
      destroyed: false,
    }
  }
  const wait = (of: ReturnType<typeof socket>, ms = 60_000): void =>
    undelivered.wait(of, ms, () => done.push(of.localPort))
  const advance = async (ms: number): Promise<void> => {
    for (let gone = 0; gone < ms; gone += 1) {
      clock.advance(1)
      await turn()
    }
  }
  return { clock, done, reads, state, socket, wait, advance }
}

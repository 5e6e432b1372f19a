import t, { type Test } from 'tap'
import { linuxRelaySkip } from '../../../support/linux-only.ts'
import { newPattern, type Playground, RandomPeer } from './random-peer.ts'
import { TcpWorker, type TcpWorkerRequest } from './tcp-worker.ts'

interface Schedule extends TcpWorkerRequest {
  readonly name: string
  readonly connections: number
  readonly rounds: number
  /** At most so many are written at once. */
  readonly longest: number
}

/** mulberry32: enough for schedules, and the same for the same seed. */
const randomFrom = (seed: number) => (): number => {
  seed = (seed + 0x6d2b79f5) | 0
  let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
}

const kib = 1024
/** Of pipes that are kept for the next connection. */
const mostKept = 32
const schedules: readonly Schedule[] = [
  { name: 'the usual buffers', connections: 60, rounds: 600, longest: 2 << 20 },
  {
    name: 'small kernel buffers',
    connections: 200,
    rounds: 600,
    longest: 100 * kib,
    bufferBytes: 8 * kib,
    limits: { connectionBuffer: 4000 },
  },
  {
    name: 'tiny kernel buffers and reads of a few bytes',
    connections: 200,
    rounds: 600,
    longest: 10 * kib,
    bufferBytes: 2 * kib,
    limits: { connectionBuffer: 100 },
  },
]

const play = async (t: Test, schedule: Schedule, random: () => number): Promise<void> => {
  const worker = new TcpWorker(t, schedule)
  const { calls } = worker.bench
  const ground: Playground = {
    worker,
    random,
    pattern: newPattern(bytes => calls.allocate(bytes), random),
    read: calls.allocate(1 << 18),
    longest: schedule.longest,
    wrong: [],
  }
  const peers: RandomPeer[] = []
  for (let i = 0; i < schedule.connections; i += 1) {
    const { client, backend } = worker.connection()
    const one = new RandomPeer(ground, `client ${i}`, client)
    const other = new RandomPeer(ground, `backend ${i}`, backend)
    one.opposite = other
    other.opposite = one
    peers.push(one, other)
  }
  for (let round = 0; round < schedule.rounds; round += 1) {
    for (const peer of peers) {
      if (random() < 0.02) peer.act()
      if (random() < 0.5) peer.move()
    }
    worker.turn(Math.floor(random() * 3))
    if (round % 20 === 0) await worker.last(0.1)
  }
  for (const peer of peers) peer.finish()
  const isOver = (): boolean => {
    for (const peer of peers) peer.move()
    return peers.every(peer => peer.isOver)
  }
  t.ok(await worker.until(isOver, 30_000), 'every end came')
  t.strictSame(ground.wrong, [])
  // With both ends closed it is the kernel's persist timer that finds it out.
  const left = peers.filter(peer => peer.isGone && peer.opposite?.isGone).length / 2
  const { connections } = schedule
  const mostEnded = (): boolean => worker.records.length >= connections - left
  t.ok(await worker.until(mostEnded, 15_000), 'all have ended that can')
  worker.order({ kind: 'call', id: 0, call: { kind: 'kill' } })
  worker.turn()
  t.equal(worker.records.length, connections)
  t.strictSame(worker.faults, [])
  t.equal(worker.counters.active, 0)
  t.ok(worker.held <= mostKept, `${worker.held} descriptors are held`)
}

/** RANDOM_SEED repeats a schedule. */
t.test('random schedules', { skip: linuxRelaySkip() }, async t => {
  const seed = Number(process.env['RANDOM_SEED'] ?? Date.now() % 1_000_000)
  for (const schedule of schedules) {
    t.test(`random schedules with ${schedule.name}, seed ${seed}`, async t =>
      play(t, schedule, randomFrom(seed)),
    )
  }
})

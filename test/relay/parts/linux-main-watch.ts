import type { Test } from 'tap'
import {
  type WatchedWorker,
  WorkerWatch,
} from '../../../src/relay/linux/main/worker-watch.ts'
import { WorkerSigns } from '../../../src/relay/linux/shared/worker-signs.ts'
import { FakeClock } from '../../support/fake-clock.ts'

const lookMs = 250

/** A worker's part that is watched, and how long its workers were silent when that was told. */
const watched = (t: Test) => {
  const clock = new FakeClock()
  const worker = { signs: new WorkerSigns(), isTaken: true, isReady: false, restarts: 0 }
  const told: number[] = []
  const workers: readonly WatchedWorker[] = [worker]
  const watch = new WorkerWatch(clock, workers, (_seat, ms) => void told.push(ms))
  watch.start()
  t.teardown(() => watch.stop())
  return { clock, worker, told }
}

/** When a worker is taken to hang. */
export const workerWatchTests = (t: Test): void => {
  t.test('a worker that was slow to start is not silent when it is ready', async t => {
    const { clock, worker, told } = watched(t)
    clock.advance(5 * lookMs)
    worker.isReady = true
    clock.advance(5 * lookMs)
    t.strictSame(told, [])
    worker.signs.beat()
    clock.advance(6 * lookMs)
    t.strictSame(told, [])
    clock.advance(60 * lookMs)
    t.strictSame(told, [1500], 'once')
  })

  t.test('a worker that hangs right after its start is noticed', async t => {
    const { clock, worker, told } = watched(t)
    clock.advance(20 * lookMs)
    worker.isReady = true
    clock.advance(8 * lookMs)
    t.strictSame(told, [1500])
  })

  t.test('so is one that never gets ready', async t => {
    const { clock, told } = watched(t)
    clock.advance(122 * lookMs)
    t.strictSame(told, [30_000])
  })

  t.test('and its successor, though no look has seen the worker empty', async t => {
    const { clock, worker, told } = watched(t)
    worker.isReady = true
    clock.advance(10 * lookMs)
    t.strictSame(told, [1500])
    worker.restarts += 1
    worker.isReady = false
    clock.advance(125 * lookMs)
    t.strictSame(told, [1500, 30_000])
    worker.restarts += 1
    clock.advance(125 * lookMs)
    t.strictSame(told, [1500, 30_000, 30_000])
  })
}

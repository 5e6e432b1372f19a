import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { type Child, startChild } from '../../../bench/process/child.ts'
import { until } from '../../support/until.ts'

const start = (t: Test, program: string): Child => {
  const file = join(t.testdir({ 'program.mjs': program }), 'program.mjs')
  const child = startChild(pathToFileURL(file))
  t.teardown(() => child.stop())
  return child
}

// The end of a process is told when the event loop turns. Questions that fail at once keep
// it from that: a bench without a generator went on for 1000 rounds.
t.test('a process that can not be asked any more has ended', async t => {
  const child = start(t, 'process.disconnect(); setInterval(() => {}, 1000)\n')
  t.equal(child.hasEnded(), false)
  await until('its channel is closed', () => child.hasEnded())
  await t.rejects(child.ask('anything', 10_000), /ended unexpectedly/)
})

t.test('so has one of whose end nothing has been told yet', async t => {
  const child = start(
    t,
    'process.on("message", ({ id }) => process.send({ id, answer: 1 }))\n',
  )
  t.equal(await child.ask('anything', 10_000), 1)
  process.kill(child.pid, 'SIGKILL')
  // It dies while the event loop stands still.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500)
  await t.rejects(child.ask('anything', 10_000), /EPIPE/)
  t.equal(child.hasEnded(), true)
})

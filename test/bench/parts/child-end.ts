import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { startChild } from '../../../src/bench/process/child.ts'
import { until } from '../../support/until.ts'

// A killed process closes its channel a moment before its end is told. Questions that fail
// at once keep the event loop from hearing of that end: a bench went on for 1000 rounds.
t.test('a process that can not be asked any more has ended', async t => {
  const program = 'process.disconnect(); setInterval(() => {}, 1000)\n'
  const file = join(t.testdir({ 'mute.mjs': program }), 'mute.mjs')
  const child = startChild(pathToFileURL(file))
  t.teardown(() => child.stop())
  t.equal(child.hasEnded(), false)
  await until('its channel is closed', () => child.hasEnded(), 10_000)
  await t.rejects(child.ask('anything', 10_000), /ended unexpectedly/)
})

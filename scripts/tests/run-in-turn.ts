import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { beginOf, endOf } from './marks.ts'

/*
 * The program of a process with tests: runs the files of its command line one after the other.
 * Each is loaded only when the one before has ended, and starts with the limits of a new process.
 */
const files = process.argv.slice(2)
// tap names its root, and with it t.testdir(), by the command line.
process.argv.splice(1, Infinity, files[0] ?? '')
const { default: t } = await import('tap')

const timeoutMs = Number(process.env['TAP_TIMEOUT']) * 1000

const load = async (file: string): Promise<void> => {
  try {
    await import(pathToFileURL(resolve(file)).href)
  } catch (error) {
    void t.test('it can be loaded', async () => {
      throw error
    })
  }
}

const allOfIt = (): Promise<void> =>
  new Promise(done => {
    if (t.idle) done()
    else t.once('idle', done)
  })

for (const file of files) {
  t.jobs = 1
  t.setTimeout(timeoutMs)
  t.comment(beginOf(file))
  const began = performance.now()
  // Until then the root has something to wait for: tap ends one that is idle and has a teardown.
  await t.waitOn(load(file))
  await allOfIt()
  t.comment(endOf(file, performance.now() - began))
}

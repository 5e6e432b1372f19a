// A process of its own: it mostly waits.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { missingPrograms } from '../support/installed.ts'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { firstWord, namedBackend } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { runUsher, startUsher } from '../support/usher.ts'
import { usherProgram } from '../support/usher-program.ts'

const setUp = async (t: Test) => {
  const port = await freeTcpPort()
  const { endpoint } = await namedBackend(t, 'a')
  const web = service('web', testHost, [{ name: 'p', port }])
  const file = await manifestFile(t, web, ...slice('web', [endpoint]))
  const usher = await startUsher(t, 'run', `--manifests=${file.path}`)
  return { port, endpoint, address: `--address=${usher.metrics}` }
}

t.test('one table says what goes on', async t => {
  const { port, address } = await setUp(t)
  const asked = runUsher('top', '--once', address)
  const over = new AbortController()
  const dials = (async () => {
    while (!over.signal.aborted) await firstWord(port)
  })()
  const { code, out, err } = await asked
  over.abort()
  await dials
  t.equal(code, 0)
  t.equal(err, '')
  t.match(out, /^NAME +STATE +ENDPOINTS +ACTIVE +NEW\/S +FAILED\/S /)
  t.match(out, /^default\/web:p +ok +1\/1 +\d+ +[1-9][\d.]* +0 +0 .* TCP$/m)
  t.match(await runUsher('top', '--once', '--address=127.0.0.1:1'), {
    code: 3,
    out: '',
    err: /^usher top: http:.*: nothing listens on it\. Is Usher running\?/,
  })
})

const missing = missingPrograms('script')

t.test('on a terminal it goes on, until q', { skip: missing }, async t => {
  const { endpoint, address } = await setUp(t)
  const line = `${process.execPath} ${usherProgram} top ${address}`
  // It makes a terminal for what it runs (util-linux).
  const terminal = spawn('script', ['-qefc', line, '/dev/null'])
  t.teardown(() => terminal.kill())
  let shown = ''
  terminal.stdout.setEncoding('utf8').on('data', text => void (shown += String(text)))
  await until('services are shown', () => /default\/web:p +ok/.test(shown))
  t.match(shown, '\u001B[?1049h')
  terminal.stdin.write('e')
  await until('endpoints are shown', () => shown.includes(endpoint.key))
  terminal.stdin.write('q')
  const [code] = (await once(terminal, 'exit')) as [number]
  t.equal(code, 0)
  t.ok(shown.endsWith('\u001B[?25h\u001B[?1049l'), 'the terminal is as it was')
})

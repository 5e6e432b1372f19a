import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import {
  generatorProgram,
  type LoadAnswer,
  type LoadQuestion,
} from '../../../bench/load/question.ts'
import { readWrkReport } from '../../../bench/load/wrk.ts'
import { startChild } from '../../../bench/process/child.ts'
import { processTree } from '../../../bench/process/usage.ts'
import { ask, serveHttp, timed } from './servers.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { until } from '../../support/until.ts'
import t from 'tap'

const isMissing = spawnSync('wrk', ['-v']).error !== undefined
const skip = isMissing && 'wrk is not installed'
const path = '/64'
const generator = 'wrk'
const pids = { backend: [], proxy: [] }

t.test('requests by wrk are as many as the server has seen', { skip }, async t => {
  const { to, asked } = await serveHttp(t)
  const answer = await ask({ kind: 'requests', generator, to, path, connections: 4 }, 0.5)
  t.ok(asked.requests - answer.done >= 0 && asked.requests - answer.done <= 4)
  t.ok(answer.seconds >= 0.9 && answer.seconds < 3)
  t.equal(answer.latency?.count, answer.done)
  t.ok((answer.latency?.p50 ?? 0) > 0 && (answer.latency?.max ?? 0) < 3000)
  t.same(answer.errors, {})
})

t.test('connections by wrk have a probe beside them', { skip }, async t => {
  const { to, asked } = await serveHttp(t)
  const answer = await ask({ kind: 'connections', generator, to, path, parallel: 4 }, 0.5)
  const probes = answer.connect?.count ?? 0
  t.ok(probes >= 10 && probes <= 40, `${probes} probes`)
  t.ok(asked.connections >= answer.done && answer.done > 4 * probes)
  t.ok((answer.latency?.count ?? 0) >= 10)
  t.same(answer.errors, {})
})

t.test('a response that is no 2xx is a response to wrk as well', { skip }, async t => {
  const { to } = await serveHttp(
    t,
    () => 'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n',
  )
  const answer = await ask({ kind: 'requests', generator, to, path, connections: 2 }, 0.5)
  t.ok(answer.done > 0)
  t.same(answer.errors, {})
})

t.test('what a gateway answers for others is an error to wrk', { skip }, async t => {
  const bad = 'HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n'
  const good = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'
  for (const share of [1, 2]) {
    let count = 0
    const { to } = await serveHttp(t, () => (count++ % share === 0 ? bad : good))
    const question = { kind: 'requests', generator, to, path, connections: 2 } as const
    const { done, errors } = await ask(question, 0.5)
    t.equal(done > 0, share > 1)
    t.ok((errors['status of 400 or above'] ?? 0) > 0, JSON.stringify(errors))
  }
})

t.test('what wrk meets is told as errors', { skip }, async t => {
  const refusing = { address: testHost, port: await freeTcpPort() }
  const asked = ask(
    { kind: 'connections', generator, to: refusing, path, parallel: 2 },
    0.5,
  )
  const [refused, ms] = await timed(asked)
  t.equal(refused.done, 0)
  t.ok(
    Object.keys(refused.errors).some(name => name.startsWith('wrk: unable to connect')),
    JSON.stringify(refused.errors),
  )
  t.ok(ms < 5000)
  const { to } = await serveHttp(t, (_, socket) => {
    socket.resetAndDestroy()
    return undefined
  })
  const reset = await ask({ kind: 'requests', generator, to, path, connections: 2 }, 0.5)
  t.equal(reset.done, 0)
  t.ok((reset.errors['read error'] ?? 0) > 0, JSON.stringify(reset.errors))
})

t.test('its CPU time is the generator’s', { skip }, async t => {
  const { to } = await serveHttp(t)
  const child = startChild(generatorProgram)
  t.teardown(() => child.stop())
  const question = { kind: 'requests', generator, to, path, connections: 4, seconds: 1 }
  const answer = (await child.ask({ ...question, pids }, 10_000)) as LoadAnswer
  t.ok(answer.done > 0)
  // The process that asks only waits for it.
  t.ok((answer.cores?.generator ?? 0) > 0.02, `${answer.cores?.generator}`)
})

t.test('it ends with the generator, however that ends', { skip }, async t => {
  // What is killed can't remove its script; the bench gives it a directory that goes, too.
  const { TMPDIR = tmpdir() } = process.env
  process.env['TMPDIR'] = t.testdir()
  t.teardown(() => {
    process.env['TMPDIR'] = TMPDIR
  })
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const { to } = await serveHttp(t)
    const child = startChild(generatorProgram)
    t.teardown(() => child.stop())
    const question: LoadQuestion = {
      kind: 'requests',
      generator,
      to,
      path,
      connections: 1,
      seconds: 30,
      pids,
    }
    const asked = child.ask(question, 40_000)
    asked.catch(() => undefined)
    // Before it is wrk it is setpriv, which has yet to ask to end with its parent.
    await until('wrk runs', () => nameOf(processTree(child.pid)[1]) === 'wrk')
    const [, wrk = 0] = processTree(child.pid)
    process.kill(child.pid, signal)
    await t.rejects(asked, /ended unexpectedly/)
    await until('wrk is gone', () => !isAlive(wrk))
  }
})

const nameOf = (pid = 0): string => {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trim()
  } catch {
    return ''
  }
}

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

t.test('without wrk our own generator works, and that it is missing is said', async t => {
  const path_ = process.env['PATH']
  process.env['PATH'] = '/nowhere'
  t.teardown(() => {
    process.env['PATH'] = path_
  })
  const { to } = await serveHttp(t)
  const question = { kind: 'requests', to, path, connections: 2 } as const
  await t.rejects(ask({ ...question, generator }), /wrk is not installed/)
  const { done } = await ask({ ...question, generator: 'own' })
  t.ok(done > 0)
})

t.test('a report of wrk that is not whole is none', async t => {
  t.equal(readWrkReport(''), undefined)
  t.equal(readWrkReport('usher-bench:{"us":100,'), undefined)
  t.equal(readWrkReport('usher-bench:7'), undefined)
  t.equal(readWrkReport('usher-bench:{"requests":1}'), undefined)
  t.same(readWrkReport('usher-bench:{"us":1000000,"requests":0,"timeout":2}'), {
    done: 0,
    seconds: 1,
    errors: { timeout: 2 },
    refused: 0,
  })
})

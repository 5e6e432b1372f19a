import t from 'tap'
import { ask, ok, serveHttp, timed } from './servers.ts'

const path = '/64'

/** Answers nobody for 300 ms after it has served for 400, then all who have waited. */
const serveFreezing = async (tap: Parameters<typeof serveHttp>[0]) => {
  const waiting = new Set<() => void>()
  let isFrozen = false
  let timers: readonly NodeJS.Timeout[] | undefined
  // The generator is a process, which takes its time to start.
  const begin = () => [
    setTimeout(() => (isFrozen = true), 400),
    setTimeout(() => {
      isFrozen = false
      for (const answer of waiting) answer()
    }, 700),
  ]
  tap.teardown(() => timers?.forEach(clearTimeout))
  return serveHttp(tap, (_, socket) => {
    timers ??= begin()
    if (!isFrozen) return ok
    waiting.add(() => socket.write(ok))
    return undefined
  })
}

t.test('an open loop charges a freeze for all who would have waited', async t => {
  const { to } = await serveFreezing(t)
  const answer = await ask(
    { kind: 'open-loop', to, path, connections: 4, perSecond: 500 },
    1,
  )
  const { latency, late } = answer
  t.ok((latency?.p90 ?? 0) > 100, `p90 ${latency?.p90}`)
  t.ok((latency?.p99 ?? 0) > 200, `p99 ${latency?.p99}`)
  t.ok((late?.p90 ?? Infinity) < 50, 'that is not the fault of the generator')
  t.ok((late?.count ?? Infinity) < 400, 'those that waited were not sent late')
  t.ok(Math.abs(answer.done / answer.seconds - 500) < 50, `${answer.done}`)
  t.same(answer.errors, {})
})

t.test('a closed loop hardly sees it', async t => {
  const { to } = await serveFreezing(t)
  const { latency } = await ask(
    { kind: 'requests', generator: 'own', to, path, connections: 4 },
    1,
  )
  t.ok((latency?.p90 ?? Infinity) < 100, `p90 ${latency?.p90}`)
  t.ok((latency?.max ?? 0) > 250, `max ${latency?.max}`)
})

t.test('an open loop tells what was more than the target can do', async t => {
  const { to } = await serveHttp(t, (_, socket) => {
    setTimeout(() => socket.write(ok), 50)
    return undefined
  })
  const asked = ask({ kind: 'open-loop', to, path, connections: 1, perSecond: 400 }, 0.5)
  const [{ done, tried, errors, latency }, ms] = await timed(asked)
  t.ok(ms < 6000)
  t.ok((tried ?? 0) > 150 && done < 60, `${done} of ${tried}`)
  t.ok((errors['not sent'] ?? 0) > 100)
  t.equal(latency?.count, tried, 'all of them are charged')
  t.ok((latency?.p50 ?? 0) > 1500, 'with the time that they have waited')
})

t.test('an open loop takes its connections by turns', async t => {
  const seen = new Map<unknown, number>()
  const { to } = await serveHttp(t, (_, socket) => {
    seen.set(socket, (seen.get(socket) ?? 0) + 1)
    return ok
  })
  await ask({ kind: 'open-loop', to, path, connections: 5, perSecond: 200 })
  const counts = [...seen.values()]
  t.equal(counts.length, 5)
  t.ok(Math.max(...counts) <= 2 * Math.min(...counts), counts.join())
})

t.test('paced connections are so many, whatever becomes of them', async t => {
  const { to, asked } = await serveHttp(t, (nth, socket) => {
    if (nth % 4 === 1) socket.resetAndDestroy()
    // The third in each four has no answer.
    return nth % 4 === 1 || nth % 4 === 3 ? undefined : ok
  })
  const answer = await ask(
    { kind: 'paced-connections', to, path, perSecond: 200, timeoutMs: 300 },
    0.5,
  )
  const { tried = 0, done, errors, latency, connect } = answer
  t.ok(tried >= 90 && tried <= 130, `${tried} tried`)
  t.ok(asked.connections >= tried)
  t.ok(Math.abs(done - tried / 2) <= 3, `${done} of ${tried}`)
  const failed = (errors['ECONNRESET'] ?? 0) + (errors['timeout'] ?? 0)
  t.equal(failed + (asked.connections - failed), asked.connections)
  t.ok(Math.abs((errors['timeout'] ?? 0) - (errors['ECONNRESET'] ?? 0)) <= 2)
  t.same([latency?.count, connect?.count], [done, tried])
})

t.test('paced connections count from the very first when they are to', async t => {
  // What only the first ones meet, as those that meet an endpoint nobody knows to be dead.
  const { to, asked } = await serveHttp(t, (nth, socket) => {
    if (nth > 10) return ok
    socket.resetAndDestroy()
    return undefined
  })
  const answer = await ask(
    {
      kind: 'paced-connections',
      to,
      path,
      perSecond: 200,
      timeoutMs: 10_000,
      fromTheFirst: true,
    },
    0.3,
  )
  t.equal(answer.tried, asked.connections)
  t.equal((answer.tried ?? 0) - answer.done, answer.errors['ECONNRESET'])
})

t.test('a server that is slow to answer does not slow the pace', async t => {
  const { to, asked } = await serveHttp(t, (_, socket) => {
    setTimeout(() => socket.end(ok), 200)
    return undefined
  })
  const answer = await ask(
    { kind: 'paced-connections', to, path, perSecond: 100, timeoutMs: 2000 },
    0.5,
  )
  t.ok(answer.done >= 45 && answer.tried === undefined, `${answer.done}`)
  t.ok(asked.connections >= answer.done)
  t.ok((answer.latency?.p50 ?? 0) > 190)
})

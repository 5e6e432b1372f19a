import { readFileSync } from 'node:fs'
import t from 'tap'
import { ackedBytes } from '../../../bench/backends/servers.ts'
import type { Endpoint } from '../../../bench/services.ts'
import { allTargets } from '../../../bench/targets/all-targets.ts'
import { givenTarget } from '../../../bench/targets/direct.ts'
import { haproxyTarget } from '../../../bench/targets/haproxy.ts'
import { nginxTarget } from '../../../bench/targets/nginx.ts'
import { versions } from '../../../bench/targets/program.ts'
import { sidecarTarget } from '../../../bench/targets/sidecar.ts'
import { usherTarget } from '../../../bench/targets/usher.ts'
import { answers, bodyLength, echo, get, namedServer, talk } from './ask.ts'
import { dialled, here, hostOnly, isAlive, lane, startPods, startTarget } from './pods.ts'
import { until } from '../../support/until.ts'

t.test('targets on this host', async t => {
  const { backends, services } = await startPods(t)

  // What makes rules needs namespaces: it is tried where the whole bench is.
  const withRules = /^usher-(?:nftables|iptables|local|mode-.*)$/
  for (const target of allTargets.filter(({ name }) => !withRules.test(name))) {
    const skip = (await target.unsupportedReason(hostOnly)) || false
    await t.test(`${target.name} serves what it says`, { skip }, async t => {
      const endpoints = await Promise.all(['a', 'b'].map(name => namedServer(t, name)))
      const named = { name: 'named', protocol: 'TCP', endpoints } as const
      const running = await startTarget(t, target, {
        services: [...services, named],
        awaited: ['http', 'udp', 'named'],
      })
      const [http, source, sink] = (['http', 'source', 'sink'] as const).map(service =>
        dialled(running, service),
      ) as [Endpoint, Endpoint, Endpoint]
      t.equal(bodyLength(await get(http, '/64')), 64)
      t.equal(bodyLength(await get(http, '/16384')), 16_384)
      t.ok((await talk(source, '', text => text.length > 1e6)).length > 1e6)
      const twice = Buffer.alloc(2 * ackedBytes)
      t.equal((await talk(sink, twice, text => text.length === 2)).length, 2)
      const udp = running.addressOf('udp')
      if (udp === undefined) t.match(target.name, /^haproxy|-log-/, 'these have no UDP')
      else t.equal(await echo(udp, 'hello'), 'hello')
      t.equal(running.addressOf('else'), undefined)
      const heard = (await answers(dialled(running, 'named'), 8)).join('')
      if (target.name === 'direct') t.equal(heard, 'aaaaaaaa')
      else if (/^(?:usher|usher-linux-2|sidecar-4)$/.test(target.name))
        t.match(heard, /ab|ba/, 'each thread by turns')
      else t.match(heard, /^(?:abababab|babababa)$/, 'by turns')
      t.equal(beyondLoopback(running.complaint()), '')
      t.equal(running.command === '', target.name === 'direct')

      const pids = running.pids()
      t.equal(pids.length === 0, target.name === 'direct')
      await running.stop()
      await until('no process is left', () => !pids.some(isAlive))
      t.same(running.pids(), [])
    })
  }

  await t.test('a living endpoint is found among dead ones', async t => {
    const usher = usherTarget({ name: 'usher', capture: 'listen' })
    const endpoints = [
      ...backends.refusing(3),
      backends.silent,
      ...backends.endpoints('http'),
    ]
    const service = { name: 'degraded', protocol: 'TCP', endpoints } as const
    const running = await startTarget(t, usher, { services: [service] })
    const at = dialled(running, 'degraded')
    for (let i = 0; i < 6; i += 1) t.equal(bodyLength(await get(at, '/64')), 64)
  })

  const noProc = process.platform !== 'linux' && 'there is no /proc'
  await t.test('places are entered', { skip: noProc }, async t => {
    // env(1) does nothing but to go before a command line.
    const elsewhere = { ...here, enter: ['env', 'IN_PLACE=1'] }
    const usher = usherTarget({ name: 'usher', capture: 'listen' })
    const running = await startTarget(t, usher, {
      services,
      awaited: ['http', 'udp'],
      lane: { ...lane, ...elsewhere },
      client: elsewhere,
    })
    const [pid] = running.pids()
    t.match(readFileSync(`/proc/${pid}/environ`, 'utf8'), /IN_PLACE=1/)
    const at = dialled(running, 'http')
    t.equal(bodyLength(await get(at, '/64')), 64)
  })

  await t.test('only those that are awaited have to serve', async t => {
    const usher = usherTarget({ name: 'usher', capture: 'listen' })
    const dead = { name: 'dead', protocol: 'TCP', endpoints: [] } as const
    const order = { services: [...services, dead], awaited: ['http'] }
    const running = await startTarget(t, usher, order)
    t.ok(running.addressOf('dead'))
  })

  await t.test('an address that somebody gives is one service', async t => {
    const [http, udp] = [backends.endpoints('http')[0], backends.endpoints('udp')[0]]
    if (http === undefined || udp === undefined) throw new Error('no backends')
    const tcp = await startTarget(t, givenTarget('theirs', 'TCP', http), { services })
    t.same(tcp.addressOf('http'), http)
    t.equal(tcp.addressOf('udp'), undefined)
    const datagrams = await startTarget(t, givenTarget('theirs', 'UDP', udp), {
      services,
    })
    t.same(datagrams.addressOf('udp'), udp)
    t.equal(datagrams.addressOf('http'), undefined)
  })

  const churned = [
    usherTarget({ name: 'usher', capture: 'listen' }),
    haproxyTarget(),
    nginxTarget(),
  ]
  for (const target of churned) {
    const skip = (await target.unsupportedReason(hostOnly)) || false
    await t.test(`${target.name} takes other endpoints`, { skip }, async t => {
      const [a, b, c] = (await Promise.all(
        ['a', 'b', 'c'].map(name => namedServer(t, name)),
      )) as [Endpoint, Endpoint, Endpoint]
      const service = { name: 'named', protocol: 'TCP', endpoints: [a] } as const
      const running = await startTarget(t, target, { services: [service] })
      const at = dialled(running, 'named')
      const heard = async () => [...new Set(await answers(at, 6))].toSorted().join('')
      t.equal(await heard(), 'a')
      await running.setEndpoints?.('named', [b, c])
      await until('b and c', async () => (await heard()) === 'bc')
      await running.setEndpoints?.('named', [c, a])
      await until('a and c', async () => (await heard()) === 'ac')
      await running.setEndpoints?.('named', [b])
      await until('only b', async () => (await heard()) === 'b')
      await t.rejects(running.setEndpoints?.('else', [a]) ?? Promise.resolve(), /else/)
      t.equal(beyondLoopback(running.complaint()), '')
    })
  }

  const replaced = [...churned, sidecarTarget({ name: 'sidecar' })]
  for (const target of replaced) {
    const skip = (await target.unsupportedReason(hostOnly)) || noProc
    await t.test(`${target.name} is replaced while it serves`, { skip }, async t => {
      const service = {
        name: 'named',
        protocol: 'TCP',
        endpoints: [await namedServer(t, 'a')],
      } as const
      const order = { services: [service], isToBeReplaced: true } as const
      const running = await startTarget(t, target, order)
      const at = dialled(running, 'named')
      for (let turn = 0; turn < 2; turn += 1) {
        const before = running.pids()
        t.ok(Number(await running.replace?.()) > 0)
        const left = () => running.pids().filter(pid => before.includes(pid)).length
        const stays = target.name === 'nginx' ? 1 : 0
        // One that has ended is listed until its parent has looked.
        await until('its master alone stays', () => left() === stays)
        t.strictSame(await answers(at, 2), ['a', 'a'])
      }
      t.equal(beyondLoopback(running.complaint()), '')
      const last = running.pids()
      await running.stop()
      await until('no process is left', () => !last.some(isAlive))
    })
  }

  await t.test('what nobody waits for any more is not left running', async t => {
    const target = usherTarget({ name: 'usher', capture: 'listen' })
    const over = new AbortController()
    const dead = { name: 'dead', protocol: 'TCP', endpoints: [] } as const
    const started = startTarget(t, target, { services: [dead], signal: over.signal })
    setTimeout(() => over.abort(), 300)
    await t.rejects(started, /usher is not waited for any more/)
  })
})

t.test('versions are those of programs that are here', async t => {
  const found = await versions()
  t.equal(found['node'], process.versions.node)
  for (const version of Object.values(found)) t.match(version, /^\d+\.\d+/)
})

/** Endpoints of these tests are on loopback, of which Usher warns. */
const beyondLoopback = (complaint: string): string =>
  complaint
    .split('\n')
    .filter(line => !line.includes('is loopback'))
    .join('\n')

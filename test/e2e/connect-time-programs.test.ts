// A process of its own: long, and it mostly waits.
import t from 'tap'
import { missingPrograms } from '../support/installed.ts'
import { service } from '../support/manifests.ts'
import { until } from '../support/until.ts'
import {
  httpServer,
  nodeResolver,
  pythonClient,
  pythonResolver,
  said,
  served,
} from './connect-time/programs.ts'
import { makeStage, skip, sliceAt } from './connect-time/stage.ts'

const [web, cache, dns] = ['10.96.0.1', '10.96.0.2', '10.96.0.3'] as const

/** Without this program a part is left out. */
const needs = (...programs: string[]) => {
  const missing = missingPrograms(...programs)
  return { skip: missing === '' ? false : missing }
}

t.test('programs as they are dial VIPs', { skip }, async t => {
  const stage = await makeStage(t)
  const ask = (...command: string[]) => said(stage, ...command)
  const udp = { name: 'u', protocol: 'UDP', port: 53 }
  await stage.manifests.write(
    service('web', web, [{ name: 'p', port: 80 }]),
    sliceAt('web', ['127.0.0.11'], 8080),
    service('cache', cache, [{ name: 'p', port: 6379 }]),
    sliceAt('cache', ['127.0.0.12'], 7000),
    service('dns', dns, [udp]),
    sliceAt('dns', ['127.0.0.13'], 5353, udp),
  )
  await stage.lead(t)
  served(t, stage, process.execPath, '-e', httpServer('127.0.0.11', 8080))
  await until('the web answers', async () => {
    const { error } = await stage.client.tcp(web, 80)
    return error === 'silence' || error === undefined
  })

  await t.test('curl, several requests on a connection', needs('curl'), async t => {
    const words = await ask('curl', '-sS', `http://${web}/a`, `http://${web}/b`)
    const lines = words.split('\n')
    t.equal(lines.length, 2)
    t.equal(lines[0], lines[1], 'the same connection')
  })

  await t.test('python3', needs('python3'), async t => {
    const python = (script: string) => ask('python3', '-c', script)
    t.equal(await python(pythonClient('AF_INET', web)), `${web} HTTP/1.1 200 OK`)
    const mapped = `::ffff:${web}`
    t.equal(
      await python(pythonClient('AF_INET6', mapped)),
      `${mapped} HTTP/1.1 200 OK`,
      'by a socket of IPv6',
    )
  })

  await t.test('redis-cli', needs('redis-cli', 'redis-server'), async t => {
    const flags = '--bind 127.0.0.12 --port 7000 --protected-mode no --appendonly no'
    served(t, stage, 'redis-server', ...flags.split(' '), '--save', '')
    const redis = (...words: string[]) => ask('redis-cli', '-h', cache, ...words)
    const ping = () => redis('ping').catch(() => '')
    await until('it answers', async () => (await ping()) === 'PONG')
    t.equal(await redis('set', 'a', '1'), 'OK')
    t.equal(await redis('get', 'a'), '1')
  })

  await t.test('resolvers', needs('dnsmasq'), async t => {
    const flags = [
      '--keep-in-foreground',
      '--no-resolv',
      '--no-hosts',
      '--conf-file=/dev/null',
    ]
    const at = ['--listen-address=127.0.0.13', '--bind-interfaces', '--port=5353']
    const more = ['--address=/web.example/192.0.2.80', '--pid-file=', '--user=root']
    served(t, stage, 'dnsmasq', ...flags, ...at, ...more)
    await until('it answers', async () => {
      const words = await ask(process.execPath, '-e', nodeResolver(dns)).catch(() => '')
      return words === '192.0.2.80'
    })
    for (const connected of [true, false])
      await t.test(`python3, connected: ${connected}`, needs('python3'), async t => {
        const words = await ask('python3', '-c', pythonResolver(dns, connected))
        t.equal(words, `${dns} 53 192.0.2.80`)
      })
    await t.test('dig', needs('dig'), async t => {
      t.equal(await ask('dig', '+short', `@${dns}`, 'web.example'), '192.0.2.80')
    })
  })
})

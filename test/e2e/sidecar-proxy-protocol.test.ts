// A process of its own: it mostly waits.
import { once } from 'node:events'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { mysqlClient } from '../health/mysql-client.ts'
import { noMariadb, startMariadb } from '../health/mariadb-server.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { noHaproxy, startHaproxy } from '../support/peers/haproxy.ts'
import { noNginx, startNginx } from '../support/peers/nginx.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { until } from '../support/until.ts'
import { get as ask, startUsher } from '../support/usher.ts'

// The PROXY protocol with those who have it from elsewhere.
t.jobs = 3

const relays = linuxRelaySkip() === false ? ['linux', 'portable'] : ['portable']
const skip = process.platform !== 'linux' && 'needs the whole of 127.0.0.0/8'
/** Of clients; whoever asks for them gets another address. */
const clientHost = '127.9.8.7'

/** What an HTTP server says to a client, and where the client was. */
const get = async (port: number, from = clientHost) => {
  const client = connect({ port, host: testHost, localAddress: from })
  await once(client, 'connect')
  const { localPort } = client
  // Without an end: nginx takes that of a client for the end of all.
  client.write('GET / HTTP/1.0\r\n\r\n')
  let text = ''
  client.on('data', bytes => (text += bytes.toString()))
  await once(client, 'close')
  return { said: text.split('\r\n\r\n')[1] ?? '', at: `${from}:${localPort}` }
}

const sidecar = (t: Test, relay: string, ...routes: readonly string[]) =>
  startUsher(t, 'sidecar', `--relay=${relay}`, ...routes.map(route => `--route=${route}`))

for (const relay of relays) {
  t.test(
    `${relay}: HAProxy is told who the client is`,
    { skip: skip || noHaproxy },
    async t => {
      const [receiver, v1, v2] = [
        await freeTcpPort(),
        await freeTcpPort(),
        await freeTcpPort(),
      ]
      const haproxy = await startHaproxy(
        t,
        testHost,
        [receiver],
        `
frontend receiver
  mode http
  log global
  bind ${testHost}:${receiver} accept-proxy
  http-request return status 200 content-type text/plain lf-string "%[src]:%[src_port] to %[dst]:%[dst_port]"
`,
      )
      const to = `${testHost}:${receiver}`
      const usher = await sidecar(
        t,
        relay,
        `tcp://${testHost}:${v1}=${to}?proxy-protocol=v1&check=http:///`,
        `tcp://${testHost}:${v2}=${to}?proxy-protocol=v2&check=http:///`,
      )
      // Until then it is not, with `http` (docs/routes.md).
      await until('checks have found it up', async () => {
        const { servicePorts } = await usher.status()
        return servicePorts.every(
          ({ endpoints, vips }) =>
            endpoints[0]?.check?.up === true && vips[0]?.state === 'listening',
        )
      })
      for (const port of [v1, v2]) {
        const { said, at } = await get(port)
        t.equal(said, `${at} to ${testHost}:${port}`)
      }
      t.notMatch(haproxy.log, /PROXY/, 'it has found no fault in headers')
    },
  )

  t.test(
    `${relay}: nginx is told who the client is`,
    { skip: skip || noNginx },
    async t => {
      const [receiver, v1, v2] = [
        await freeTcpPort(),
        await freeTcpPort(),
        await freeTcpPort(),
      ]
      const nginx = await startNginx(
        t,
        testHost,
        [receiver],
        `http { server {
        listen ${testHost}:${receiver} proxy_protocol;
        location / {
          default_type text/plain;
          return 200 "$proxy_protocol_addr:$proxy_protocol_port to $proxy_protocol_server_addr:$proxy_protocol_server_port";
        }
      } }`,
      )
      const to = `${testHost}:${receiver}`
      await sidecar(
        t,
        relay,
        `tcp://${testHost}:${v1}=${to}?proxy-protocol=v1&check=tcp`,
        `tcp://${testHost}:${v2}=${to}?proxy-protocol=v2&check=tcp`,
      )
      for (const port of [v1, v2]) {
        const { said, at } = await get(port)
        t.equal(said, `${at} to ${testHost}:${port}`)
      }
      t.notMatch(nginx.log, /broken header/)
    },
  )

  t.test(
    `${relay}: MariaDB, which speaks first`,
    { skip: skip || noMariadb },
    async t => {
      const [server, route] = [await freeTcpPort(), await freeTcpPort()]
      const { root } = startMariadb(
        t,
        { host: testHost, port: server },
        '--proxy-protocol-networks=127.0.0.0/8',
        '--skip-name-resolve',
      )
      await until('it is up', () =>
        root('SELECT 1').then(
          () => true,
          () => false,
        ),
      )
      await root(`CREATE USER app@'${clientHost}'`)
      await sidecar(
        t,
        relay,
        `tcp://${testHost}:${route}=${testHost}:${server}?proxy-protocol=v2&check=mysql`,
      )
      const asked = mysqlClient(
        { host: testHost, port: route, localAddress: clientHost },
        'app',
      )
      t.match(await asked('SELECT USER()'), `app@${clientHost}`)
    },
  )

  t.test(
    `${relay}: HAProxy and nginx say who the client is`,
    { skip: skip || noHaproxy || noNginx },
    async t => {
      const [route, receiver] = [await freeTcpPort(), await freeTcpPort()]
      const senders = {
        v1: await freeTcpPort(),
        v2: await freeTcpPort(),
        nginx: await freeTcpPort(),
      }
      const to = `${testHost}:${route}`
      await startHaproxy(
        t,
        testHost,
        [receiver],
        `
frontend receiver
  mode http
  bind ${testHost}:${receiver} accept-proxy
  http-request return status 200 content-type text/plain lf-string "%[src]:%[src_port] to %[dst]:%[dst_port]"
`,
      )
      const usher = await sidecar(
        t,
        relay,
        `tcp://${to}=${testHost}:${receiver}?accept-proxy=127.0.0.0/8&proxy-protocol=v2&deny=127.9.8.6`,
      )
      await startHaproxy(
        t,
        testHost,
        [senders.v1, senders.v2],
        `
listen v1
  bind ${testHost}:${senders.v1}
  server usher ${to} send-proxy check
listen v2
  bind ${testHost}:${senders.v2}
  server usher ${to} send-proxy-v2 proxy-v2-options crc32c,unique-id check
`,
      )
      await startNginx(
        t,
        testHost,
        [senders.nginx],
        `stream { server { listen ${testHost}:${senders.nginx}; proxy_pass ${to}; proxy_protocol on; } }`,
      )
      for (const port of Object.values(senders)) {
        const { said, at } = await get(port)
        t.equal(said, `${at} to ${testHost}:${port}`)
        t.equal(
          (await get(port, '127.9.8.6').catch(() => ({ said: '' }))).said,
          '',
          'is denied',
        )
      }
      // HAProxy tries again where the reset comes at once.
      const { body } = await ask(usher.metrics, '/metrics')
      t.match(body, /^usher_connections_failed_total\{.*cause="PR".*\} \d+$/m)
      t.notMatch(body, 'cause="PH"')
    },
  )
}

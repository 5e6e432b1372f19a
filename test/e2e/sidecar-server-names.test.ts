// A process of its own: it mostly waits.
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import t from 'tap'
import { isInstalled } from '../support/installed.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { tcpBackend } from '../support/tcp-backend.ts'
import { startUsher } from '../support/usher.ts'

/** A program of the host's. */
const client: string = 'openssl'
const skip = !isInstalled(client) && 'openssl is not installed'
const relays = linuxRelaySkip() === false ? ['linux', 'portable'] : ['portable']

for (const relay of relays)
  t.test(`${relay}: openssl gets the endpoints for its server`, { skip }, async t => {
    const port = await freeTcpPort()
    const heard: string[] = []
    const backends = await Promise.all(
      ['db', 'apps', 'others'].map(name =>
        tcpBackend(t, socket => {
          socket.once('data', () => {
            heard.push(name)
            socket.end('no TLS')
          })
        }),
      ),
    )
    const [db, apps, others] = backends.map(one => one.endpoint.key)
    const path = `${t.testdir({})}/routes.yaml`
    writeFileSync(
      path,
      `routes:
  - listen: tcp://${testHost}:${port}
    serverNames:
      - {names: [db.example], endpoints: ["${db}"]}
      - {names: ["*.Apps.example"], alpn: [h2], endpoints: ["${apps}"]}
    endpoints: ["${others}"]
    check: tcp
`,
    )
    await startUsher(t, 'sidecar', `--relay=${relay}`, '--config', path)
    const reached = async (...args: readonly string[]): Promise<string> => {
      heard.length = 0
      const to = ['s_client', '-connect', `${testHost}:${port}`, ...args]
      await new Promise<void>(resolve => {
        execFile(client, to, { timeout: 10_000 }, () => resolve()).stdin?.end()
      })
      return heard.join()
    }
    t.equal(await reached('-servername', 'DB.example'), 'db')
    t.equal(await reached('-servername', 'a.b.apps.example', '-alpn', 'h2'), 'apps')
    t.equal(await reached('-servername', 'a.b.apps.example'), 'others')
    t.equal(await reached('-servername', 'other.example'), 'others')
    t.equal(await reached('-noservername'), 'others')
  })

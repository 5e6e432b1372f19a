import { fileURLToPath } from 'node:url'
import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { makeLinuxRelay, makeLinuxRelayOfTwo } from '../support/linux-relay.ts'
import { netnsProblem } from '../support/netns.ts'
import { makePortableRelay } from '../support/portable-relay.ts'
import { typescript } from '../support/typescript.ts'
import { tcpKeptPortsContract } from './contract/tcp-kept-ports.ts'
import { tcpSourcePortsContract } from './contract/tcp-source-ports.ts'

/** Tells this file that it is in a network namespace with so few source ports. */
const marker = 'USHER_TEST_SOURCE_PORTS'
const ports = Number(process.env[marker] ?? 0)

if (ports > 0) {
  t.test('the portable relay', async t =>
    tcpSourcePortsContract(t, makePortableRelay, ports),
  )
  t.test('the Linux relay', { skip: linuxRelaySkip() }, async t =>
    tcpSourcePortsContract(t, makeLinuxRelay, ports),
  )
  for (const make of [makeLinuxRelay, makeLinuxRelayOfTwo])
    t.test('a port without endpoints', { skip: linuxRelaySkip() }, async t =>
      tcpKeptPortsContract(t, make, 61_000, 61_003),
    )
} else {
  const why = await netnsProblem()
  t.test('with four source ports', { skip: why !== '' && why }, async t => {
    const range = 'echo 61000 61003 > /proc/sys/net/ipv4/ip_local_port_range'
    const enter = [
      '--net',
      'sh',
      '-c',
      `ip link set lo up && ${range} && exec "$@"`,
      'sh',
    ]
    const node = [process.execPath, typescript, fileURLToPath(import.meta.url)]
    const env = { ...process.env, [marker]: '4' }
    await t.spawn('unshare', [...enter, ...node], { env }, 'in a namespace')
  })
}

import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { idOf } from '../../../src/kernel/connect-time/network-namespaces.ts'
import { mayHavePeersAt } from '../../../src/kernel/connect-time/udp-ends.ts'

const own = '/proc/self/ns/net'
const head =
  '   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n'
const line = (peer: string, state: string): string =>
  `  512: 0100007F:B26E ${peer} ${state} 00000000:00000000 00:00000000 00000000  0\n`

const process = (tables: Readonly<Record<string, string>>, namespace = own): string => {
  const folder = mkdtempSync(join(tmpdir(), 'usher-process-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  for (const each of ['net', 'ns']) mkdirSync(join(folder, each))
  for (const [name, text] of Object.entries(tables))
    writeFileSync(join(folder, 'net', name), head + text)
  symlinkSync(namespace, join(folder, 'ns/net'))
  return folder
}

const look = async (ports: readonly number[], ...processes: readonly string[]) =>
  mayHavePeersAt(new Set(ports), {
    id: idOf(await stat(own)),
    isOwn: true,
    processes,
    names: [],
  })

t.test('a connected socket with a peer at the port is seen', async t => {
  const udp = process({ udp: line('0B00007F:0035', '01'), udp6: '' })
  t.equal(await look([53], udp), true)
  t.equal(await look([8080, 53], udp), true)
  t.equal(await look([54, 0xb26e], udp), false, 'another port, and its own')
  const udp6 = process({ udp: '', udp6: line(`${'0'.repeat(32)}:14E9`, '01') })
  t.equal(await look([5353], udp6), true)
  const unconnected = process({ udp: line('00000000:0035', '07') })
  t.equal(await look([53], unconnected), false, 'unconnected, and no IPv6')
})

t.test('what can not be looked at may have one', async t => {
  const none = { udp: '', udp6: '' }
  t.equal(await look([53]), true, 'it has a name alone')
  t.equal(await look([53], '/nonexistent'), true, 'it has ended')
  t.equal(await look([53], process(none, '/dev/null')), true, 'it is elsewhere')
  const folder = process(none)
  rmSync(join(folder, 'net/udp'))
  mkdirSync(join(folder, 'net/udp'))
  t.equal(await look([53], folder), true, 'it can not be read')
  t.equal(await look([53], process(none)), false)
})

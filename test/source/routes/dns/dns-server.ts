import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { Test } from 'tap'
import type { AddressPort } from '../../../../src/util/ip.ts'
import { freePort, testHost } from '../../../support/ports.ts'

/** A question as the server sees it. */
export interface Asked {
  readonly id: number
  readonly name: string
  readonly type: number
  readonly over: 'UDP' | 'TCP'
  /** Records beside the question: that of EDNS. */
  readonly additional: number
  /** The question's bytes in the message, to be said again. */
  readonly question: Buffer
}

/** What to send, bytes and all; nothing is silence. */
export type Answers = (asked: Asked) => Buffer | readonly Buffer[] | undefined

export interface DnsServer extends AddressPort {
  readonly asked: Asked[]
}

/** A server that says what it is told to, right or wrong, over UDP and TCP. */
export const dnsServer = async (
  t: Test,
  answers: Answers,
  place?: AddressPort,
): Promise<DnsServer> => {
  const { address, port } = place ?? { address: testHost, port: await freePort() }
  const asked: Asked[] = []
  const answer = (message: Buffer, over: Asked['over']): readonly Buffer[] => {
    const one = parse(message, over)
    asked.push(one)
    const said = answers(one)
    return said === undefined ? [] : Buffer.isBuffer(said) ? [said] : said
  }
  const udp = createSocket('udp4')
  udp.on('message', (message, from) => {
    for (const said of answer(message, 'UDP')) udp.send(said, from.port, from.address)
  })
  udp.bind(port, address)
  const tcp = createServer(socket => {
    socket.on('error', () => {})
    socket.on('data', data => {
      for (const said of answer(data.subarray(2), 'TCP'))
        socket.write(Buffer.concat([u16(said.length), said]))
    })
  })
  tcp.listen(port, address)
  await Promise.all([once(udp, 'listening'), once(tcp, 'listening')])
  t.teardown(() => {
    udp.close()
    tcp.close()
  })
  return { address, port, asked }
}

const parse = (message: Buffer, over: Asked['over']): Asked => {
  const labels: string[] = []
  let at = 12
  for (let size = message[at] ?? 0; size > 0; size = message[at] ?? 0) {
    labels.push(message.toString('latin1', at + 1, at + 1 + size))
    at += 1 + size
  }
  return {
    id: message.readUInt16BE(0),
    name: labels.join('.'),
    type: message.readUInt16BE(at + 1),
    over,
    additional: message.readUInt16BE(10),
    question: message.subarray(12, at + 5),
  }
}

export const u16 = (...values: number[]): Buffer =>
  Buffer.from(values.flatMap(value => [value >> 8, value & 0xff]))

/** Labels of any bytes. */
export const wireName = (name: string): Buffer =>
  Buffer.concat([
    ...name
      .split('.')
      .filter(label => label !== '')
      .map(label =>
        Buffer.concat([Buffer.of(label.length), Buffer.from(label, 'latin1')]),
      ),
    Buffer.of(0),
  ])

export const record = (name: string, type: number, ttl: number, data: Buffer): Buffer =>
  Buffer.concat([
    wireName(name),
    u16(type, 1, Math.floor(ttl / 0x10000), ttl % 0x10000, data.length),
    data,
  ])

export const a = (name: string, address: string, ttl = 60): Buffer =>
  record(name, 1, ttl, Buffer.from(address.split('.').map(Number)))

/** Only of eight groups. */
export const aaaa = (name: string, address: string, ttl = 60): Buffer =>
  record(
    name,
    28,
    ttl,
    u16(...address.split(':').map(group => Number.parseInt(group, 16))),
  )

export const cname = (name: string, target: string, ttl = 60): Buffer =>
  record(name, 5, ttl, wireName(target))

export const srv = (
  name: string,
  [priority, weight, port, target]: readonly [number, number, number, string],
  ttl = 60,
): Buffer =>
  record(name, 33, ttl, Buffer.concat([u16(priority, weight, port), wireName(target)]))

/** An answer to a question; `flags` and `rcode` besides those of a plain one. */
export const reply = (
  { id, question }: Asked,
  records: readonly Buffer[],
  { rcode = 0, flags = 0 } = {},
): Buffer =>
  Buffer.concat([
    u16(id, 0x8180 | flags | rcode, 1, records.length, 0, 0),
    question,
    ...records,
  ])

export const truncated = 0x0200
/** A server that says it has no such name. */
export const nxdomain = (asked: Asked): Buffer => reply(asked, [], { rcode: 3 })

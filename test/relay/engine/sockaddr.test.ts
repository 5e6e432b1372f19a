import { SocketAddress } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import * as fc from 'fast-check'
import t from 'tap'
import { AF_INET, AF_INET6 } from '../../../src/ffi/constants.ts'
import { NativeMemory } from '../../../src/ffi/syscalls.ts'
import {
  readAddressWords,
  readSockaddr,
  writeSockaddr,
} from '../../../src/relay/engine/sockaddr.ts'
import { addressWords } from '../../../src/util/cidr.ts'
import { canonicalIp } from '../../../src/util/ip.ts'

const room = (): NativeMemory => new NativeMemory(40, () => 0)

/** address, port, and the bytes from the third on. */
const written: readonly (readonly [address: string, port: number, hex: string])[] = [
  ['127.0.0.1', 80, '00507f0000010000000000000000'],
  ['255.254.1.0', 65_535, 'fffffffe01000000000000000000'],
  ['::', 1, `000100000000${'0'.repeat(40)}`],
  ['::1', 8080, `1f9000000000${'1'.padStart(32, '0')}00000000`],
  ['2001:db8::a:b', 53, '00350000000020010db80000000000000000000a000b00000000'],
  ['1:2:3:4:5:6:7:8', 53, '0035000000000001000200030004000500060007000800000000'],
  ['::ffff:192.0.2.1', 53, '00350000000000000000000000000000ffffc000020100000000'],
  ['fe80::1%2', 53, '003500000000fe80000000000000000000000000000100000000'],
]

for (const [address, port, hex] of written) {
  t.test(`${address} port ${port} is written as the kernel wants it`, async t => {
    const memory = room()
    memory.bytes.fill(0xff)
    const length = writeSockaddr(memory, 4, address, port)
    t.equal(length, address.includes(':') ? 28 : 16)
    const family = address.includes(':') ? AF_INET6 : AF_INET
    t.equal(memory.view.getUint16(4, true), family)
    t.equal(memory.bytes.toString('hex', 6, 4 + length), hex)
    t.equal(memory.bytes[4 + length], 0xff, 'and nothing beyond it')
  })
}

t.test('what is no address is refused', async t => {
  for (const address of ['', 'localhost', '1.2.3', '::g'])
    t.throws(() => writeSockaddr(room(), 0, address, 1), /is not an IP address/)
})

t.test('IPv4 is read as it was written', async () => {
  const part = fc.nat(255)
  fc.assert(
    fc.property(fc.tuple(part, part, part, part), fc.nat(65_535), (parts, port) => {
      const memory = room()
      writeSockaddr(memory, 8, parts.join('.'), port)
      const read = readSockaddr(memory, 8)
      return read.address === parts.join('.') && read.port === port
    }),
  )
})

t.test('IPv6 is spelled as Node spells it, however it was given', async () => {
  // Many zeros, so that there is something to compress.
  const group = fc.oneof(fc.constant(0), fc.constant(0xffff), fc.nat(0xffff))
  const groups = fc.array(group, { minLength: 8, maxLength: 8 })
  fc.assert(
    fc.property(groups, fc.nat(65_535), (parts, port) => {
      const long = parts.map(one => one.toString(16)).join(':')
      const short = new SocketAddress({ address: long, family: 'ipv6' }).address
      return [long, short].every(address => {
        const memory = room()
        writeSockaddr(memory, 0, address, port)
        const read = readSockaddr(memory, 0)
        return read.address === canonicalIp(address) && read.port === port
      })
    }),
    { numRuns: 3000 },
  )
})

t.test('words of an address are those of its text', async () => {
  const ipv6 = fc.ipV6().filter(address => canonicalIp(address) !== undefined)
  const addresses = fc.oneof(
    fc.ipV4(),
    ipv6,
    fc.ipV4().map(ip => `::ffff:${ip}`),
  )
  fc.assert(
    fc.property(addresses, address => {
      const memory = room()
      writeSockaddr(memory, 4, address, 1)
      const words = [...readAddressWords(memory, 4)]
      return isDeepStrictEqual(words, addressWords(address))
    }),
  )
})

import { DefaultDeserializer, serialize } from 'node:v8'
import t from 'tap'
import type { RelayListener } from '../../../src/relay/relay.ts'
import { withOwnRanges } from '../../../src/relay/supervised/relay-server.ts'
import { rangesOf } from '../../../src/util/address-ranges.ts'
import { frontOf, listenerSpec } from '../../support/relay-fixture.ts'

/** As `fork` with advanced serialization does. */
const received = (listener: RelayListener): RelayListener => {
  const bytes = serialize({ before: 'x'.repeat(5000), listener })
  const reader = new DefaultDeserializer(bytes)
  reader.readHeader()
  return (reader.readValue() as { listener: RelayListener }).listener
}

t.test('ranges from another process are no parts of its message', async t => {
  const sent = listenerSpec({
    fronts: [
      frontOf([], { allowedClients: rangesOf(['10.0.0.0/8', 'fd00::/8']) }),
      frontOf([]),
    ],
    clients: { deny: [rangesOf(['192.0.2.1'])] },
  })
  const came = received(sent)
  const whole = came.clients?.deny?.[0]?.ipv4.buffer
  t.ok((whole?.byteLength ?? 0) > 5000, 'as they come they are')
  const own = withOwnRanges(came)
  t.strictSame(own.fronts, sent.fronts)
  t.strictSame(own.clients?.deny, sent.clients?.deny)
  const memory = own.clients?.deny?.[0]?.ipv4.buffer
  t.ok(memory instanceof SharedArrayBuffer)
  t.equal(memory?.byteLength, 8)
})

t.test('a listener without ranges is left as it is', async t => {
  const listener = listenerSpec({ fronts: [frontOf([])] })
  t.equal(withOwnRanges(listener), listener)
})

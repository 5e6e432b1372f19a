import t from 'tap'
import { GonePlaces } from '../../../src/source/routes/route-source.ts'
import { placeAt } from '../../../src/source/routes/place.ts'
import { parseRoute } from '../../../src/source/routes/route-flag.ts'

const reset = parseRoute('tcp://127.0.0.1:1=db:1?on-gone=reset')
const keep = parseRoute('tcp://127.0.0.1:2=db:1')

const setUp = () => {
  const gone = new GonePlaces()
  const at = (now: number, ...addresses: string[]) => {
    const places = addresses.map(address => placeAt(address, 1))
    gone.update([reset, keep], () => places, now)
    return gone.of(reset).map(({ address }) => address)
  }
  return { gone, at }
}

t.test('what has left is known for 30 s, or until it is back', async t => {
  const { gone, at } = setUp()
  t.strictSame(at(0, '10.0.0.1', '10.0.0.2', '10.0.0.3'), [])
  t.equal(gone.until, undefined)
  t.strictSame(at(1000, '10.0.0.3'), ['10.0.0.1', '10.0.0.2'])
  t.strictSame(gone.of(keep), [])
  t.equal(gone.until, 31_000)
  t.strictSame(at(2000, '10.0.0.2'), ['10.0.0.1', '10.0.0.3'])
  t.strictSame(at(31_000, '10.0.0.2'), ['10.0.0.3'])
  t.strictSame(at(32_000, '10.0.0.2'), [])
  t.equal(gone.until, undefined)
})

t.test('an answer that is another each time does not fill the memory', async t => {
  const { at } = setUp()
  for (let i = 0; i < 20; i += 1) {
    const addresses = Array.from({ length: 256 }, (_, host) => `10.0.${i}.${host}`)
    t.ok(at(i, ...addresses).length <= 1024)
  }
})

t.test('a route that is left out is forgotten', async t => {
  const { gone, at } = setUp()
  at(0, '10.0.0.1')
  gone.update([], () => [], 1)
  t.strictSame(at(2, '10.0.0.2'), [])
})

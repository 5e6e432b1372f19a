import t from 'tap'
import { comesRound, isFar, ttlOnward } from '../../../src/relay/engine/rings.ts'

t.test(
  'what goes round is found, whatever TTL it began with, and no host is taken for it',
  async t => {
    for (const first of [64, 128, 255, 30, 0]) {
      let [ttl, far, hops] = [first, 0, 0]
      for (; !comesRound(ttl, far) && hops < 1000; hops += 1) {
        if (isFar(ttl)) far += 1
        ttl = ttlOnward(ttl)
      }
      t.ok(hops >= 90 && hops <= 100, `${first}: ${hops} hops`)
    }
    let [ttl, far] = [255, 0]
    for (let hops = 0; hops < 1000 && !comesRound(ttl, far); hops += 1) {
      if (isFar(ttl)) far += 1
      // Two routers between each.
      ttl = Math.max(ttlOnward(ttl) - 2, 1)
    }
    t.ok(comesRound(ttl, far))
    t.notOk(comesRound(150, 0), 'a host with a TTL of its own, alone')
    for (const own of [255, 128, 64, 200, 161, 129])
      t.ok(ttlOnward(own) >= 129, 'an endpoint is in reach')
  },
)

import t from 'tap'
import { listedSizes } from '../../../src/kernel/nft/table-watch.ts'

t.test('nftables: elements of a listing are counted', async t => {
  const text = `table ip usher {
	map vips {
		comment "a, b"
		type ipv4_addr . inet_service : ipv4_addr
		elements = { 10.96.0.1 . 80 : 1.1.1.1, 10.96.0.2 . 80 : 1.1.1.1,
			     10.96.0.3 . 80 : 1.1.1.1 }
	}

	set empty {
		type ipv4_addr
	}

	chain a {
		meta l4proto { tcp, udp } drop
	}
}
`
  t.same(
    [...(await listedSizes(text))],
    [
      ['vips', 3],
      ['empty', 0],
    ],
  )
})

import t from 'tap'
import { clientsChain, disjoint } from '../../../src/capture/nftables/clients.ts'
import { MonitorEvents } from '../../../src/kernel/nft/monitor.ts'
import { listedSizes } from '../../../src/kernel/nft/table-watch.ts'

const monitorText = `add element ip usher vips { 10.96.0.1 . tcp . 80 : 169.254.77.88 . 1 }
add element ip usher stamp { 0x0000004d }
# new generation 2 by process 11 (nft)
add table ip usher-2
add element ip other stamp { 0x00000001 }
# new generation 3 by process 12 (nft)
delete rule ip6 usher hold handle 24
delete element ip usher stamp { 0x0000004d }
# new generation 4 by process 13 (iptables)
# ERROR: We lost some netlink events!
`

export const pureTests = (): void => {
  t.test('nftables: what the monitor writes is read however it is cut', async t => {
    for (const size of [1, 7, 50, 5000]) {
      const events = new MonitorEvents()
      const pieces = monitorText.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []
      const [own, other, lost, ...more] = pieces.flatMap(piece => events.read(piece))
      t.match(own, { by: 'nft (process 11)' })
      t.same(own !== 'lost events' && own?.touched.get('ip usher')?.stamps, [
        '0x0000004d',
      ])
      t.match(other, { by: 'iptables (process 13)' })
      const touched = other === 'lost events' ? undefined : other?.touched
      t.same([...(touched?.keys() ?? [])], ['ip6 usher', 'ip usher'])
      t.same(touched?.get('ip usher')?.stamps, [], 'one that goes is nobody’s sign')
      t.equal(lost, 'lost events')
      t.same(more, [])
    }
  })

  t.test('nftables: CIDRs within others are left out', async t => {
    t.same(disjoint(['10.1.0.0/16', '11.0.0.0/8', '10.0.0.0/8', '10.1.0.0/16']), [
      '10.0.0.0/8',
      '11.0.0.0/8',
    ])
    t.same(disjoint(['fd00:1::/32', 'fd00::/8', '::/128']), ['::/128', 'fd00::/8'])
    t.equal(
      clientsChain(['10.0.0.0/8', '11.0.0.0/8']),
      clientsChain(['11.0.0.0/8', '10.0.0.0/8']),
    )
  })

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
}

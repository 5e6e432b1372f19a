import type { Machine } from './machine.ts'

/** All that the node's kernel was told, as text to be compared, without what changes alone. */
export const nodeState = async (machine: Machine): Promise<string> => {
  const path = '/mnt/state.sh'
  await machine.write(path, script)
  const text = await machine.run('sh', path)
  return text
    .replaceAll(/^# .*\n/gm, '')
    .replaceAll(/ \[\d+:\d+\]/g, '')
    .replaceAll(emptyTable, '')
}

/** To ask for a table makes it. */
const emptyTable = /^\*\w+\n(?::\S+ ACCEPT\n)*COMMIT\n/gm

const script = `exec 2>&1
ip -oneline link
ip -oneline address
for family in -4 -6; do ip $family route show table all; ip $family rule; done
ipvsadm -S -n
ipset save | sort
for tool in iptables ip6tables; do $tool-nft-save; $tool-legacy-save; done
cd /proc/sys/net
grep . ipv4/ip_forward ipv4/conf/all/route_localnet ipv4/conf/all/arp_[ia]* \
  netfilter/nf_conntrack_tcp* netfilter/nf_conntrack_udp*
`

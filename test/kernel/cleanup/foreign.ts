import type { Netns } from '../../support/netns.ts'
import { table } from './left-behind.ts'

const builtIn: Readonly<Record<string, readonly string[]>> = {
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
}

/** A rule in every built-in chain, so that all of them are there before and after. */
const everywhere = Object.entries(builtIn)
  .map(([name, chains]) =>
    table(
      name,
      [],
      chains.map(
        chain => `-A ${chain} -p udp -m udp --dport 9999 -m comment --comment "mine"`,
      ),
    ),
  )
  .join('')

/** What the kubelet, kube-router, a CNI plugin and an administrator have. */
const others = [
  table(
    'nat',
    ['CNI-HOSTPORT-DNAT', 'KUBE-ROUTER-SNAT', 'KUBE-SVC-mine', 'KUBE-SERVICES-2'],
    [
      '-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT',
      '-A CNI-HOSTPORT-DNAT -p tcp -m tcp --dport 8080 -j KUBE-SVC-mine',
      '-A POSTROUTING -m comment --comment "kubernetes pods" -j KUBE-ROUTER-SNAT',
      '-A KUBE-SVC-mine -j KUBE-SERVICES-2',
    ],
  ),
  table(
    'filter',
    [
      'KUBE-FIREWALL',
      'KUBE-KUBELET-CANARY',
      'KUBE-NWPLCY-AAAAAAAAAAAAAAAA',
      'DOCKER-USER',
    ],
    [
      '-A INPUT -j KUBE-FIREWALL',
      '-A OUTPUT -j KUBE-FIREWALL',
      '-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP',
      '-A FORWARD -m comment --comment "a \\"quoted\\" -j KUBE-SERVICES" -j DOCKER-USER',
      '-A DOCKER-USER -m limit --limit 5/min -j LOG --log-prefix "-j KUBE-FORWARD "',
    ],
  ),
  table('mangle', ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY'], []),
].join('')

/** Puts things of others there, beside those of Usher and kube-proxy and like them. */
export const addForeign = async (ns: Netns): Promise<void> => {
  for (const program of ['iptables', 'ip6tables']) {
    for (const backEnd of ['nft', 'legacy']) {
      const command = `${program}-${backEnd}-restore`
      await ns.run(command, ['--noflush'], { input: everywhere + others })
    }
  }
  await ns.run('nft', ['-f', '-'], {
    input: `table inet kube-proxy {
      chain a {
        tcp dport 80 accept
      }
    }
    table ip usher-not {
      chain a {
        type filter hook input priority 0
        counter accept
      }
    }
    table ip6 mine {
      map m {
        type inet_service : verdict
        elements = { 80 : accept }
      }
    }`,
  })
  await ns.run('ipset', ['restore'], {
    input: `create KUBE-SRC-AAAAAAAA hash:ip
add KUBE-SRC-AAAAAAAA 192.0.2.1
create KUBE-CLUSTER-IPS hash:ip,port
create mine hash:ip
`,
  })
  await ns.run('ip', ['-batch', '-'], {
    input: `link add kube-bridge type bridge
address add 192.0.2.1/24 dev kube-bridge
route add local 198.51.100.1/32 dev lo proto 118
route add local 198.51.100.2/32 dev lo
address add fd75:7368:6572::2/128 dev lo nodad
address add fd00::5/128 dev lo nodad metric 7
`,
  })
}

const commands: readonly (readonly [string, ...string[]])[] = [
  // Handles would change if a rule were written anew; counters are left out.
  ['nft', '-a', '-s', 'list', 'ruleset'],
  ['iptables-nft-save'],
  ['ip6tables-nft-save'],
  ['iptables-legacy-save'],
  ['ip6tables-legacy-save'],
  ['ipset', 'save'],
  ['ip', '-d', 'address'],
  ['ip', '-4', 'route', 'show', 'table', 'all'],
  ['ip', '-6', 'route', 'show', 'table', 'all'],
]

/** All that there is in a namespace, without counters and the time. */
export const photograph = async (ns: Netns): Promise<string> => {
  const texts: string[] = []
  for (const [command, ...args] of commands) {
    const text = await ns.run(command, args)
    texts.push([command, ...args].join(' '), text.replaceAll(/^#.*\n/gm, ''))
  }
  return texts.join('\n').replaceAll(/\[\d+:\d+\]/g, '')
}

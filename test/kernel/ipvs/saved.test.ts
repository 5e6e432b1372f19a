import t from 'tap'
import { creation } from '../../../src/kernel/ipvs/set-names.ts'
import {
  readLoads,
  savedServers,
  savedSets,
  setSizes,
} from '../../../src/kernel/ipvs/read-kernel.ts'
import { delaysReuse } from '../../../src/kernel/ipvs/ipvs-proxier.ts'
import { randomFully } from '../../../src/kernel/xtables/backend.ts'

/** As ipvsadm 1.31 prints it. */
const servers = `-A -t 10.0.0.1:80 -s rr -p 300
-a -t 10.0.0.1:80 -r 1.2.3.4:80 -m -w 1
-a -t 10.0.0.1:80 -r 1.2.3.5:80 -g -w 3
-A -t 10.0.0.2:80 -s mh -p 300 -M 255.255.255.255 -b mh-port
-A -f 5 -s wlc
-a -f 5 -r 1.2.3.4:0 -g -w 1
-A --sctp-service 10.0.0.3:3868 -s rr
-a --sctp-service 10.0.0.3:3868 -r 1.2.3.4:3868 -m -w 1
-A -u [fd00::1]:53 -s sh
-a -u [fd00::1]:53 -r [fd00::2]:53 -m -w 0
`

t.test('virtual servers are read from what ipvsadm saves', async t => {
  const found = await savedServers(servers, 'IPv4')
  t.strictSame(
    [...found.keys()],
    ['-t 10.0.0.1:80', '-t 10.0.0.2:80', '--sctp-service 10.0.0.3:3868'],
  )
  t.equal(found.get('-t 10.0.0.1:80')?.how, '-s rr -p 300')
  t.equal(found.get('-t 10.0.0.2:80')?.how, '-s mh -b mh-port -p 300')
  t.strictSame(
    [...(found.get('-t 10.0.0.1:80')?.destinations ?? [])],
    [
      ['1.2.3.4:80', 1],
      ['1.2.3.5:80', -1],
    ],
    'one that is not masqueraded has to be changed',
  )
  const six = (await savedServers(servers, 'IPv6')).get('-u [fd00::1]:53')
  t.strictSame([...(six?.destinations ?? [])], [['[fd00::2]:53', 0]])
})

t.test('sets are read from what ipset saves, in the words that make them', async t => {
  const text = `create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 4096 maxelem 1048576 bucketsize 12 initval 0x7
add KUBE-CLUSTER-IP 10.96.0.1,tcp:443
create KUBE-NODE-PORT-TCP bitmap:port range 0-65535
create mine hash:ip family inet hashsize 1024 maxelem 65536
add mine 192.0.2.1
`
  const sets = await savedSets(text, 'IPv4')
  t.strictSame([...sets.keys()], ['CLUSTER-IP', 'NODE-PORT-TCP'])
  t.equal(sets.get('CLUSTER-IP')?.creation, creation('IPv4', 'hash:ip,port'))
  t.equal(sets.get('NODE-PORT-TCP')?.creation, creation('IPv4', 'bitmap:port'))
  t.strictSame([...(sets.get('CLUSTER-IP')?.entries ?? [])], ['10.96.0.1,tcp:443'])
  const sizes = setSizes(
    'Name: a\nType: hash:ip\nNumber of entries: 3\n\nName: b\nReferences: 1\nNumber of entries: 0\n',
  )
  t.strictSame(
    [...sizes],
    [
      ['a', 3],
      ['b', 0],
    ],
  )
})

t.test('connections are counted in /proc/net/ip_vs', async t => {
  const loads = await readLoads(`IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A000002:0050 mh  persistent 75000 FFFFFFFF
  -> 01020304:0050      Masq    1      2          3         
FWM  00000005 wlc 
  -> 01020304:0000      Route   1      9          9
UDP  [fd00:0000:0000:0000:0000:0000:0000:0001]:0035 sh 
  -> [fd00:0000:0000:0000:0000:0000:0000:0002]:0035      Masq    0      0          0         
`)
  t.strictSame(loads.get('-t 10.0.0.2:80')?.get('1.2.3.4:80'), {
    weight: 1,
    connections: 5,
  })
  t.ok(loads.get('-u [fd00::1]:53')?.has('[fd00::2]:53'))
  t.equal(loads.size, 2)
})

t.test('conn_reuse_mode is set where it does harm', async t => {
  const harmed = ['4.0.9', '4.1.0', '4.19.0-5-amd64', '5.8.1', '5.9.0', '5.15.0', '']
  t.strictSame(harmed.filter(delaysReuse), ['4.1.0', '4.19.0-5-amd64', '5.8.1'])
})

t.test('--random-fully is used from iptables 1.6.2 on', async t => {
  const details = ['1.6.1', '1.6.2', '1.8.9', '2.0'].map(
    version => `iptables ${version} (legacy)`,
  )
  t.strictSame(
    details.map(detail => randomFully({ detail })),
    [false, true, true, true],
  )
  t.notOk(randomFully({ detail: 'iptables of unknown version (legacy)' }))
})

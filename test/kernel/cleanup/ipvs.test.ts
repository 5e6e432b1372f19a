import t from 'tap'
import { ipvsKind } from '../../../src/kernel/cleanup/ipvs.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'

/** As /proc/net/ip_vs prints it; real servers are of no interest. */
const table = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A60000A:0050 rr persistent 10800
  -> 0A010203:1F90      Masq    1      0          0
UDP  0A60000A:0035 rr
TCP  C0000201:7580 rr
TCP  C0000201:7581 rr
TCP  CB007109:01BB rr
TCP  [fd00:0096:0000:0000:0000:0000:0000:000a]:0050 rr
SCTP C0000201:7582 rr
FWM  00000007 wlc
`

const addresses = JSON.stringify([
  { ifname: 'eth0', addr_info: [{ local: '192.0.2.1', prefixlen: 24 }] },
  {
    ifname: 'kube-ipvs0',
    addr_info: [
      { local: '10.96.0.10', prefixlen: 32 },
      { local: 'fd00:96::a', prefixlen: 128 },
    ],
  },
])

const sets = `create KUBE-NODE-PORT-TCP bitmap:port range 0-65535
add KUBE-NODE-PORT-TCP 30080
create KUBE-NODE-PORT-SCTP-HASH hash:ip,port family inet
add KUBE-NODE-PORT-SCTP-HASH 192.0.2.1,sctp:30082
create mine bitmap:port range 0-65535
add mine 30081
create KUBE-EXTERNAL-IP hash:ip,port family inet
add KUBE-EXTERNAL-IP 203.0.113.8,tcp:443
`

const missing = new ToolError('ipset: not found', 'missing', '')

const kind = (calls: string[], text: string | undefined, savedSets: string | Error) => {
  const run: RunTool = async (command, args, { input = '' } = {}) => {
    if (command === 'ip') return addresses
    if (command === 'ipset') {
      if (savedSets instanceof Error) throw savedSets
      return savedSets
    }
    calls.push(`${[command, ...args].join(' ')}\n${input}`)
    return ''
  }
  return ipvsKind({ run, read: async () => text })
}

t.test('virtual servers are known by kube-ipvs0 and by the ipsets', async t => {
  const calls: string[] = []
  const { leftovers } = await kind(calls, table, sets).find()
  t.strictSame(
    leftovers.flatMap(({ what }) => what),
    [
      'ipvs virtual server TCP 10.96.0.10:80',
      'ipvs virtual server UDP 10.96.0.10:53',
      'ipvs virtual server TCP 192.0.2.1:30080',
      'ipvs virtual server TCP [fd00:96::a]:80',
      'ipvs virtual server SCTP 192.0.2.1:30082',
    ],
  )
  for (const leftover of leftovers) await leftover.remove()
  t.strictSame(calls, [
    `ipvsadm -R
-D -t 10.96.0.10:80
-D -u 10.96.0.10:53
-D -t 192.0.2.1:30080
-D -t [fd00:96::a]:80
-D --sctp-service 192.0.2.1:30082
`,
  ])
})

t.test('without ipset those on kube-ipvs0 are known', async t => {
  const { leftovers } = await kind([], table, missing).find()
  t.equal(leftovers.flatMap(({ what }) => what).length, 3)
})

t.test('a kernel without ipvs has none, and no tool is run', async t => {
  const { leftovers, stays } = await kind([], undefined, new Error('not run')).find()
  t.strictSame([leftovers, stays], [[], []])
})

import t from 'tap'
import { makeNetns, netnsProblem } from '../support/netns.ts'
import { usherIn } from '../support/usher-in.ts'

const why = await netnsProblem('ip')

t.test(
  'usher check warns of bridges whose packets pass no rules',
  { skip: why !== '' && why },
  async t => {
    const node = await makeNetns('bridges')
    const off = (family: string) =>
      node.run('sysctl', ['-qe', '-w', `net.bridge.bridge-nf-call-${family}=0`])
    await Promise.all(['iptables', 'ip6tables'].map(off))
    t.notMatch((await usherIn(node, ['check'])).out, /br_netfilter/, 'there is none')
    await node.run('ip', ['link', 'add', 'cni0', 'type', 'bridge'])
    const warned =
      /^warning: bridge cni0: pods of one .* modprobe br_netfilter, .*call-ip6tables=1$/m
    t.match((await usherIn(node, ['check'])).out, warned)
  },
)

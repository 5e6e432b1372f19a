import type { Test } from 'tap'
import { serviceNamed } from '../e2e/capture/services.ts'
import { type VipName, vipOf } from '../e2e/capture/vips.ts'
import { addressOf, loopback } from '../support/net/addresses.ts'
import type { Agents } from '../support/net/cluster-agents.ts'
import type { Machine } from './machine.ts'
import { runUsher } from './usher.ts'

/** What the machine has no program for that would mount it. */
const mounts = [
  ['cgroup2', '/sys/fs/cgroup'],
  ['bpf', '/sys/fs/bpf'],
] as const

/** All that runs in the machine but for what stands for another one. */
const group = '/sys/fs/cgroup/node'
const fillGroup = `mkdir ${group}
for pid in $(cat /sys/fs/cgroup/cgroup.procs); do
  echo $pid 2>/dev/null >${group}/cgroup.procs || true # The kernel's own threads stay.
done
for pid in $(ip netns pids outside); do echo $pid >/sys/fs/cgroup/cgroup.procs; done`

const answerMs = 20_000

/** A node proxy without netfilter: who is on the node is led as it connects, others by `local`. */
export const connectTimeSuite = async (
  t: Test,
  machine: Machine,
  agents: Agents,
): Promise<void> => {
  for (const [type, folder] of mounts)
    await machine.run('mount', '-t', type, type, folder)
  await machine.run('sh', '-ec', fillGroup)
  t.match(await machine.run(...machine.loadVariants), /^the verifier took \d+ programs$/m)
  const flags = ['--proxy-mode=userspace', '--capture=local', '--connect-time=on']
  const usher = await runUsher(machine, ...flags, `--connect-time-cgroup=${group}`)
  t.equal(usher.capture, 'local')
  t.match(usher.log, /"msg":"connect-time steering is on/)
  const plain = serviceNamed('plain')
  const seenBy = async (
    client: keyof Agents,
    vip: VipName,
    family: 'IPv4' | 'IPv6',
  ): Promise<string> => {
    const at = { protocol: 'TCP', ...vipOf[vip](plain, family) } as const
    const { backend, seen } = await agents[client].dial(at, answerMs)
    t.match(backend, /^backend-/, `${client} at ${vip}, ${family}`)
    return seen
  }
  for (const family of ['IPv4', 'IPv6'] as const) {
    const ofPod = await seenBy('pod-1', 'ClusterIP', family)
    t.equal(ofPod, addressOf['pod-1'][family], 'a pod keeps its own address')
    await seenBy('node', 'ClusterIP', family)
    t.not(await seenBy('node', 'node port, loopback', family), loopback[family])
    const outside = await seenBy('outside', 'node port, first address', family)
    t.not(outside, addressOf.outside[family], 'one from outside comes through the relay')
  }
  const { body } = await machine.node.get('127.0.0.1', 10_249, '/metrics')
  t.match(body, /usher_connect_time_led_total\{service_port="[^"]*plain[^"]*"[^}]*\} 6\n/)
  const { code, text } = await usher.end()
  t.equal(code, 0)
  t.notMatch(text, /"level":(50|60|"error")/)
  t.notMatch(await machine.run('ls', '/sys/fs/bpf'), 'usher')
  for (const [, folder] of mounts) await machine.run('umount', folder)
}

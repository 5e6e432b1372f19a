import t from 'tap'
import { startMachine } from './machine.ts'
t.test('x', async t => {
  let a = performance.now()
  const m = await startMachine(t)
  const lap = (s: string) => { console.error(s, Math.round(performance.now() - a)); a = performance.now() }
  lap('boot')
  console.error(await m.run('cat', '/proc/modules'), await m.try('nft', 'list', 'ruleset'))
  lap('run')
  await m.load('veth')
  console.error(await m.run('free', '-m'), await m.run('ip', 'a'))
  lap('run')
  await m.run('ip', 'netns', 'add', 'pod')
  await m.run('ip', 'link', 'add', 'pod', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', 'pod')
  lap('netns')
  const pod = await m.enter('pod')
  lap('enter')
  await m.run('bash', '-c', 'ip addr add 10.244.1.1/32 dev pod && ip link set pod up && ip route add 10.244.1.11/32 dev pod')
  await m.run('ip', 'netns', 'exec', 'pod', 'bash', '-c', 'ip addr add 10.244.1.11/32 dev eth0 && ip link set eth0 up && ip link set lo up && ip route add 10.244.1.1 dev eth0 && ip route add default via 10.244.1.1')
  lap('net')
  await m.node.serve('n', ['10.244.1.1'], 80)
  await pod.serve('p', ['10.244.1.11'], 80)
  lap('serve')
  for (const protocol of ['TCP', 'UDP'] as const) {
  console.error(await pod.dial({protocol, address: '10.244.1.1', port: 80}))
  console.error(await m.node.dial({protocol, address: '10.244.1.11', port: 80}))
  console.error(await m.node.dial({protocol, address: '10.244.1.11', port: 81}))
  }
  lap('dial')
})

import { once } from 'node:events'
import { createServer } from 'node:net'
import { loopback } from '../../../bench/topology/topology.ts'
import { unreachable } from '../../../bench/topology/probe.ts'
import t from 'tap'

t.test('on loopback everybody is on this host, and there are two pods', async t => {
  const topology = loopback()
  const { client, pods, description } = topology
  const { enter, nodeAddress, podAddresses, clusterIp, clusterCidr } =
    await topology.lane()
  t.strictSame(
    [client, ...pods].flatMap(place => place.enter),
    [],
  )
  t.strictSame(enter, [])
  t.equal(pods.length, 2)
  t.equal(podAddresses.length, 2)
  t.equal(clusterIp, undefined)
  t.equal(clusterCidr, undefined)
  t.match(description, '127.0.0.1')
  const server = createServer().listen(0, pods[0]?.listenAddress)
  await once(server, 'listening')
  t.teardown(() => server.close())
  t.strictSame(await unreachable(client, [nodeAddress, ...podAddresses]), [])
  await topology.close()
})

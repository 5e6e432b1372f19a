import t, { type Test } from 'tap'
import { planLane } from '../../../bench/topology/namespaces.ts'
import type { findFacts } from '../sandbox/facts.ts'
import { kinds } from '../sandbox/kinds.ts'
import { startProgram } from '../sandbox/start-program.ts'

type Facts = Awaited<ReturnType<typeof findFacts>>

const see = (who: string, whom: string): string => `${who} sees ${whom}`
const [client1, client2] = ['172.16.1.2', '172.16.2.2']

const checkWays = (t: Test, facts: Facts): void => {
  t.strictSame(
    facts.nodes,
    [see('node 1', client1), see('node 2', client2)],
    'the client reaches the node of each lane',
  )
  const pods = ['pod 1', 'pod 2']
  t.strictSame(
    facts.pods,
    [client1, client2].flatMap(client => pods.map(pod => see(pod, client))),
    'and both pods by either lane, which see its address',
  )
  t.match(facts.fromNode, [/^pod 1 sees 172.17.1.1$/, /^pod 2 sees 172.18.1.1$/])
  t.strictSame(facts.withoutForwarding, ['silence'], 'the way to pods is by the node')
}

const checkClusterIps = (t: Test, facts: Facts): void => {
  t.strictSame(facts.clusterIps, ['10.1.1.0', '10.1.254.231', '10.2.1.0', '10.2.254.231'])
  t.strictSame(
    facts.lanes.map(({ clusterCidr }) => clusterCidr),
    ['10.1.0.0/16', '10.2.0.0/16'],
  )
  t.strictSame(
    facts.atClusterIps,
    [client1, client1, client2, client2].map((client, index) =>
      see(index < 2 ? 'node 1' : 'node 2', client),
    ),
    "the first and the last ClusterIP of a lane lead to the lane's node",
  )
}

const checkSysctls = (t: Test, { sysctls, description }: Facts): void => {
  for (const [index, values] of sysctls.entries()) {
    const [reuse, ports, backlog, filter, forward] = values
    const figures = [reuse, ports, filter, forward]
    t.strictSame(figures, ['1', '32768 65535', '0', index < 3 ? '0' : '1'])
    t.ok(Number(backlog) >= 4096)
  }
  t.match(
    description,
    'net.ipv4.tcp_tw_reuse=1, net.ipv4.ip_local_port_range=32768 65535',
  )
  t.notMatch(description, 'except')
}

for (const { kind, why } of kinds)
  t.test(`a topology in a sandbox (${kind})`, { skip: why !== '' && why }, async t => {
    const run = startProgram(kind, 'facts')
    const code = await run.code()
    if (code !== 0) throw new Error(`it ended with ${code}: ${run.errors()}`)
    const facts = run.lines[0] as Facts

    t.test('ways', async t => checkWays(t, facts))
    t.test('ClusterIPs', async t => checkClusterIps(t, facts))
    t.test('the node of one lane knows nothing of another', async t =>
      t.strictSame(facts.otherLane, ['ENETUNREACH', 'ENETUNREACH']),
    )
    t.test('sysctls are the same everywhere', async t => checkSysctls(t, facts))
    t.test('a user namespace is mentioned', async t =>
      t.equal(facts.description.includes('made without root'), kind === 'user'),
    )
    t.test('/run is its own, and temporary files are in it', async t => {
      t.strictSame(facts.environment.run, ['netns', 'usher-bench'])
      t.equal(facts.environment.tmpdir, '/run/usher-bench')
      t.equal(facts.mounts, 1)
    })
    t.test('its children do not take its sandbox for theirs', async t =>
      t.equal(facts.environment.marked, false),
    )
    t.test('closing removes every namespace', async t =>
      t.strictSame(facts.namesAfterClose, []),
    )
    t.test('a lane on which a pod is not reached is told, with its address', async t =>
      t.match(
        facts.brokenLane,
        /^the client's packets do not come through to 172\.18\.1\.2 \(no answer/,
      ),
    )
  })

t.test('no two lanes share a range', async t => {
  const ranges = [1, 2, 250].flatMap(n => {
    const { client, pods, clusterCidr } = planLane(n, 2)
    return [client, ...pods].map(({ subnet }) => subnet).concat(clusterCidr)
  })
  t.equal(new Set(ranges).size, ranges.length)
})

t.test('beyond what there are addresses for, words', async t => {
  t.throws(
    () => planLane(251, 2),
    new RangeError('lane 251: there are addresses for 250, from 1'),
  )
  const { clusterIp } = planLane(1, 2)
  t.throws(
    () => clusterIp(65_000),
    new RangeError('ClusterIP 65000: there are 65000, from 0'),
  )
})

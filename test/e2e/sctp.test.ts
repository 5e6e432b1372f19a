// A process of its own: long, and it mostly waits.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { missingPrograms } from '../support/installed.ts'
import { netnsProblem } from '../support/netns.ts'
import { addressOf, type HostName } from '../support/net/addresses.ts'
import { families, objectsOf } from './capture/objects.ts'
import { serviceNamed } from './capture/services.ts'
import { makeStage, type Stage } from './capture/stage.ts'
import { type VipName, vipOf } from './capture/vips.ts'
import { iptablesMode, nftablesCapture, nftablesMode, type Way } from './capture/ways.ts'
import { sctpClient, sctpServer } from './sctp-peers.ts'

const why = (await netnsProblem('iptables', 'nft')) || missingPrograms('python3')
const options = { skip: why !== '' && why }

/** The objects of a Service, with its UDP port made one of SCTP. */
const withSctp = (...names: string[]): object[] =>
  JSON.parse(
    JSON.stringify(objectsOf(names.map(serviceNamed))).replaceAll('"UDP"', '"SCTP"'),
  ) as object[]

/** At each endpoint of Service `plain`. */
const startServers = async (t: Test, { net }: Stage): Promise<void> => {
  for (const name of serviceNamed('plain').backends) {
    const [command = '', ...prefix] = net[name].prefix
    const { IPv4, IPv6 } = addressOf[name]
    const child = spawn(
      command,
      [...prefix, 'python3', '-u', '-c', sctpServer, IPv4, IPv6],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    t.teardown(async () => {
      child.kill('SIGKILL')
      await once(child, 'close')
    })
    await once(child.stdout, 'data')
  }
}

const vips: readonly VipName[] = [
  'ClusterIP',
  'external IP',
  'load-balancer IP',
  'node port, first address',
]
const clients: readonly HostName[] = ['node', 'pod-1', 'outside']

/** What each client meets at each VIP of a Service; one line for each that differs. */
const differing = async (
  { net }: Stage,
  service: string,
  wanted: string,
): Promise<string[]> => {
  const tries = vips.flatMap(vip => families.map(family => ({ vip, family })))
  const to = tries.flatMap(({ vip, family }) => {
    const { address, port } = vipOf[vip](serviceNamed(service), family)
    return [address, String(port)]
  })
  const lines = await Promise.all(
    clients.map(async from => {
      const said = (await net[from].run('python3', ['-c', sctpClient, ...to])).split('\n')
      return tries.flatMap(({ vip, family }, i) =>
        said[i] === wanted ? [] : [`${vip} from ${from}, ${family}: ${said[i]}`],
      )
    }),
  )
  return lines.flat()
}

const start = async (t: Test, way: Way) => {
  const stage = await makeStage(t, way)
  await stage.manifests.write(...withSctp('plain', 'no-endpoints'))
  await startServers(t, stage)
  const usher = stage.start()
  await usher.ready(8)
  return { stage, usher }
}

for (const way of [iptablesMode('nft'), iptablesMode('legacy'), nftablesMode])
  t.test(`SCTP is served with ${way.label}`, options, async t => {
    const { stage, usher } = await start(t, way)
    t.strictSame(await differing(stage, 'plain', 'answer'), [])
    t.strictSame(await differing(stage, 'no-endpoints', 'refused'), [])
    t.strictSame((await usher.status()).problems, [])
  })

t.test('userspace says that it can’t, and serves the other ports', options, async t => {
  const { stage, usher } = await start(t, nftablesCapture)
  const { problems, servicePorts } = await usher.status()
  t.equal(problems.length, 4, 'two Services in two families')
  t.match(problems[0], {
    object: /^Service default\//,
    field: 'spec.ports',
    message: /SCTP port 80 .* is not served: .*nftables, iptables and ipvs mode serve it/,
  })
  t.equal(servicePorts.length, 8)
  for (const family of families) {
    const to = vipOf.ClusterIP(serviceNamed('plain'), family)
    const { result } = await stage.agents['pod-1'].dial({ protocol: 'TCP', ...to }, 5000)
    t.equal(result, 'answer')
  }
})

import type { Test } from 'tap'
import { addressOf, backendPort, podCidrs } from '../../support/net/addresses.ts'
import { type Agents, startAgents } from '../../support/net/cluster-agents.ts'
import { makeClusterNet } from '../../support/net/cluster-net.ts'
import { type NodeUsher, startNodeUsher } from '../../support/net/node-usher.ts'
import type { Outcome } from '../../support/net/outcome.ts'
import { manifestFile, service, slice } from '../../support/manifests.ts'
import { nodeTools } from './node-tools.ts'
import type { Way } from './ways.ts'

interface TestService {
  readonly name: string
  readonly vip: string
  /** Its only one, and nobody else's. */
  readonly backend: 'backend-1' | 'backend-2' | 'backend-3'
}

const one: TestService = { name: 'one', vip: '10.96.0.101', backend: 'backend-1' }
const two: TestService = { name: 'two', vip: '10.96.0.102', backend: 'backend-2' }
const three: TestService = { name: 'three', vip: '10.96.0.103', backend: 'backend-3' }

const objectsOf = (services: readonly TestService[]): readonly object[] =>
  services.flatMap(({ name, vip, backend }) => [
    service(name, vip, [{ name: 'p', port: 80 }]),
    ...slice(name, [{ key: '', address: addressOf[backend].IPv4, port: backendPort }]),
  ])

const everyMs = 100
/**
 * A start takes long on a busy machine, and kernels before 6.5 send a SYN again after 1, 3, 7,
 * 15 and 31 s.
 */
const patienceMs = 40_000
/** Of those who dial a Service that goes. Until Usher is there some still come. */
const hopelessMs = 10_000

/**
 * Who dials a Service is answered by that one, however Usher was restarted. No port is
 * remembered in a file, and there are as few as can be, so that another Service has each
 * port that one has not.
 */
export const ownServiceAnswers = async (
  t: Test,
  way: Way,
  another: Way | undefined,
): Promise<void> => {
  const net = await makeClusterNet(`own-${way.label}`)
  const agents = await startAgents(t, net)
  const manifests = await manifestFile(t, ...objectsOf([one, two]))
  const tools = await nodeTools(t, way.backEnd)
  const start = ({ flags }: Way): NodeUsher =>
    startNodeUsher(t, net.node, agents.node, {
      args: [
        manifests.path,
        ...flags,
        `--cluster-cidr=${podCidrs.IPv4}`,
        '--proxy-port-range=42000-42001',
        '--keep-rules',
      ],
      tools,
    })
  let usher = start(way)
  await usher.ready(2)
  const restart = async (signal: NodeJS.Signals, next = way): Promise<void> => {
    usher.send(signal)
    await usher.exit
    usher = start(next)
    await usher.ready(2)
  }
  for (const signal of ['SIGTERM', 'SIGKILL'] as const)
    await t.test(`a restart by ${signal}`, async t => {
      const met = await whileDialled(agents, [one, two], () => restart(signal))
      t.comment(`${way.label}: ${signal}: ${met.text}`)
      t.strictSame(met.strangers, [], 'nobody was answered by another Service')
      // What is open when a process is killed is lost. And a client that uses the port of a
      // connection again that has just ended is in that flow to the kernel, which drops the
      // refusals of new ones only.
      const isLost = (line: string): boolean =>
        signal === 'SIGKILL' && / (reset|closed|refused) /.test(line)
      t.strictSame(
        met.failed.filter(line => !isLost(line)),
        [],
        'and nobody was refused',
      )
      t.ok(met.answers > 20, `there were some: ${met.answers}`)
    })
  if (another !== undefined)
    await t.test(`${another.label} takes over, and ends for this one`, async t => {
      const met = await whileDialled(agents, [one, two], async allAnswered => {
        for (const next of [another, way]) {
          await restart('SIGTERM', next)
          // Who waits asks again after many seconds, and not just when an Usher is there.
          await allAnswered()
        }
      })
      t.comment(`${way.label}: ${another.label}: ${met.text}`)
      t.strictSame(met.strangers, [], 'nobody was answered by another Service')
      t.strictSame(met.failed, [], 'and nobody was refused')
    })
  await t.test('a Service goes meanwhile, and another gets its port', async t => {
    const work = async (): Promise<void> => {
      usher.send('SIGTERM')
      await usher.exit
      await manifests.write(...objectsOf([two, three]))
      usher = start(way)
      await usher.ready(2)
    }
    const met = await whileDialled(agents, [one, two], work, hopelessMs)
    t.comment(`${way.label}: another Service: ${met.text}`)
    t.strictSame(met.strangers, [], 'nobody was answered by another Service')
    t.match(await agents['pod-1'].dial(toTcp(three), patienceMs), {
      backend: three.backend,
    })
  })
}

const toTcp = ({ vip }: TestService) =>
  ({ protocol: 'TCP', address: vip, port: 80 }) as const

interface Met {
  readonly text: string
  readonly answers: number
  /** Who was answered by a backend that is not the Service's. */
  readonly strangers: readonly string[]
  /**
   * Who was refused, or cut off. How long clients wait is the matter of capture-restarts: on a
   * busy machine a SYN may meet a hold each time that it comes again.
   */
  readonly failed: readonly string[]
}

/**
 * One client after another, from node and pod, to all of them, while `work` is done, which
 * can wait for those who have dialled: nobody comes then.
 */
const whileDialled = async (
  agents: Agents,
  services: readonly TestService[],
  work: (allAnswered: () => Promise<void>) => Promise<void>,
  waitMs = patienceMs,
): Promise<Met> => {
  const dials: Promise<Dialled>[] = []
  const arrive = (): void => {
    for (const from of ['node', 'pod-1'] as const)
      for (const to of services)
        dials.push(
          agents[from]
            .dial(toTcp(to), waitMs)
            .then(outcome => ({ from, to, ...outcome })),
        )
  }
  let timer = setInterval(arrive, everyMs)
  const allAnswered = async (): Promise<void> => {
    clearInterval(timer)
    await Promise.all(dials)
    timer = setInterval(arrive, everyMs)
  }
  try {
    await work(allAnswered)
  } finally {
    clearInterval(timer)
  }
  const all = await Promise.all(dials)
  const answered = all.filter(({ result }) => result === 'answer')
  const strangers = answered.filter(({ to, backend }) => backend !== to.backend)
  const silent = all.filter(({ result }) => result === 'timeout')
  const failed = all.filter(({ result }) => result !== 'answer' && result !== 'timeout')
  return {
    text: `${all.length} dialled, ${strangers.length} wrong, ${silent.length} not answered, ${failed.length} refused`,
    answers: answered.length,
    strangers: strangers.map(lineOf),
    failed: failed.map(lineOf),
  }
}

type Dialled = Outcome & { readonly from: string; readonly to: TestService }

const lineOf = ({ from, to, result, backend, ms }: Dialled): string =>
  `${from} to ${to.name}: ${result} ${backend} after ${ms} ms`

import type { Test } from 'tap'
import type { NodeUsher } from '../../support/net/node-usher.ts'
import { until } from '../../support/until.ts'
import { exitLeavesNothing } from './exit.ts'
import { nothingFailed } from './nothing-failed.ts'
import { objectsOf } from './objects.ts'
import { type ProxyPort, proxyPortsOf } from './proxy-ports.ts'
import { serviceNamed, someServices } from './services.ts'
import { type FailedConnection, underLoad } from './under-load.ts'
import { vipOf } from './vips.ts'
import { makeStage, type Stage } from './stage.ts'
import type { Way } from './ways.ts'

interface Run extends Pick<Way, 'backEnd' | 'label'> {
  readonly stage: Stage
  usher: NodeUsher
}

/** A Usher's whole life on one node, with clients that never stop. */
export const restartsUnderLoad = async (t: Test, way: Way): Promise<void> => {
  const { label, backEnd } = way
  const stage = await makeStage(t, way)
  await stage.manifests.write(...objectsOf(someServices))
  const usher = stage.start('--keep-rules')
  await usher.ready()
  const run: Run = { stage, usher, label, backEnd }
  await t.test('a reload', t => reload(t, run))
  await t.test('SIGKILL and a new start', t => crash(t, run))
  await t.test('SIGTERM with --keep-rules and a new start', t => upgrade(t, run))
  await t.test('rules of others are as they were', async t => {
    t.equal((await stage.now()).theirs, stage.before.theirs)
  })
  await t.test('an exit leaves nothing', t => exitLeavesNothing(t, stage, run.usher, way))
  await t.test('rules that are flushed come back', t => flush(t, run))
}

/** Ends the one that runs, and starts another that serves. */
const next = async (run: Run, signal: NodeJS.Signals, ...flags: string[]) => {
  run.usher.send(signal)
  const ended = await run.usher.exit
  const endedAt = Date.now()
  run.usher = run.stage.start(...flags)
  await run.usher.ready()
  return { endedAt, ended }
}

/** Two protocols in two families. */
const portsOfService = 4

const reload = async (t: Test, { stage, usher, label }: Run): Promise<void> => {
  const { agents, manifests } = stage
  const to = {
    protocol: 'TCP',
    ...vipOf.ClusterIP(serviceNamed('plain'), 'IPv4'),
  } as const
  const { ask } = await agents['pod-1'].open(to)
  const fewer = someServices.map(service =>
    service.name === 'plain'
      ? { ...service, backends: service.backends.slice(1) }
      : service,
  )
  const load = await underLoad(agents, async () => {
    usher.send('SIGHUP')
    await manifests.write(...objectsOf(someServices.slice(0, 2)))
    await usher.ready(2 * portsOfService)
    await manifests.write(...objectsOf(fewer))
    await usher.ready(someServices.length * portsOfService)
    await manifests.write(...objectsOf(someServices))
  })
  t.comment(`${label}: reload: ${load.text}`)
  nothingFailed(t, load)
  t.match(await ask(), /^backend-/, 'an open connection goes on')
}

const crash = async (t: Test, run: Run): Promise<void> => {
  const ports = await proxyPortsOf(run.usher)
  let killedAt = 0
  const load = await underLoad(run.stage.agents, async () => {
    const { endedAt } = await next(run, 'SIGKILL', '--keep-rules')
    killedAt = endedAt
  })
  t.comment(`${run.label}: SIGKILL: ${load.text}`)
  const wasOpen = ({ startedAt, result }: FailedConnection): boolean =>
    startedAt <= killedAt && (result === 'reset' || result === 'closed')
  const lost = load.failures.filter(wasOpen).length
  t.comment(`${run.label}: SIGKILL: ${lost} that were open are lost`)
  nothingFailed(t, load, failure => !wasOpen(failure))
  await samePorts(t, run, ports)
}

const upgrade = async (t: Test, run: Run): Promise<void> => {
  const ports = await proxyPortsOf(run.usher)
  const load = await underLoad(run.stage.agents, async () => {
    const { ended } = await next(run, 'SIGTERM')
    t.match(ended, { code: 0 })
  })
  t.comment(`${run.label}: SIGTERM: ${load.text}`)
  nothingFailed(t, load)
  await samePorts(t, run, ports)
}

const samePorts = async (
  t: Test,
  run: Run,
  before: readonly ProxyPort[],
): Promise<void> => {
  const now = new Set((await proxyPortsOf(run.usher)).map(lineOf))
  const moved = before.map(lineOf).filter(line => !now.has(line))
  t.comment(moved.slice(0, 5).join('\n'))
  t.equal(moved.length, 0, `all ${before.length} proxy ports are the same`)
}

/** A ServicePort has several where its kinds of VIPs differ in their policies. */
const lineOf = ({ servicePort, family, address, port }: ProxyPort): string =>
  [servicePort, family, address, port].join(' ')

/** Lost rules are to be back within 5 s; a busy machine may take longer. */
const repairMs = 10_000
/** Clients that nobody can help need not wait for long. */
const hopelessMs = 3000

const flush = async (t: Test, run: Run): Promise<void> => {
  const { stage, backEnd, label } = run
  const { agents, net } = stage
  run.usher = stage.start()
  await run.usher.ready()
  const to = {
    protocol: 'TCP',
    ...vipOf.ClusterIP(serviceNamed('plain'), 'IPv6'),
  } as const
  const { ask } = await agents['pod-2'].open(to)
  // Each family has rules of its own, which come back at times of their own.
  const inIPv4 = { ...to, ...vipOf.ClusterIP(serviceNamed('plain'), 'IPv4') }
  const answers = async (): Promise<boolean> => {
    const dials = [to, inIPv4].map(each => agents['pod-1'].dial(each, 200))
    return (await Promise.all(dials)).every(({ result }) => result === 'answer')
  }
  const commands = [
    ['nft', 'flush', 'ruleset'],
    [`iptables-${backEnd}`, '-t', 'nat', '-F'],
    [`ip6tables-${backEnd}`, '-t', 'nat', '-F'],
  ] as const
  let damagedAt = 0
  let repairedAt = 0
  const load = await underLoad(
    agents,
    async () => {
      damagedAt = Date.now()
      for (const [command, ...args] of commands) await net.node.run(command, args)
      await until('the rules are back', answers, repairMs)
      repairedAt = Date.now()
    },
    { timeoutMs: hopelessMs },
  )
  t.comment(`${label}: flush: back after ${repairedAt - damagedAt} ms: ${load.text}`)
  // Without rules nobody can say where a VIP is, nor for a SYN that was not sent yet.
  const onItsWayMs = Math.max(100, load.slowestMs)
  const without = ({ startedAt }: FailedConnection): boolean =>
    startedAt >= damagedAt - onItsWayMs && startedAt <= repairedAt
  nothingFailed(t, load, failure => !without(failure))
  t.match(await ask(), /^backend-/, 'an open connection goes on')
}

// A process of its own: long.
import t, { type Test } from 'tap'
import type { Outcome } from '../../soak/client.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { type Descriptors, leak } from '../../soak/vital-signs.ts'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import { until } from '../../support/until.ts'
import { busiestThread, inject, straceSkip } from './strace.ts'
import {
  casesOf,
  earlyFaults,
  type FaultCase,
  mainFaults,
  workerFaults,
} from './fault-table.ts'
import { type FaultyWorld, faultyWorld } from './faulty-world.ts'

type Taps = Pick<typeof t, 'ok' | 'same' | 'equal'>

const skip = linuxRelaySkip() || straceSkip()

/** What was wrong, by verdict; `failed` is not, where connections may fail. */
const complaints = (outcomes: readonly Outcome[], mayFail: boolean): readonly string[] =>
  outcomes
    .filter(({ verdict }) => verdict === 'wrong' || (verdict === 'failed' && !mayFail))
    .map(({ verdict, why }) => `${verdict}: ${why}`)

/** Without faults all is well again, and nothing was left open. */
const isWellAgain = async (
  test: Taps,
  { relay, traffic, quiet }: FaultyWorld,
  before: Descriptors,
): Promise<void> => {
  test.ok(relay.alive(), 'it lives')
  const [tcp, udp] = await Promise.all([traffic('TCP'), traffic('UDP')])
  test.same(complaints(tcp, false), [], 'TCP works again')
  test.same(complaints(udp, false), [], 'UDP works again')
  let left = ''
  const isClean = async (): Promise<boolean> => {
    left = leak(before, await quiet(), 1)
    return left === ''
  }
  await until('all descriptors are closed', isClean, 3000).catch(() => undefined)
  test.equal(left, '', 'as many descriptors as before')
}

/** Some calls are made once a second at most, whatever the traffic. */
const comesWithinMs = 5000

/** A relay of its own, before its first bulky traffic, with its worker found. */
const prepared = async (test: Test) => {
  const world = await faultyWorld(test)
  const worker = await busiestThread(world.pid, async () => {
    for (let i = 0; i < 4; i += 1) await world.small()
  })
  return { world, worker, before: await world.quiet() }
}

type Prepared = Awaited<ReturnType<typeof prepared>>

const failsInWorker = async (
  test: Test,
  { world, worker, before }: Prepared,
  { call, error, when, mayFail, protocol }: FaultCase,
): Promise<void> => {
  const injection = await inject(worker, call, error, when, test.testdir())
  const outcomes = [...(await world.traffic(protocol))]
  const end = performance.now() + comesWithinMs
  while (performance.now() < end && injection.count() === 0)
    outcomes.push(...(await world.traffic(protocol)))
  // Orders come by an eventfd, which is read.
  await world.listen()
  test.ok((await injection.stop()) > 0, 'it did so')
  test.same(complaints(outcomes, mayFail), [])
  await isWellAgain(test, world, before)
}

const failsInMain = async (
  test: Test,
  { world, before }: Prepared,
  { call, error, when }: FaultCase,
): Promise<void> => {
  const bind = { address: testHost, port: await freeTcpPort() }
  const injection = await inject(world.pid, call, error, when, test.testdir())
  await world.listen(bind)
  test.ok((await injection.stop()) > 0, 'it did so')
  const isServed = async (): Promise<boolean> =>
    complaints(await world.traffic('TCP', bind), false).length === 0
  await until('it was tried again', isServed)
  await world.listen()
  await isWellAgain(test, world, before)
}

/** Each with a relay to itself, at the same time: most of it is waiting. */
const lanes = 4
t.jobs = lanes

/** Each lane begins with one of those that a relay is to be new for. */
const inWorker = [...casesOf(earlyFaults), ...casesOf(workerFaults)]
const inMain = casesOf(mainFaults)
const ofLane = <T>(all: readonly T[], lane: number): readonly T[] =>
  all.filter((_, nth) => nth % lanes === lane)

for (let lane = 0; lane < lanes; lane += 1)
  t.test(
    `no error of a system call loses a byte or a descriptor (${lane + 1}/${lanes})`,
    { skip, buffered: true },
    async t => {
      const relay = await prepared(t)
      for (const fault of ofLane(inWorker, lane))
        await t.test(`${fault.protocol}: ${fault.call} answers ${fault.error}`, t =>
          failsInWorker(t, relay, fault),
        )
      for (const fault of ofLane(inMain, lane))
        await t.test(`opening a listener: ${fault.call} answers ${fault.error}`, t =>
          failsInMain(t, relay, fault),
        )
    },
  )

import type { Test } from 'tap'
import type { IpFamily } from '../../../src/util/ip.ts'
import type { HostName } from '../../support/net/addresses.ts'
import { inParallel } from '../../support/net/in-parallel.ts'
import { until } from '../../support/until.ts'
import { families, objectsOf } from './objects.ts'
import type { Manner } from './oracle-terms.ts'
import { serviceNamed, type TestService } from './services.ts'
import type { Stage } from './stage.ts'
import { type VipName, vipOf } from './vips.ts'

const clients: readonly HostName[] = ['node', 'pod-1', 'pod-2', 'outside']
const vips: readonly VipName[] = ['ClusterIP', 'external IP', 'node port, first address']

interface Flow {
  readonly from: HostName
  readonly vip: VipName
  readonly family: IpFamily
}

/**
 * A limit of `local`: Linux does not tell an IPv6 socket of the node that is connected
 * already when its peer becomes an address of the host, as long as that brings no route
 * into the main table (noprefixroute).
 */
const isStuck = ({ from, vip, family }: Flow, manner: Manner): boolean =>
  manner === 'local' &&
  from === 'node' &&
  family === 'IPv6' &&
  vip !== 'node port, first address'

const flowText = (flow: Flow | undefined): string =>
  flow === undefined ? '' : `${flow.from} to ${flow.vip}, ${flow.family}`

/**
 * UDP clients that never change their port: conntrack remembers where they went, also when
 * that was nowhere, and must be made to forget it.
 */
export const udpFlowsFollow = async (
  t: Test,
  { agents, manifests, net }: Stage,
  manner: Manner,
): Promise<void> => {
  const late = serviceNamed('loner')
  const others = [serviceNamed('plain')]
  const withBackends = (...backends: TestService['backends']): Promise<void> =>
    manifests.write(...objectsOf([...others, { ...late, backends }]))
  await manifests.write(...objectsOf(others))
  const wanted = clients
    .flatMap(from => vips.flatMap(vip => families.map(family => ({ from, vip, family }))))
    .filter(flow => !isStuck(flow, manner))
  // A socket of the node that knew the VIP as an address of the host would bear it.
  await until('the Service is gone', async () => {
    const outcomes = await Promise.all(
      wanted.map(({ from, vip, family }) =>
        agents[from].dial({ protocol: 'UDP', ...vipOf[vip](late, family) }, 300),
      ),
    )
    return outcomes.every(({ result }) => result !== 'answer')
  })
  const asks = await inParallel(wanted.length, wanted, ({ from, vip, family }) =>
    agents[from].open({ protocol: 'UDP', ...vipOf[vip](late, family) }),
  )
  /** Who did not answer so when asked last. */
  let differing: readonly string[] = []
  const all = (answer: string) => async (): Promise<boolean> => {
    const answers = await Promise.all(asks.map(({ ask }) => ask()))
    differing = answers.flatMap((each, i) =>
      each === answer ? [] : [`${flowText(wanted[i])}: '${each}'`],
    )
    return differing.length === 0
  }
  /** Who goes elsewhere, and what the kernel knows of flows to the Service. */
  const story = async (): Promise<string> => {
    const entries = await Promise.all(
      families.map(family =>
        net.node.run('conntrack', ['--dump', '-p', 'udp', '-f', family.toLowerCase()]),
      ),
    )
    const ports = vips.flatMap(vip => families.map(one => vipOf[vip](late, one).port))
    const ofLate = entries
      .join('')
      .split('\n')
      .filter(line => ports.some(port => line.includes(` dport=${port} `)))
    return [...differing, ...ofLate].join('\n')
  }
  const step = async (what: string, answer: string): Promise<void> => {
    await until(what, all(answer)).catch(async (error: Error) => {
      throw new Error(`${error.message}\n${await story()}`)
    })
    t.pass(what)
  }
  await step('nobody answers for a Service that is not there', '')
  await withBackends('backend-1')
  await step('it came, and answers those who knew its address before', 'backend-1')
  await withBackends('backend-2')
  await step('its endpoint moved, and they came along', 'backend-2')
  await withBackends()
  await step('no endpoint is left', '')
  await withBackends('backend-3')
  await step('there is one again', 'backend-3')
}

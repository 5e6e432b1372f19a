import { podCidrs, serviceCidrs } from '../support/net/addresses.ts'
import { nodeName, objectsOf } from '../e2e/capture/objects.ts'
import type { TestService } from '../e2e/capture/services.ts'
import type { Ran } from './guest/protocol.ts'
import type { Launched, Machine } from './machine.ts'

const manifests = '/mnt/services.yaml'
export const metricsPort = 10_249

const flags = [
  `--manifests=${manifests}`,
  `--service-cidr=${serviceCidrs.IPv4},${serviceCidrs.IPv6}`,
  `--cluster-cidr=${podCidrs.IPv4},${podCidrs.IPv6}`,
  `--hostname-override=${nodeName}`,
  '--state-dir=/mnt/state',
  '--orphan-timeout=0',
  '--drain-timeout=1s',
  '--log-format=json',
  '--relay-workers=1', // Each would be a thread more to emulate.
]

/** One that serves. */
export interface VmUsher {
  /** What it said until then. */
  readonly log: string
  /** As `/proxyMode` says it. */
  readonly mode: string
  /** What `--capture auto` took; '' when it did not have to. */
  readonly capture: string
  /** What it said in all, and its exit code after SIGTERM. */
  readonly end: Launched['end']
}

/** What is to be served, also while one runs. JSON is YAML. */
export const writeServices = (
  machine: Machine,
  services: readonly TestService[],
): Promise<void> =>
  machine.write(
    manifests,
    objectsOf(services)
      .map(each => JSON.stringify(each))
      .join('\n---\n'),
  )

/** Starts `usher run` in the machine and waits until it serves. */
export const runUsher = async (
  machine: Machine,
  ...more: readonly string[]
): Promise<VmUsher> => {
  const own = [`--metrics-bind-address=127.0.0.1:${metricsPort}`, '--healthz-port=0']
  const usher = await machine.launch(...machine.usher, 'run', ...flags, ...own, ...more)
  const log = await usher.said('"msg":"serving"')
  const { body } = await machine.node.get('127.0.0.1', metricsPort, '/proxyMode')
  const [, capture = ''] = /"capture":"(\w+)".*capture selected/.exec(log) ?? []
  return { log, mode: body, capture, end: usher.end }
}

/** One of Usher's commands that ends by itself. */
export const askUsher = (machine: Machine, ...args: readonly string[]): Promise<Ran> =>
  machine.try(...machine.usher, ...args)

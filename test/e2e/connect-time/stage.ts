import { existsSync } from 'node:fs'
import type { Test } from 'tap'
import { pinsFolder } from '../../../src/kernel/bpf/pins.ts'
import type { StatusDocument } from '../../../src/observe/status.ts'
import {
  type Client,
  type Group,
  makeGroup,
  skip as noPrograms,
} from '../../kernel/connect-time/group.ts'
import { makeBpffs } from '../../support/bpffs.ts'
import { type ManifestFile, manifestFile } from '../../support/manifests.ts'
import { makeNetns, type Netns, netnsProblem } from '../../support/netns.ts'
import { startUsherBy, type Usher } from '../../support/usher.ts'
import { type Ended, usherIn } from '../../support/usher-in.ts'

const why = noPrograms || (await netnsProblem('ip', 'nsenter', 'unshare'))
/** Of tests in which Usher leads clients. */
export const skip = why === '' ? false : why

/** An address of the node's; all else but loopback is unreachable there. */
export const nodeAddress = '192.0.2.1'

/** A node of the test's own: network namespace, cgroup and bpffs. */
export interface Stage {
  readonly node: Netns
  readonly group: Group
  readonly bpffs: string
  readonly manifests: ManifestFile
  /** A process of the node. */
  readonly client: Client
  /** What says where the programs go, and that nothing else leads clients. */
  readonly flags: readonly string[]
  /** Starts Usher in the cgroup, and waits until it serves. */
  readonly start: (t: Test, ...flags: string[]) => Promise<Usher>
  /** The same, and until it leads. */
  readonly lead: (t: Test, ...flags: string[]) => Promise<Usher>
  /** Runs another command of Usher's. */
  readonly run: (...args: string[]) => Promise<Ended>
  readonly status: (usher: Usher) => Promise<StatusDocument>
  /** By name and labels. */
  readonly metrics: (usher: Usher) => Promise<ReadonlyMap<string, number>>
  /** Whether programs and tables are kept for another Usher. */
  readonly isKept: () => boolean
}

export const makeStage = async (t: Test): Promise<Stage> => {
  const group = await makeGroup()
  const bpffs = makeBpffs()
  const node = await makeNetns('connect')
  await node.run('ip', 'link add node type veth peer name peer'.split(' '))
  await node.run('ip', ['address', 'add', `${nodeAddress}/32`, 'dev', 'node'])
  for (const each of ['node', 'peer']) await node.run('ip', ['link', 'set', each, 'up'])
  const manifests = await manifestFile(t)
  const client = await group.client(node)
  const flags = [
    `--manifests=${manifests.path}`,
    `--connect-time-cgroup=${group.path}`,
    `--connect-time-bpffs=${bpffs}`,
    '--hostname-override=node-1',
  ]
  const start = (t: Test, ...more: string[]): Promise<Usher> =>
    startUsherBy(t, group.prefix(node), 'run', ...flags, ...unlessSaid(more), ...more)
  return {
    node,
    group,
    bpffs,
    manifests,
    client,
    flags,
    start,
    lead: async (t, ...more) => {
      const usher = await start(t, ...more)
      await usher.logged(/^connect-time steering is on/)
      return usher
    },
    run: (...args) => usherIn(node, args),
    status: async ({ metrics }) =>
      JSON.parse(await client.get(`http://${metrics}/status`)) as StatusDocument,
    metrics: async ({ metrics }) =>
      samplesIn(await client.get(`http://${metrics}/metrics`)),
    isKept: () => existsSync(pinsFolder(bpffs)),
  }
}

const usual = ['--connect-time=on', '--capture=none', '--proxy-mode=userspace']

const unlessSaid = (flags: readonly string[]): readonly string[] =>
  usual.filter(each => {
    const [name = ''] = each.split('=')
    // Kernel modes have no capture.
    if (name === '--capture' && flags.some(flag => /^--proxy-mode=[^u]/.test(flag)))
      return false
    return !flags.some(flag => flag.startsWith(`${name}=`))
  })

const samplesIn = (text: string): ReadonlyMap<string, number> =>
  new Map(
    text
      .split('\n')
      .filter(line => line !== '' && !line.startsWith('#'))
      .map(line => {
        const end = line.lastIndexOf(' ')
        return [line.slice(0, end), Number(line.slice(end + 1))] as const
      }),
  )

/** An EndpointSlice with one list of endpoints at a port. */
export const sliceAt = (
  owner: string,
  addresses: readonly string[],
  port: number,
  { name = 'p', protocol = 'TCP' }: { name?: string; protocol?: string } = {},
): object => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: {
    name: `${owner}-${name}`,
    labels: { 'kubernetes.io/service-name': owner },
  },
  addressType: 'IPv4',
  endpoints: addresses.map(each => ({ addresses: [each] })),
  ports: [{ name, protocol, port }],
})

/** Who answers at a VIP, or the errno. */
export const whoAnswers = async (
  client: Client,
  address: string,
  port = 80,
): Promise<string> => {
  const { said, error } = await client.tcp(address, port)
  return said?.split(' ')[0] ?? error ?? ''
}

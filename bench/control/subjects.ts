import { readFile, writeFile } from 'node:fs/promises'
import type { Capture, Placement } from '../../src/capture/capture.ts'
import { iptablesSteering } from '../../src/capture/iptables/iptables.ts'
import { LocalAddresses } from '../../src/capture/local-addresses.ts'
import { LocalCapture } from '../../src/capture/local/local-capture.ts'
import { nftablesSteering } from '../../src/capture/nftables.ts'
import { RuleCapture } from '../../src/capture/rule-capture.ts'
import type { SteeringKind, SteeringRules } from '../../src/capture/steering.ts'
import { LinuxHostAddresses } from '../../src/kernel/host-addresses/linux.ts'
import { iptablesKind } from '../../src/kernel/iptables/iptables-proxier.ts'
import { ipvsKind } from '../../src/kernel/ipvs/ipvs-proxier.ts'
import { Families } from '../../src/kernel/keeper/families.ts'
import { nftablesKind } from '../../src/kernel/nftables/nftables-kind.ts'
import type {
  KernelSettings,
  KernelSync,
  Proxier,
  ProxierKind,
} from '../../src/kernel/proxier.ts'
import { proxyAddressOf } from '../../src/kernel/proxy-address.ts'
import type { RunTool } from '../../src/kernel/run-tool.ts'
import type { BackendMode } from '../../src/kernel/xtables/backend.ts'
import type { ServicePort } from '../../src/model/snapshot.ts'
import { systemClock as clock } from '../../src/util/clock.ts'
import { plainIpvs } from '../../test/support/plain-ipvs.ts'
import type { TargetRecord } from '../record/record.ts'
import type { ClusterSnapshot, Step } from './cluster.ts'
import { KubeProxyLayout } from './kube-proxy-layout.ts'
import { openLed } from './led.ts'

/** What Services are written to the kernel by. */
export interface Subject {
  /** Resolves when they are there. */
  sync(snapshot: ClusterSnapshot, step?: Step): Promise<Pick<KernelSync, 'work'>>
  /** The next sync is a full one. */
  forget(): void
  /** Tells what others change of it, until the function it gives is called. */
  watch(damaged: (what: string) => void): () => void
  close(): unknown
  /** Resolves when a client sees what was synced last. */
  seen?(): Promise<void>
  /** How many of so many connects fail while one of two endpoints refuses. */
  dead?(snapshot: ClusterSnapshot, connects: number): Promise<number>
  /** What the kernel holds for it. */
  kernelBytes?(): number
}

/** Kernel modes; captures, which lead traffic to the relay by rules; what leads connects. */
export type Part = 'modes' | 'rules' | 'connect-time'

interface Measured extends Pick<TargetRecord, 'name' | 'title' | 'kind'> {
  readonly part: Part
  /** Rejects with the reason where it doesn't work. */
  readonly open: (run: RunTool, cgroup: string) => Promise<Subject>
}

/** As `usher run` has them without flags, on a node of one address. */
const settings: KernelSettings = {
  masqueradeAll: false,
  masqueradeBit: 14,
  localhostNodePorts: true,
  localDetector: { by: 'source', cidrs: ['10.244.0.0/16'] },
  nodePortCidrs: undefined,
  nodeAddresses: ['192.0.2.1'],
  nodeName: 'node-1',
  flowtableDevices: [],
  serviceCidrs: ['10.96.0.0/12'],
}

/** What can't be done is reported by the sync. */
const observer = { restoreFailed: () => {}, failed: () => {} }

const mode = (name: string, kindOf: (run: RunTool) => ProxierKind): Measured => ({
  part: 'modes',
  name: `mode ${name}`,
  title: `Usher's mode ${name}, in a process of its own`,
  kind: 'usher',
  open: async run => {
    const kind = kindOf(run)
    const { usable, detail } = await kind.probe('IPv4')
    if (!usable) throw new Error(detail)
    return ofProxier(kind.proxier('IPv4'))
  },
})

const ofProxier = (proxier: Proxier): Subject => ({
  sync: snapshot => proxier.sync(snapshot, settings),
  forget: () => proxier.forget(),
  watch: damaged => proxier.watch(damaged),
  close: () => proxier.close(),
})

const iptables = (backend: BackendMode) => (run: RunTool) =>
  iptablesKind({ run, clock, observer, backend })

const ipvs = (run: RunTool) =>
  ipvsKind({
    run,
    clock,
    observer,
    options: plainIpvs,
    read: path => readFile(path, 'utf8').catch(() => undefined),
    setSysctl: (name, value) => writeFile(`/proc/sys/${name}`, value),
  })

const capture = (name: string, make: (run: RunTool) => Capture): Measured => ({
  part: 'rules',
  name,
  title: `Usher's capture ${name}, in a process of its own`,
  kind: 'usher',
  open: async run => ofCapture(make(run)),
})

/** What looks for damage would be counted with what is measured. */
const ofCapture = (made: Capture): Subject => ({
  sync: async ({ servicePorts }) => {
    await made.steer(await made.place([...servicePorts.values()]), [])
    return { work: 'partial' }
  },
  forget: () => {},
  watch: () => () => {},
  close: () => made.close(),
})

const onlyIpv4 = new Families({
  clock,
  object: '',
  unusable: new Map([['IPv6', 'not measured']]),
  probe: async () => ({ usable: false, detail: 'not measured' }),
  resync: () => {},
})

const byRules = ({ name, rules }: SteeringKind): Capture => {
  const known = new WeakMap<ServicePort, Placement>()
  return new RuleCapture({
    clock,
    name,
    rules: new Map([['IPv4', unwatched(rules('IPv4'))]]),
    families: onlyIpv4,
    listen: { place: async servicePorts => servicePorts.map(placedIn(known)) },
    prepare: async () => {},
    applied: async () => {},
    removeOthers: async () => {},
    holdOthers: async () => {},
    release: async () => {},
    nodePortCidrs: () => undefined,
    podCidrs: () => ['10.244.0.0/16'],
    forgetWaiting: async () => undefined,
    conntrack: { forgetFlows: async () => 0, problem: '' },
    left: async () => [],
    keepRules: false,
    resync: () => {},
    observers: [],
    hasSockets: () => false,
    failed: () => {},
  })
}

const unwatched = (rules: SteeringRules): SteeringRules => {
  rules.watch = () => () => {}
  return rules
}

/** Sockets are not what is measured. What did not change is placed as before. */
const placedIn =
  (known: WeakMap<ServicePort, Placement>) =>
  (servicePort: ServicePort, i: number): Placement => {
    const placement = known.get(servicePort) ?? onProxyPort(servicePort, i)
    known.set(servicePort, placement)
    return placement
  }

const onProxyPort = (servicePort: ServicePort, i: number): Placement => ({
  servicePort,
  listenerId: servicePort.key,
  vips: servicePort.vips.map(vip => ({
    vip,
    capture: 'nftables',
    binds: [{ address: proxyAddressOf.IPv4, port: 10_000 + (i % 50_000) }],
    reason: '',
  })),
})

/** Each VIP a route of its own: the dearer of the two ways. */
const local = (run: RunTool): Capture =>
  new LocalCapture({
    hostAddresses: new LinuxHostAddresses({ run, clock, families: ['IPv4'] }),
    localAddresses: new LocalAddresses(clock, async () => true),
    serviceCidrs: () => [],
    keepRules: false,
    repaired: () => {},
    clock,
    resync: () => {},
  })

export const nftablesName = 'mode nftables'

/** What Usher's nftables mode is compared with. */
export const kubeProxyName = "kube-proxy's nftables layout"

const subjects: readonly Measured[] = [
  mode('nftables', run => nftablesKind({ run, clock, observer })),
  mode('iptables (nft)', iptables('nft')),
  mode('iptables (legacy)', iptables('legacy')),
  mode('ipvs', ipvs),
  {
    part: 'modes',
    name: kubeProxyName,
    title: 'What kube-proxy writes for the same Services, by the bench',
    kind: 'peer',
    open: async run => ofProxier(new KubeProxyLayout(run)),
  },
  capture('nftables', run => byRules(nftablesSteering({ run, clock }))),
  capture('iptables (nft)', run =>
    byRules(iptablesSteering({ run, clock, backend: 'nft' })),
  ),
  capture('iptables (legacy)', run =>
    byRules(iptablesSteering({ run, clock, backend: 'legacy' })),
  ),
  capture('local', local),
  {
    part: 'connect-time',
    name: 'connect-time',
    title: "Usher's connect-time steering, in a process of its own that is led by it",
    kind: 'usher',
    open: (_, cgroup) => openLed(cgroup),
  },
]

/** Its time grows with the square of Services: above these it is measured only when named. */
const mostForKubeProxy = 5000

/** Those whose names have one of the words in them; without words all that end in time. */
export const chooseSubjects = (
  part: Part,
  words: readonly string[] = [],
  services = 0,
): readonly Measured[] =>
  subjects.filter(
    one =>
      one.part === part &&
      (words.length === 0
        ? one.name !== kubeProxyName || services <= mostForKubeProxy
        : words.some(word => one.name.includes(word))),
  )

/** Rejects with the reason where it doesn't work. */
export const openSubject = async (
  part: Part,
  name: string,
  run: RunTool,
  cgroup: string,
): Promise<Subject> => {
  const found = subjects.find(one => one.part === part && one.name === name)
  if (found === undefined) throw new Error(`there is no ${name}`)
  return found.open(run, cgroup)
}

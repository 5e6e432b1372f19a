import { readdirSync, readFileSync } from 'node:fs'
import { cp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  adminConfig,
  apply,
  type Cluster,
  clusterIpOf,
  controlAddresses,
  kubectl,
  podsCidrs,
  startDns,
} from './cluster.ts'
import { auditLog, startApiServer } from './control-plane.ts'
import { enterPod, type Load, load, prepareMeasures, updateWeb } from './measures.ts'
import { joinPods, type Node, on, startKubelet, stopOn } from './nodes.ts'
import { program, top } from './programs.ts'
import { output, startDaemon, step, stopDaemon, succeeds } from './run-command.ts'
import { launchBrowser, openPage } from '../support/browser.ts'
import { until } from '../support/until.ts'
import { agnhostImage } from './images.ts'
import { removeProxy, startProxy, ways } from './service-proxies.ts'
import { usherImage } from './usher-image.ts'

/** What became of Usher in one mode, installed as its users install it. */
export interface Deployed {
  readonly name: string
  /** Seconds until all of its pods were ready. */
  readonly kustomize: number
  readonly helm: number
  /** By what was done meanwhile, failed of asked; from a node and a pod. */
  readonly borne: ReadonlyMap<string, readonly Load[]>
  /** What it is granted and did not ask for here. */
  readonly unused: readonly string[]
  /** What must not be. */
  readonly faults: readonly string[]
}

export const deploy = async (
  cluster: Cluster,
  nodes: readonly Node[],
  name: string,
  mode: string,
): Promise<Deployed> => {
  const faults: string[] = []
  let before = await Promise.all(nodes.map(stateOf))
  const nothingLeft = async (after: string): Promise<void> => {
    for (const [i, node] of nodes.entries())
      faults.push(
        ...differences(`${after}, ${node.name}`, before[i] ?? '', await stateOf(node)),
      )
  }
  const folder = await kustomization(cluster, mode)
  const kustomize = await step(`${name}: kustomize`, () =>
    installed(cluster, () => kubectl(cluster, 'apply', '-k', folder)),
  )
  if (!(await hasWeb(cluster))) {
    await startDns(cluster)
    await prepareMeasures(cluster)
  }
  faults.push(...(await lookedAt(cluster, mode)))
  const borne = await step(`${name}: under load`, () => bear(cluster, nodes))
  faults.push(...cutsOf(borne, mode), ...(await restartsOfPods(cluster)))
  await step(`${name}: taken away`, () => takeAway(cluster, folder))
  await nothingLeft('kustomize')
  const { unused, denied } = await grants(cluster)
  faults.push(...denied)
  faults.push(
    ...(await step(`${name}: kube-proxy after it`, () => kubeProxyAfter(cluster, nodes))),
  )
  before = await Promise.all(nodes.map(stateOf))
  const helmSeconds = await step(`${name}: helm`, () =>
    installed(cluster, () => helmInstall(cluster, mode)),
  )
  faults.push(...(await lookedAt(cluster, mode)))
  await step(`${name}: helm test`, () =>
    helm(cluster, 'test', 'usher', '--timeout=90s').catch((error: unknown) =>
      faults.push(`helm test: ${(error as Error).message}`),
    ),
  )
  await step(`${name}: helm uninstall`, () =>
    helm(cluster, 'uninstall', 'usher', '--wait', '--timeout=150s'),
  )
  await nothingLeft('helm')
  const objects = await kubectl(
    cluster,
    '-n',
    'kube-system',
    'get',
    'all,serviceaccounts,roles,rolebindings,configmaps',
    '-o',
    'name',
  )
  const own = objects.split('\n').filter(one => one.includes('usher'))
  if (own.length > 0) faults.push(`helm uninstall leaves ${own.join(', ')}`)
  for (const fault of faults) process.stderr.write(`${name}: ${fault}\n`)
  return { name, kustomize, helm: helmSeconds, borne, unused, faults }
}

const hasWeb = async (cluster: Cluster): Promise<boolean> =>
  (await kubectl(cluster, 'get', 'service', 'web', '--ignore-not-found')) !== ''

/** A copy of what is in the tree, with what its README tells to set. */
const kustomization = async ({ state }: Cluster, mode: string): Promise<string> => {
  const folder = join(state, 'deploy')
  await rm(folder, { recursive: true, force: true })
  await cp(join(top, 'deploy/kubernetes'), folder, { recursive: true })
  const change = async (
    file: string,
    ...changes: readonly (readonly [RegExp, string])[]
  ) => {
    const path = join(folder, file)
    let text = await readFile(path, 'utf8')
    for (const [from, to] of changes) text = text.replace(from, to)
    await writeFile(path, text)
  }
  const overlay = 'overlays/every-node'
  await change(join(overlay, 'cluster.env'), [
    /^KUBERNETES_SERVICE_HOST=.*/m,
    `KUBERNETES_SERVICE_HOST=${controlAddresses.ipv4}`,
  ])
  // Of userspace mode the component asks.
  const named = mode === 'userspace' ? "''" : mode
  await change('base/config.yaml', [
    /^mode: .*/m,
    `mode: ${named}\nclusterCIDR: ${podsCidrs}`,
  ])
  if (mode === 'userspace')
    await change(join(overlay, 'kustomization.yaml'), [/^# (components:.*)$/m, '$1'])
  return join(folder, overlay)
}

/** Seconds until all pods are ready. */
const installed = async (
  cluster: Cluster,
  install: () => Promise<unknown>,
): Promise<number> => {
  const began = performance.now()
  await install()
  await rollout(cluster, 'usher')
  return (performance.now() - began) / 1000
}

const rollout = (cluster: Cluster, daemonSet: string): Promise<string> =>
  kubectl(
    cluster,
    '-n',
    'kube-system',
    'rollout',
    'status',
    `daemonset/${daemonSet}`,
    '--timeout=120s',
  )

const helm = async ({ pki }: Cluster, ...args: readonly string[]): Promise<string> => {
  const path = await output([join(top, 'scripts/test-packages.sh'), '--helm'])
  const where = [`--kubeconfig=${join(pki, 'admin.conf')}`, '--namespace=kube-system']
  return output([path.trim(), ...args, ...where])
}

const helmInstall = (cluster: Cluster, mode: string): Promise<string> =>
  helm(
    cluster,
    'install',
    'usher',
    join(top, 'deploy/helm/usher'),
    `--set=apiServer.host=${controlAddresses.ipv4}`,
    `--set=config.mode=${mode}`,
    `--set-json=config.clusterCIDR="${podsCidrs}"`,
  )

/** By the commands that the docs tell. */
const lookedAt = async (cluster: Cluster, mode: string): Promise<readonly string[]> => {
  const faults: string[] = []
  const status = await kubectl(
    cluster,
    ...'-n kube-system exec daemonset/usher -- usher status'.split(' '),
  )
  if (!status.includes(mode)) faults.push(`usher status does not name the mode ${mode}`)
  if (/\s(?:failed|not captured)(?::|$)/m.test(status))
    faults.push(`usher status: ${status}`)
  const port = '20249'
  const forward = [
    '-n',
    'kube-system',
    'port-forward',
    'daemonset/usher',
    `${port}:10249`,
  ]
  const forwarding = startDaemon(
    [program('kubectl'), `--kubeconfig=${adminConfig(cluster)}`, ...forward],
    join(cluster.state, 'log', 'port-forward.log'),
  )
  try {
    const url = `http://127.0.0.1:${port}/`
    await until('the page is forwarded', () => succeeds(['curl', '-sf', url]))
    faults.push(...(await pageFaults(url)))
  } finally {
    await stopDaemon(forwarding)
  }
  return faults
}

/** As a browser shows it: a Service of the cluster's, and nothing to complain of. */
const pageFaults = async (url: string): Promise<readonly string[]> => {
  const browser = await launchBrowser()
  try {
    const { page, complaints } = await openPage(browser)
    await page.goto(url)
    const isThere = await page
      .getByText('kube-dns')
      .first()
      .waitFor({ timeout: 20_000 })
      .then(() => true)
      .catch(() => false)
    return [...complaints, ...(isThere ? [] : ['the page does not show kube-dns'])].map(
      fault => `the forwarded page: ${fault}`,
    )
  } finally {
    await browser.close()
  }
}

/**
 * In the kernel modes connections go on without Usher; in userspace mode the new pod takes them over, and is
 * asked by all new clients.
 */
const cutsOf = (borne: Deployed['borne'], mode: string): readonly string[] => {
  const isUserspace = mode === 'userspace'
  const sum = (what: string, field: 'cut' | 'failed'): number =>
    (borne.get(what) ?? []).reduce((all, one) => all + one[field], 0)
  const cut = (isUserspace ? rollouts : [...rollouts, killing])
    .filter(what => sum(what, 'cut') > 0)
    .map(what => `${what}: ${sum(what, 'cut')} open connections were cut`)
  const failed = (isUserspace ? rollouts : [])
    .filter(what => sum(what, 'failed') > 0)
    .map(what => `${what}: ${sum(what, 'failed')} requests failed`)
  return [...cut, ...failed]
}

/** A container that was replaced waits for its end: one that ended would be started again. Only the killed one may. */
const restartsOfPods = async (cluster: Cluster): Promise<readonly string[]> => {
  const told = await kubectl(
    cluster,
    ...'-n kube-system get pods -l app.kubernetes.io/name=usher -o'.split(' '),
    'jsonpath={.items[*].status.containerStatuses[*].restartCount}',
  )
  const counts = told.split(' ').map(Number)
  const sum = counts.reduce((all, one) => all + one, 0)
  return counts.length === 3 && sum <= 1 ? [] : [`restarts of pods: ${told}`]
}

const restarts = ['rollout restart of Usher', 'again', 'once more']
const failing = 'rollout of an image that is not there, undone'
const rollouts = [...restarts, failing]
const killing = 'kill -9 of Usher'

/** What kube-proxy serves after Usher is served by it alone: what it takes away is gone. */
const kubeProxyAfter = async (
  cluster: Cluster,
  nodes: readonly Node[],
): Promise<readonly string[]> => {
  const [node] = nodes
  const way = ways.find(({ proxy }) => proxy === 'kube-proxy')
  if (node === undefined || way === undefined) throw new Error('no nodes')
  for (const one of nodes) await startProxy(cluster, one, way)
  const faults: string[] = []
  try {
    const expose = 'expose deployment web --name=after --port=80 --target-port=8080'
    await kubectl(cluster, ...expose.split(' '))
    const vip = await clusterIpOf(cluster, 'after')
    const ask = on(node, 'curl', '-sf', '-m', '1', '-o', '/dev/null', `http://${vip}/`)
    const answers = async (is: boolean): Promise<void> => {
      const what = `with kube-proxy a Service ${is ? 'answers' : 'ends'}`
      await until(what, async () => (await succeeds(ask)) === is).catch(
        (error: unknown) => faults.push(`after Usher: ${(error as Error).message}`),
      )
    }
    await answers(true)
    await kubectl(cluster, 'delete', 'service', 'after')
    await answers(false)
  } finally {
    await removeProxy(nodes)
  }
  return faults
}

/** With requests around each: a rollout goes from node to node. */
const secondsOf = (what: string): number => (rollouts.includes(what) ? 40 : 20)

const bear = async (
  cluster: Cluster,
  nodes: readonly Node[],
): Promise<Deployed['borne']> => {
  const [node, other] = nodes
  if (node === undefined || other === undefined) throw new Error('no nodes')
  const vip = await clusterIpOf(cluster, 'web')
  const inPod = await enterPod(node, 'client')
  const restart = async (): Promise<void> => {
    await kubectl(cluster, '-n', 'kube-system', 'rollout', 'restart', 'daemonset/usher')
    await rollout(cluster, 'usher')
  }
  const disturbances: Readonly<Record<string, () => Promise<unknown>>> = {
    ...Object.fromEntries(restarts.map(what => [what, restart])),
    [failing]: async () => {
      const inSystem = ['-n', 'kube-system']
      const image = ['daemonset/usher', `usher=${usherImage}-not-there`]
      await kubectl(cluster, ...inSystem, 'set', 'image', ...image)
      await sleep(6000)
      await kubectl(cluster, ...inSystem, 'rollout', 'undo', 'daemonset/usher')
      await rollout(cluster, 'usher')
    },
    [killing]: async () => {
      process.kill(usherOn(node), 'SIGKILL')
      await sleep(3000)
      await rollout(cluster, 'usher')
    },
    'API server restarted': async () => {
      const daemon = cluster.daemons.get('kube-apiserver')
      if (daemon !== undefined) await stopDaemon(daemon, 3000)
      await startApiServer(cluster)
    },
    'kubelet restarted': async () => {
      await stopOn(node, 'kubelet')
      await startKubelet(cluster, node)
    },
    'node drained and back': async () => {
      const flags = [
        '--ignore-daemonsets',
        '--force',
        '--delete-emptydir-data',
        '--timeout=60s',
      ]
      await kubectl(cluster, 'drain', other.name, ...flags)
      await kubectl(cluster, 'uncordon', other.name)
    },
    'node deleted and back': async () => {
      await kubectl(cluster, 'delete', 'node', other.name)
      await stopOn(other, 'kubelet')
      await startKubelet(cluster, other)
      await joinPods(cluster, nodes)
      await kubectl(cluster, 'wait', 'node', other.name, '--for=condition=Ready')
    },
    'rolling update': () => updateWeb(cluster),
  }
  const borne = new Map<string, readonly Load[]>()
  for (const [what, does] of Object.entries(disturbances)) {
    const seconds = secondsOf(what)
    const loads = Promise.all([
      load(on(node), vip, '80', seconds),
      load(inPod, vip, '80', seconds),
    ])
    await sleep(2000)
    await step(what, does)
    borne.set(what, await loads)
  }
  borne.set('rolling update, by a sidecar', [await besideApplication(cluster, node)])
  return borne
}

/** As `deploy/sidecar` has it, with the Service's pods in place of a database. */
const besideApplication = async (cluster: Cluster, node: Node): Promise<Load> => {
  const text = await readFile(join(top, 'deploy/sidecar/native-sidecar.yaml'), 'utf8')
  const manifest = text
    .replaceAll(/image: usher:\S+/g, `image: ${usherImage}`)
    .replaceAll(
      /image: registry\.example\S+/g,
      `image: ${agnhostImage(cluster.registry)}\n          args: [pause]`,
    )
    .replace(/=db-0\S+/, '=web-pods.default.svc.cluster.local:8080')
    .replace('runAsNonRoot: true', 'runAsNonRoot: false')
    .replace(
      '    spec:\n',
      `    spec:\n      nodeName: ${node.name}\n      hostname: beside\n`,
    )
  await apply(cluster, manifest)
  await kubectl(cluster, 'rollout', 'status', 'deployment/shop', '--timeout=90s')
  const inPod = await enterPod(node, 'beside')
  const loading = load(inPod, '127.0.0.1', '5432', 20)
  await sleep(2000)
  await step('rolling update, by a sidecar', () => updateWeb(cluster))
  const loaded = await loading
  await kubectl(cluster, 'delete', 'deployment', 'shop', '--wait')
  return loaded
}

/** Usher's process among those of a node. */
const usherOn = ({ name }: Node): number => {
  for (const pid of readdirSync('/proc').filter(one => /^\d+$/.test(one))) {
    const read = (file: string): string => {
      try {
        return readFileSync(`/proc/${pid}/${file}`, 'utf8')
      } catch {
        return '' // It has ended.
      }
    }
    if (
      /\/usher\0run\0/.test(read('cmdline')) &&
      read('cgroup').includes(`/usher-cluster/${name}/`)
    )
      return Number(pid)
  }
  throw new Error(`no Usher on ${name}`)
}

/** As the README tells. */
const takeAway = async (cluster: Cluster, folder: string): Promise<void> => {
  await kubectl(cluster, 'delete', '-k', folder)
  await apply(
    cluster,
    await readFile(join(folder, '../../cleanup-every-node.yaml'), 'utf8'),
  )
  await rollout(cluster, 'usher-cleanup')
  await kubectl(cluster, '-n', 'kube-system', 'delete', 'daemonset', 'usher-cleanup')
}

/** All that a service proxy may change on a node. */
const stateOf = async (node: Node): Promise<string> => {
  const commands = [
    'nft --stateless list ruleset',
    'iptables-save',
    'ip6tables-save',
    'ip -o address show scope global',
    'ip -o link show type dummy',
    'ip rule',
    'ip -6 rule',
    'ip route show table all',
    'sysctl -a --pattern ^net\\.(ipv4\\.(conf\\.(all|default)\\.(route_localnet|arp_(ignore|announce))|ip_forward|vs\\.)|netfilter\\.nf_conntrack_(tcp|udp|max))',
    'find /sys/fs/bpf -name usher*',
  ]
  const texts = await Promise.all(
    commands.map(
      async one =>
        `# ${one}\n${await output(on(node, ...one.split(' '))).catch(() => '')}`,
    ),
  )
  return texts
    .join('\n')
    .replaceAll(/\[\d+:\d+\]|^#.* on .*$|\bcounter packets \d+ bytes \d+/gm, '')
}

const differences = (where: string, before: string, after: string): readonly string[] => {
  const [old, now] = [new Set(before.split('\n')), new Set(after.split('\n'))]
  // Pods come and go, with addresses and routes; iptables leaves its own chains, which are empty.
  const isOthers = (line: string): boolean =>
    /veth|10\.244\.|fd00:244|^\tchain [A-Z]+ \{$|policy accept;$/.test(line)
  return [
    ...[...now]
      .filter(line => !old.has(line) && !isOthers(line))
      .map(line => `${where}: is left: ${line}`),
    ...[...old]
      .filter(line => !now.has(line) && !isOthers(line))
      .map(line => `${where}: is gone: ${line}`),
  ]
}

/** By the audit log of Usher's account: what was refused, and what was never asked for. */
const grants = async (
  cluster: Cluster,
): Promise<{
  readonly unused: readonly string[]
  readonly denied: readonly string[]
}> => {
  const lines = (await readFile(auditLog(cluster), 'utf8')).trim().split('\n')
  const events = lines
    .filter(line => line !== '')
    .map(line => JSON.parse(line) as AuditEvent)
  const asked = new Set(
    events.map(({ verb, objectRef }) => `${verb} ${objectRef?.resource}`),
  )
  const role = JSON.parse(
    await kubectl(
      cluster,
      'create',
      '--dry-run=client',
      '-o',
      'json',
      '-f',
      join(top, 'deploy/kubernetes/base/cluster-role.yaml'),
    ),
  ) as {
    readonly rules: readonly {
      readonly verbs: readonly string[]
      readonly resources: readonly string[]
    }[]
  }
  const granted = role.rules.flatMap(({ verbs, resources }) =>
    resources.flatMap(resource => verbs.map(verb => `${verb} ${resource}`)),
  )
  // An API server that has just started refuses what it has not read yet.
  const denied = events
    .filter(
      ({ verb, objectRef, responseStatus }) =>
        responseStatus?.code === 403 &&
        !granted.includes(`${verb} ${objectRef?.resource}`),
    )
    .map(({ verb, requestURI }) => `403: ${verb} ${requestURI}`)
  if (events.length === 0) denied.push('the audit log has nothing of Usher')
  return { unused: granted.filter(one => !asked.has(one)), denied: [...new Set(denied)] }
}

interface AuditEvent {
  readonly verb: string
  readonly requestURI: string
  readonly objectRef?: { readonly resource: string }
  readonly responseStatus?: { readonly code: number }
}

/** One table of Markdown, a column a mode. */
export const deployTable = (all: readonly Deployed[]): string => {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  const [first] = all
  const rows: readonly (readonly [string, (of: Deployed) => string])[] = [
    ['kustomize, s until ready', of => of.kustomize.toFixed(1)],
    ['Helm, s until ready', of => of.helm.toFixed(1)],
    ...[...(first?.borne.keys() ?? [])].map(
      what =>
        [
          `${what}: failed of asked, by client`,
          (of: Deployed) => both(of.borne.get(what)),
        ] as const,
    ),
    ['granted, not asked for here', of => of.unused.join(', ') || 'nothing'],
    ['faults', of => of.faults.join('; ') || 'none'],
  ]
  return [
    line(['', ...all.map(({ name }) => name)]),
    line(['---', ...all.map(() => '---')]),
    ...rows.map(([what, cell]) => line([what, ...all.map(cell)])),
  ].join('\n')
}

const both = (loads: readonly Load[] = []): string =>
  loads
    .map(({ failed, asked, cut, why }) =>
      [
        `${failed} of ${asked}, ${cut} cut`,
        ...Object.entries(why).map(([what, count]) => `${what} ${count}`),
      ].join(' '),
    )
    .join(' / ')

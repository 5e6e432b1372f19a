// A process of its own: kubectl and helm take their time.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { version } from '../../src/cli/version.ts'
import { parseOptions } from '../../src/config/parse.ts'
import {
  build,
  Built,
  buildWith,
  type KubeObject,
  kubernetes,
  noKustomize,
  parseYaml,
  plainSettings,
  type PodSpec,
  readObjects,
  settingsOf,
  top,
} from '../support/deploy.ts'
import { startApiServer } from '../support/api-server/for-test.ts'
import {
  isHelm3,
  lint,
  noHelm,
  notes,
  refusal,
  render,
  type Values,
} from '../support/helm.ts'
import { intended, plain } from './helm-differences.ts'

const skip = noHelm
const chartFile = (path: string): string =>
  readFileSync(`${top}deploy/helm/usher/${path}`, 'utf8')

const sorted = (objects: readonly KubeObject[]): KubeObject[] =>
  objects.toSorted((a, b) =>
    `${a.kind} ${a.metadata.name}` < `${b.kind} ${b.metadata.name}` ? -1 : 1,
  )

const monitoring: Values = {
  podMonitor: { enabled: true },
  prometheusRule: { enabled: true },
  dashboard: { enabled: true },
}

const overlay = async (path: string): Promise<Built> => (await build(path)).all

/** With the mode in the file, where kustomize has only flags ask for it. */
const withMode = (built: Built, mode: string): Built =>
  new Built(
    built.objects.map(object =>
      object.data?.['config.yaml'] === undefined
        ? object
        : {
            ...object,
            data: {
              'config.yaml': object.data['config.yaml'].replace(
                /^mode: .*$/m,
                `mode: ${mode}`,
              ),
            },
          },
    ),
  )

const configOf = (built: Built): string =>
  built.configMap('usher-config')?.data?.['config.yaml'] ?? ''
const pairs: readonly {
  readonly name: string
  readonly kustomized: (t: Test) => Promise<Built>
  readonly values: Values
}[] = [
  {
    name: 'every node',
    kustomized: () => overlay(`${kubernetes}/overlays/every-node`),
    values: {},
  },
  {
    name: 'some nodes, in place of kube-proxy',
    kustomized: () => overlay(`${kubernetes}/overlays/replace-kube-proxy`),
    values: { replaceKubeProxy: true },
  },
  {
    name: 'userspace',
    kustomized: async t =>
      withMode(await buildWith(t, 'components/userspace'), 'userspace'),
    values: { config: { mode: 'userspace' } },
  },
  {
    name: 'connect-time',
    kustomized: t => buildWith(t, 'components/connect-time'),
    values: { connectTime: true },
  },
  {
    name: 'non-root',
    kustomized: t => buildWith(t, 'components/non-root'),
    values: { nonRoot: true },
  },
]
const neither = noHelm || noKustomize

for (const { name, kustomized, values } of pairs)
  t.test(`the chart makes what kustomize makes: ${name}`, { skip: neither }, async t => {
    const rendered = (await render(values)).objects
    const expected = intended((await kustomized(t)).objects)
    t.strictSame(sorted(plain(rendered)), sorted(plain(expected)))
  })

t.test('the chart makes what kustomize makes: monitoring', { skip: neither }, async t => {
  const { objects } = await overlay('deploy/monitoring')
  const nameOf = ({ kind, metadata }: KubeObject): string => `${kind} ${metadata.name}`
  const names = new Set(objects.map(nameOf))
  const rendered = (await render(monitoring)).objects.filter(object =>
    names.has(nameOf(object)),
  )
  t.strictSame(sorted(plain(rendered)), sorted(plain(intended(objects))))
})

t.test('without values it has the mode of `usher run` by itself', { skip }, async t => {
  const built = await render({})
  const { mode, warnings } = await settingsOf(built.usher, configOf(built))
  t.strictSame(mode, (await plainSettings()).mode)
  t.strictSame(warnings, [])
})

t.test('each mode has the flags that are of it', { skip }, async t => {
  for (const [mode, flags] of [
    ['userspace', ['--keep-rules', '--state-dir=/var/lib/usher']],
    ['nftables', ['--state-dir=/var/lib/usher']],
    ['iptables', []],
    ['ipvs', []],
  ] as const) {
    const built = await render({ config: { mode } })
    const settings = await settingsOf(built.usher, configOf(built))
    t.equal(settings.mode.mode, mode)
    t.strictSame(settings.warnings, [], mode)
    t.strictSame(
      built.usher.args.filter(arg => /keep-rules|state-dir/.test(arg)),
      flags,
    )
  }
})

t.test('helm test is a pod of the cluster where Usher is', { skip }, async t => {
  const only = ['--show-only', 'templates/test.yaml']
  for (const values of [{}, { replaceKubeProxy: true, nodeSelector: { pool: 'a' } }]) {
    const [pod] = (await render(values, 'usher', only)).objects
    const built = await render(values)
    const spec = pod?.spec as unknown as PodSpec
    t.match(pod?.metadata.annotations, { 'helm.sh/hook': 'test' })
    const name = 'app.kubernetes.io/name'
    const { matchLabels } = built.the('DaemonSet').spec.selector
    t.ok(matchLabels[name])
    t.not(pod?.metadata.labels?.[name], matchLabels[name], 'it is not the DaemonSet’s')
    t.strictSame(spec.nodeSelector, built.pod.nodeSelector)
    t.equal(spec['hostNetwork'], undefined, 'it comes to Services as others do')
    const [container] = spec.containers
    t.equal(container?.image, built.usher.image)
    const [command, ...words] = container?.args ?? []
    t.equal(command, 'wait')
    // Longer than a relay dials: before that it accepts, whether or not there is an endpoint.
    const { for: targets, stay, timeout } = parseOptions('wait', words)
    t.match(targets, [{ host: 'kubernetes.default.svc', port: 443 }])
    t.ok(stay > (await plainSettings()).options.dialLadder.reduce((sum, ms) => sum + ms))
    t.ok(timeout > stay)
  }
})

t.test('runbooks are where the values say', { skip }, async t => {
  const runbookUrl = 'https://git.example/usher/docs/troubleshooting.md'
  const values = { prometheusRule: { enabled: true, runbookUrl } }
  const urls = (built: Built): readonly string[] =>
    JSON.stringify(built.the('PrometheusRule')).match(/(?<="runbook_url":")[^"]*/g) ?? []
  const moved = urls(await render(values))
  const plainUrls = urls(await render({ prometheusRule: { enabled: true } }))
  t.ok(moved.length > 10)
  t.strictSame(
    moved,
    plainUrls.map(url => url.replace(/^[^#]*/, runbookUrl)),
  )
})

const podOf = (object: KubeObject | undefined): Values => {
  const { template } = (object?.spec ?? { template: { spec: {} } }) as {
    readonly template: { readonly spec: Values }
  }
  return template.spec
}

const ofUninstall = ['--show-only', 'templates/cleanup.yaml'] as const

t.test('an uninstall cleans up as the one by hand does', { skip }, async t => {
  const { objects } = await render({}, 'usher', ofUninstall)
  const kinds = objects.map(({ kind }) => kind).toSorted()
  t.strictSame(kinds, ['DaemonSet', 'Job', 'Role', 'RoleBinding', 'ServiceAccount'])
  for (const { kind, metadata } of objects)
    t.match(metadata.annotations, {
      'helm.sh/hook': 'post-delete',
      'helm.sh/hook-delete-policy': 'before-hook-creation,hook-succeeded',
      // What it is made of, the cleanup, and what waits for it.
      ...(kind !== 'DaemonSet' && { 'helm.sh/hook-weight': kind === 'Job' ? '1' : '-1' }),
    })
  const [byHand] = readObjects(`${kubernetes}/cleanup-every-node.yaml`)
  const made = objects.find(({ kind }) => kind === 'DaemonSet')
  const specOf = (object: KubeObject | undefined): unknown => {
    const [copy] = plain(object === undefined ? [] : [object])
    return JSON.parse(
      JSON.stringify(copy?.spec).replaceAll('"app.kubernetes.io/instance":"usher",', ''),
    )
  }
  t.strictSame(specOf(made), specOf(byHand))
})

t.test('an uninstall cleans up where Usher was, and nowhere else', { skip }, async t => {
  for (const values of [
    { replaceKubeProxy: true, nodeSelector: { pool: 'a' } },
    { nodeSelector: { pool: 'a' } },
    {},
  ]) {
    const selectorOf = async (template: string): Promise<unknown> => {
      const only = ['--show-only', `templates/${template}`]
      const { objects } = await render(values, 'usher', only)
      return podOf(objects.find(({ kind }) => kind === 'DaemonSet'))['nodeSelector']
    }
    t.strictSame(await selectorOf('cleanup.yaml'), await selectorOf('daemon-set.yaml'))
  }
})

t.test(
  'who waits for an uninstall waits on a Linux node that lives',
  { skip },
  async t => {
    const { objects } = await render({}, 'r'.repeat(53), ofUninstall)
    const job = objects.find(({ kind }) => kind === 'Job')
    const { nodeSelector, tolerations } = podOf(job)
    t.strictSame(nodeSelector, { 'kubernetes.io/os': 'linux' })
    // Lost nodes have a taint NoExecute.
    t.strictSame(tolerations, [{ operator: 'Exists', effect: 'NoSchedule' }])
    // Its name becomes a label.
    t.match(job?.metadata.name, /^r{53}-u-cleanup$/)
    t.ok((job?.metadata.name ?? '').length < 64)
  },
)

t.test('an uninstall takes programs of connect-time out', { skip }, async t => {
  const { objects } = await render({ connectTime: true }, 'usher', ofUninstall)
  const made = JSON.stringify(objects.find(({ kind }) => kind === 'DaemonSet'))
  t.match(made, '"add":["NET_ADMIN","NET_RAW","BPF"]')
  t.match(made, '"mountPath":"/sys/fs/bpf"')
})

t.test('the old pod ends first where that is asked for', { skip }, async t => {
  const strategyOf = async (values: Values): Promise<unknown> =>
    (await render(values)).the('DaemonSet').spec.updateStrategy
  const rollingUpdate = { maxSurge: 0, maxUnavailable: '10%' }
  const asked = { type: 'RollingUpdate', rollingUpdate }
  t.strictSame(await strategyOf({ updateStrategy: { rollingUpdate } }), asked)
  const surge = { maxSurge: '10%', maxUnavailable: 0 }
  const values = { nonRoot: true, updateStrategy: { rollingUpdate: surge } }
  t.strictSame(await strategyOf(values), asked, 'as many, where none can take over')
})

t.test('helm finds no fault in the chart', { skip }, async t => {
  for (const values of [
    {},
    { replaceKubeProxy: true, connectTime: true, ...monitoring },
    { nonRoot: true },
  ])
    t.match(await lint(values), '1 chart(s) linted, 0 chart(s) failed')
  const [{ version: ofChart, appVersion }] = parseYaml(
    chartFile('Chart.yaml'),
    'Chart.yaml',
  ) as [{ version: string; appVersion: string }]
  t.strictSame([ofChart, appVersion], [version(), version()])
})

t.test('a value that means nothing is refused, with its name', { skip }, async t => {
  // Helm 3 and Helm 4 say it in different words.
  const wrong: readonly (readonly [RegExp, Values])[] = [
    [/image.*\btga\b/, { image: { tga: '1' } }],
    [/image.digest/, { image: { digest: '1234' } }],
    [/\btoleration\b/, { toleration: [] }],
    [/podMonitor.*\benable\b/, { podMonitor: { enable: true } }],
    [/resources.*\bcpu\b/, { resources: { cpu: 1 } }],
    [/config.mode.*one of/, { config: { mode: 'ebpf' } }],
    [/config.healthzBindAddress/, { config: { healthzBindAddress: '0.0.0.0' } }],
    [/apiServer.port/, { apiServer: { host: 'a', port: 0 } }],
    [/apiServer.host/, { apiServer: { host: 'https://192.0.2.10' } }],
    [/\bconfig\b/, { config: null }],
    [/runbookUrl/, { prometheusRule: { runbookUrl: 'docs/troubleshooting.md' } }],
    [/apiServer\.host is not set/, { apiServer: { host: '' } }],
    [/set one of them to false/, { connectTime: true, nonRoot: true }],
    [/one of maxSurge and/, { updateStrategy: { rollingUpdate: { maxSurge: 0 } } }],
    [/one of maxSurge and/, { updateStrategy: { rollingUpdate: { maxUnavailable: 1 } } }],
  ]
  for (const [said, values] of wrong) t.match(await refusal(values), said)
})

t.test('no part of the schema lets unknown names pass but those it says', async t => {
  const open: string[] = []
  const look = (schema: unknown, path: string): void => {
    if (typeof schema !== 'object' || schema === null) return
    const { type, additionalProperties: more } = schema as Values
    if (type === 'object' && more === undefined) open.push(path)
    for (const [name, part] of Object.entries(schema)) look(part, `${path}/${name}`)
  }
  look(JSON.parse(chartFile('values.schema.json')), '')
  t.strictSame(open, ['/properties/config', '/properties/global'])
})

t.test('a change of the configuration is a rolling update', { skip }, async t => {
  const sumOf = async (config: Values): Promise<string | undefined> => {
    const built = await render({ config })
    const annotations = built.the('DaemonSet').spec.template.metadata.annotations
    const data = built.configMap('usher-config')?.data?.['config.yaml'] ?? ''
    const sum = createHash('sha256').update(data.trimEnd()).digest('hex')
    t.equal(annotations?.['checksum/config'], sum)
    return sum
  }
  t.not(await sumOf({}), await sumOf({ mode: 'nftables' }))
})

t.test('each value gets where it belongs', { skip }, async t => {
  const digest = `sha256:${'0'.repeat(64)}`
  const built = await render(
    {
      image: { repository: 'registry.example/usher', digest, pullPolicy: 'Always' },
      imagePullSecrets: [{ name: 'registry' }],
      apiServer: { host: '2001:db8::1', port: 443 },
      config: { healthzBindAddress: '[::]:10300', metricsBindAddress: '[::1]:10301' },
      extraArgs: ['--relay-workers=2'],
      resources: { limits: { memory: '2Gi' } },
      priorityClassName: 'high',
      nodeSelector: { pool: 'a', 'node-proxy': 'other' },
      replaceKubeProxy: true,
      tolerations: [],
      podAnnotations: { 'example.com/owner': 'net' },
      podLabels: { team: 'net' },
      affinity: { nodeAffinity: {} },
      updateStrategy: { type: 'OnDelete', rollingUpdate: null },
      podMonitor: { enabled: true, labels: { release: 'prometheus' } },
    },
    'edge',
  )
  const { usher, pod } = built
  t.match(usher, {
    image: `registry.example/usher@${digest}`,
    imagePullPolicy: 'Always',
    livenessProbe: { httpGet: { port: 10300 } },
    readinessProbe: { httpGet: { port: 10300 } },
    resources: { requests: { cpu: '100m', memory: '192Mi' }, limits: { memory: '2Gi' } },
  })
  t.match(usher.env.slice(2), [{ value: '2001:db8::1' }, { value: '443' }])
  t.equal(usher.args.at(-1), '--relay-workers=2')
  t.match(pod, {
    imagePullSecrets: [{ name: 'registry' }],
    priorityClassName: 'high',
    nodeSelector: { 'kubernetes.io/os': 'linux', 'node-proxy': 'usher', pool: 'a' },
    tolerations: [],
  })
  const { spec } = built.the('DaemonSet')
  const { annotations, labels } = spec.template.metadata
  t.match(annotations, { 'example.com/owner': 'net' })
  t.match(labels, { team: 'net', 'app.kubernetes.io/name': 'usher' })
  t.strictSame(built.pod['affinity'], { nodeAffinity: {} })
  t.strictSame(spec.updateStrategy, { type: 'OnDelete' })
  const monitor = built.the('PodMonitor')
  t.match(monitor.metadata.labels, { release: 'prometheus' })
  const replacements = JSON.stringify(monitor).match(/(?<="replacement":")[^"]*:\d+/g)
  t.strictSame(replacements, ['$1:10301', '[$1]:10301'])
  const bare = await render({ nodeSelector: null, tolerations: null, resources: null })
  t.strictSame(bare.pod.nodeSelector, {}, 'null takes a default away')
  const names = new Set(built.objects.map(({ metadata }) => metadata.name))
  t.strictSame(names, new Set(['edge-usher', 'edge-usher-config']))
  const { roleRef, subjects } = built.the('ClusterRoleBinding')
  t.strictSame(
    [roleRef?.name, subjects?.[0]?.name, pod.serviceAccountName],
    ['edge-usher', 'edge-usher', 'edge-usher'],
  )
})

t.test('what helm says after it names what it has made', { skip }, async t => {
  // Helm 3 asks a server for its version, even for a dry run.
  const kubeconfig = (await startApiServer(t)).kubeconfig()
  const said = await notes(kubeconfig, { replaceKubeProxy: true })
  t.match(said, 'kubectl -n kube-system rollout status daemonset/usher\n')
  t.match(said, 'exec daemonset/usher -- usher status\n')
  t.match(said, 'helm -n kube-system test usher\n')
  t.match(said, 'node-proxy=usher')
  t.match(said, `Usher ${version()}. `)
  const asked = await notes(kubeconfig, { config: { mode: 'nftables' } })
  t.match(asked, `Usher ${version()} in mode nftables. `)
  t.notMatch(await notes(kubeconfig, {}), /node-proxy|Prometheus/)

  const wantsKinds = isHelm3() && 'Helm 3 wants a server with PodMonitors'
  await t.test('and what is still in the way', { skip: wantsKinds }, async t => {
    const monitored = await notes(kubeconfig, { podMonitor: { enabled: true } })
    t.match(monitored, "Prometheus can't reach the metrics on 127.0.0.1:10249")
  })
})

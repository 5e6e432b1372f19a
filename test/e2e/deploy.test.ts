// A process of its own: long, and it mostly waits.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from 'tap'
import { parseDuration } from '../../src/util/duration.ts'
import { withDefaults } from '../../src/config/kube-proxy/configuration.ts'
import { validate } from '../../src/config/kube-proxy/validate.ts'
import { loadFile } from '../../src/config/settings/load-file.ts'
import { version } from '../../src/cli/version.ts'
import {
  endpointSlices,
  node,
  serviceCIDRs,
  services,
} from '../../src/source/kubernetes/collection.ts'
import {
  build,
  Built,
  buildWith,
  kubernetes,
  noKustomize,
  parseYaml,
  plainSettings,
  type PodSpec,
  type PolicyRule,
  readObjects,
  settingsOf,
  top,
} from '../support/deploy.ts'

const base = `${kubernetes}/base`
const overlays = readdirSync(`${top}${kubernetes}/overlays`)
const read = (path: string): string => readFileSync(`${top}${path}`, 'utf8')
const files = (suffix: string): string[] =>
  readdirSync(`${top}deploy`, { recursive: true, encoding: 'utf8' })
    // What helm makes YAML of is none yet; deploy-helm.test.ts looks at that.
    .filter(name => name.endsWith(suffix) && !name.startsWith('helm/usher/templates'))
    .map(name => join('deploy', name))

/** The base by hand, for what has to be known where kubectl is not installed. */
const byHand = new Built(
  ['service-account', 'cluster-role', 'cluster-role-binding', 'daemon-set'].flatMap(
    name => readObjects(`${base}/${name}.yaml`),
  ),
)
const config = readObjects(`${base}/config.yaml`)[0] as unknown as Readonly<
  Record<string, string>
>

t.test('every manifest is YAML without errors, warnings or twin keys', async t => {
  const names = files('.yaml')
  t.ok(names.length > 10, `${names.length} files`)
  for (const name of names) t.ok(parseYaml(read(name), name).length > 0, name)
})

t.test('the role allows what Usher asks for, and nothing else', async t => {
  const verbs = ({ apiGroups, resources, verbs: allowed }: PolicyRule): string[] =>
    apiGroups.flatMap(group =>
      resources.flatMap(name => allowed.map(verb => `${group}/${name} ${verb}`)),
    )
  const wanted = [services, ...endpointSlices, node('n'), ...serviceCIDRs].flatMap(
    ({ apiVersion, resource }) => {
      const [group] = apiVersion.includes('/') ? apiVersion.split('/') : ['']
      return [`${group}/${resource} list`, `${group}/${resource} watch`]
    },
  )
  const written = ['events.k8s.io/events create', 'events.k8s.io/events patch']
  t.strictSame(
    (byHand.the('ClusterRole').rules ?? []).flatMap(verbs).toSorted(),
    [...new Set([...wanted, ...written])].toSorted(),
  )
})

t.test('the role is bound to the account that the pods run as', async t => {
  const { roleRef, subjects } = byHand.the('ClusterRoleBinding')
  t.match(roleRef, { kind: 'ClusterRole', name: byHand.the('ClusterRole').metadata.name })
  const { name } = byHand.the('ServiceAccount').metadata
  const kustomization = readObjects(`${base}/kustomization.yaml`)[0] as unknown
  const { namespace } = kustomization as { namespace: string }
  t.strictSame(subjects, [{ kind: 'ServiceAccount', name, namespace }])
  t.equal(byHand.pod.serviceAccountName, name)
})

t.test('the selector finds the pods', async t => {
  const { selector, template } = byHand.the('DaemonSet').spec
  t.ok(Object.keys(selector.matchLabels).length > 0)
  t.match(template.metadata.labels, selector.matchLabels)
})

t.test('the probes ask what the configuration serves, liveness on /livez', async t => {
  const { livenessProbe, readinessProbe } = byHand.usher
  t.equal(config['kind'], 'KubeProxyConfiguration')
  const port = Number(config['healthzBindAddress']?.split(':').at(-1))
  t.strictSame([livenessProbe.httpGet.path, livenessProbe.httpGet.port], ['/livez', port])
  t.match(readinessProbe.httpGet, { path: '/healthz', port })
  const patience = livenessProbe.periodSeconds * livenessProbe.failureThreshold
  t.ok(patience >= 60, `a restart cuts connections, and comes after ${patience} s`)
})

t.test('a new pod takes over from the old one of its node', async t => {
  const { usher, pod } = byHand
  const updates = byHand.the('DaemonSet').spec.updateStrategy
  t.match(updates, { rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } })
  t.equal(usher.ports, undefined, 'the node has each port once')
  const mounted = (path: string) => {
    const mount = usher.volumeMounts.find(({ mountPath }) => mountPath === path)
    return pod.volumes.find(({ name }) => name === mount?.name)
  }
  const socket = usher.env.find(({ name }) => name === 'USHER_CONTROL_SOCKET')?.value
  t.ok(mounted(dirname(socket ?? ''))?.hostPath, 'both see the socket')
  const { podDir } = (await settingsOf(usher, read(`${base}/config.yaml`))).options
  t.ok(mounted(podDir)?.emptyDir, 'each has a directory of its own')
  const [program = '', ...words] = usher.startupProbe.exec?.command ?? []
  const directory = t.testdir({})
  const asked = (): number | null =>
    spawnSync(
      program,
      words.map(word => word.replace(podDir, directory)),
    ).status
  t.equal(asked(), 1)
  writeFileSync(join(directory, 'serving'), '')
  t.equal(asked(), 0)
})

t.test('the configuration is one that Usher accepts, strictly', async t => {
  const path = `${top}${base}/config.yaml`
  const { tree, warnings } = await loadFile(path, file => readFile(file, 'utf8'))
  t.strictSame(warnings, [])
  t.equal(validate(withDefaults(tree)), '')
})

t.test('its mode is that of `usher run` by itself', async t => {
  const { mode, warnings } = await settingsOf(byHand.usher, read(`${base}/config.yaml`))
  t.strictSame(mode, (await plainSettings()).mode)
  t.strictSame(warnings, [], 'and no flag is of another mode')
})

t.test('the pod ends by itself before it is killed', async t => {
  const flag = byHand.usher.args.find(arg => arg.startsWith('--drain-timeout='))
  const drainMs = parseDuration(flag?.split('=')[1] ?? '') ?? Number.NaN
  t.ok(drainMs > 0, String(flag))
  t.ok(byHand.pod.terminationGracePeriodSeconds * 1000 >= drainMs + 5000)
})

t.test('the pod is one that survives on any node, early and late', async t => {
  t.match(byHand.pod, {
    hostNetwork: true,
    dnsPolicy: 'Default',
    priorityClassName: 'system-node-critical',
    tolerations: [{ operator: 'Exists' }],
  })
  t.strictSame(byHand.pod['tolerations'], [{ operator: 'Exists' }], 'of every taint')
  const name = byHand.usher.env.find(each => each.name === 'NODE_NAME')
  t.equal(name?.valueFrom?.fieldRef?.fieldPath, 'spec.nodeName')
  t.ok(byHand.usher.args.includes('--hostname-override=$(NODE_NAME)'))
})

t.test(
  'Usher may do to the network what it must, and nothing else that root may',
  async t => {
    t.match(byHand.pod['securityContext'], { seccompProfile: { type: 'RuntimeDefault' } })
    t.strictSame(byHand.usher.securityContext, {
      runAsUser: 0,
      runAsGroup: 0,
      privileged: false,
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: {
        drop: ['ALL'],
        add: ['NET_ADMIN', 'NET_RAW', 'NET_BIND_SERVICE', 'SETUID', 'SETGID', 'KILL'],
      },
    })
  },
)

t.test(
  'of the host it has the xtables lock and a directory for its settings',
  async t => {
    const paths = byHand.pod.volumes.flatMap(({ hostPath }) => hostPath?.path ?? [])
    t.strictSame(paths, ['/run/usher', '/run/xtables.lock'])
    const mounts = byHand.usher.volumeMounts.map(({ mountPath }) => mountPath)
    const own = ['/etc/usher', '/run/usher-pod']
    t.strictSame(
      mounts.toSorted(),
      [...own, ...paths].toSorted(),
      'where it is in the pod',
    )
  },
)

t.test('what stays on a node the cleanup takes, with the rights for that', async t => {
  const [pod] = readObjects(`${kubernetes}/cleanup.yaml`)
  if (pod === undefined) throw new Error('cleanup.yaml is empty')
  const { containers, ...spec } = pod.spec as unknown as PodSpec
  t.match(spec, { nodeName: 'NODE', hostNetwork: true, restartPolicy: 'Never' })
  const [container] = containers
  t.equal(container?.image, byHand.usher.image)
  t.strictSame(container?.args, ['cleanup'])
  t.strictSame(container?.securityContext, {
    ...byHand.usher.securityContext,
    capabilities: { drop: ['ALL'], add: ['NET_ADMIN', 'NET_RAW'] },
  })
  const [everywhere] = readObjects(`${kubernetes}/cleanup-every-node.yaml`)
  const template = everywhere?.spec as unknown as { readonly template: { spec: Init } }
  const [cleanup] = template.template.spec.initContainers
  t.strictSame(cleanup?.securityContext, container?.securityContext)
  t.strictSame([cleanup?.image, cleanup?.args], [container?.image, container?.args])
})

interface Init {
  readonly initContainers: PodSpec['containers']
}

for (const overlay of overlays) {
  t.test(`the overlay ${overlay} is complete`, { skip: noKustomize }, async t => {
    const { all } = await build(`${kubernetes}/overlays/${overlay}`)
    const kinds = all.objects.map(({ kind }) => kind).toSorted()
    const expected = 'ClusterRole ClusterRoleBinding ConfigMap ConfigMap DaemonSet'
    t.strictSame(kinds, [...expected.split(' '), 'ServiceAccount'])
    for (const { kind, metadata } of all.objects) {
      const where = kind.startsWith('Cluster') ? undefined : 'kube-system'
      t.equal(metadata.namespace, where, `namespace of ${kind} ${metadata.name}`)
    }
    for (const { name, image, env } of all.pod.containers) {
      t.match(image, /:\d+\.\d+\.\d+-tools$/, `${name} has an image with a version`)
      for (const { valueFrom } of env) {
        const ref = valueFrom?.configMapKeyRef
        if (ref === undefined) continue
        t.ok(all.configMap(ref.name)?.data?.[ref.key], `${ref.key} of ${ref.name}`)
      }
    }
    t.equal(all.usher.image, `usher:${version()}-tools`)
    const path = `${kubernetes}/overlays/${overlay}`
    const [, component = ''] =
      /^# components: \[(\S+)\]$/m.exec(read(`${path}/kustomization.yaml`)) ?? []
    t.match(component, /\/userspace$/, 'userspace is a line that needs no more')
    t.ok(existsSync(join(top, path, component, 'kustomization.yaml')))
    t.strictSame(
      all.usher.env.map(({ name }) => name),
      [
        'USHER_CONTROL_SOCKET',
        'NODE_NAME',
        'KUBERNETES_SERVICE_HOST',
        'KUBERNETES_SERVICE_PORT',
      ],
      'the API server is not looked for behind its ClusterIP',
    )
    const { configMap } = all.pod.volumes.find(({ name }) => name === 'config') ?? {}
    const mounted = all.configMap(configMap?.name ?? '')?.data
    t.strictSame(Object.keys(mounted ?? {}), ['config.yaml'])
    const mount = all.usher.volumeMounts.find(({ name }) => name === 'config')
    t.ok(all.usher.args.includes(`--config=${mount?.mountPath}/config.yaml`))
  })
}

t.test(
  'userspace adds what a restart in that mode needs, and nothing else',
  { skip: noKustomize },
  async t => {
    const built = await buildWith(t, 'components/userspace')
    const { usher, pod } = built
    const { mode, warnings } = await settingsOf(usher, read(`${base}/config.yaml`))
    t.equal(mode.mode, 'userspace')
    t.strictSame(warnings, [])
    const added = ['--keep-rules', '--state-dir=/var/lib/usher']
    t.strictSame(usher.args, [...byHand.usher.args, ...added])
    t.strictSame(usher.securityContext, byHand.usher.securityContext)
    const paths = pod.volumes.flatMap(({ hostPath }) => hostPath?.path ?? [])
    t.strictSame(paths.toSorted(), ['/run/usher', '/run/xtables.lock', '/var/lib/usher'])
    t.strictSame(
      pod.volumes.map(({ name }) => name).toSorted(),
      usher.volumeMounts.map(({ name }) => name).toSorted(),
    )
  },
)

t.test('non-root takes all of it away', { skip: noKustomize }, async t => {
  const built = await buildWith(t, 'components/non-root')
  const { usher, pod } = built
  t.strictSame(usher.securityContext, {
    ...byHand.usher.securityContext,
    runAsNonRoot: true,
    runAsUser: 2_071_510_256,
    runAsGroup: 2_071_510_256,
    capabilities: { drop: ['ALL'] },
  })
  t.ok(usher.args.includes('--capture=listen'), 'what works without')
  const { mode } = await settingsOf(usher, read(`${base}/config.yaml`))
  t.equal(mode.mode, 'userspace', 'which no kernel mode is')
  t.ok(usher.args.includes('run'), 'beside its other arguments')
  t.strictSame(
    pod.volumes.filter(({ hostPath }) => hostPath !== undefined),
    [],
    'no path of the host',
  )
  t.notOk(usher.env.some(({ name }) => name === 'USHER_CONTROL_SOCKET'))
  const updates = built.the('DaemonSet').spec.updateStrategy
  t.match(updates, { rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } })
  t.strictSame(
    pod.volumes.map(({ name }) => name).toSorted(),
    usher.volumeMounts.map(({ name }) => name).toSorted(),
  )
})

t.test(
  'connect-time adds what it takes, and nothing else',
  { skip: noKustomize },
  async t => {
    const { usher, pod } = await buildWith(t, 'components/connect-time')
    const { securityContext } = byHand.usher
    const { capabilities } = securityContext as unknown as {
      capabilities: { readonly add: readonly string[] }
    }
    t.strictSame(usher.securityContext, {
      ...securityContext,
      capabilities: { ...capabilities, add: [...capabilities.add, 'BPF'] },
    })
    t.ok(usher.args.includes('--connect-time=on'))
    const paths = new Set(pod.volumes.flatMap(({ hostPath }) => hostPath?.path ?? []))
    for (const path of ['/sys/fs/cgroup', '/sys/fs/bpf']) t.ok(paths.has(path), path)
    t.strictSame(
      pod.volumes.map(({ name }) => name).toSorted(),
      usher.volumeMounts.map(({ name }) => name).toSorted(),
    )
  },
)

t.test('kube-proxy leaves just the nodes that Usher is for', async t => {
  const overlay = `${kubernetes}/overlays/replace-kube-proxy`
  const [patch] = readObjects(`${overlay}/kube-proxy-leaves.yaml`)
  const term = { key: 'node-proxy', operator: 'NotIn', values: ['usher'] }
  t.match(patch?.spec.template.spec['affinity'], {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [{ matchExpressions: [term] }],
      },
    },
  })
  if (noKustomize !== false) return t.comment(`nodeSelector not checked: ${noKustomize}`)
  const { all } = await build(overlay)
  t.strictSame(all.pod.nodeSelector, {
    ...byHand.pod.nodeSelector,
    'node-proxy': 'usher',
  })
})
